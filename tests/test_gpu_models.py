"""GPUs by the names that recordings give them."""

import pytest

from gpuprof.base.gpu_models import GPUS, gpu_named, gpu_of_device


@pytest.mark.parametrize(
    ("device", "model"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla V100-PCIE-16GB", "V100-PCIe"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla P100-SXM2-16GB", "P100-SXM2"),
        ("Tesla K80", "K80"),
        ("Tesla T4", "T4"),
        ("GeForce GTX 1080 Ti", "GTX1080Ti"),
        ("NVIDIA GeForce RTX 3090", "RTX3090"),
        # Neither their rates nor their memory are those of the board of nearly this name.
        ("NVIDIA H100 NVL", None),
        ("NVIDIA A30 MIG 2g.12gb", None),
        ("GeForce GTX 1080", None),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GH200 120GB", None),
        ("TITAN V", None),
        ("", None),
    ],
)
def test_a_device_is_known_by_its_name(device: str, model: str | None) -> None:
    gpu = gpu_of_device(device)
    assert (None if gpu is None else gpu.name) == model


def test_the_memory_tells_boards_of_one_name_apart() -> None:
    assert gpu_of_device("NVIDIA A100-PG509-200", 42 << 30) == gpu_named("A100")
    assert gpu_of_device("NVIDIA A100-PG509-200", 85 << 30) == gpu_named("A100-80GB")


def test_tensor_cores_are_never_slower_than_without() -> None:
    for gpu in GPUS:
        assert (gpu.peak_flops_per_s("half") or gpu.flops_per_s) >= gpu.flops_per_s
        assert (gpu.peak_flops_per_s("float") or 0.0) >= gpu.flops_per_s
        assert gpu.peak_flops_per_s("double") is None
