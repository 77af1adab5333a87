"""What samples of GPU metrics confirm, contradict and find."""

import pytest
from drawing import draw
from measured import scope_of

from gpuprof.findings.exposed_copies import of_copies
from gpuprof.findings.unfilled_gpus import of_scope

MB = 1_000_000
# Eight blocks on 80 multiprocessors.
FEW_BLOCKS = dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), 1) | {
    "grid_x": 8,
    "block_x": 256,
    "registers_per_thread": 32,
    "static_shared_memory_bytes": 0,
    "dynamic_shared_memory_bytes": 0,
}


def sampled(metric, *values, every_ns=100_000, device=0):
    return [
        {"start_ns": every_ns * n, "device_id": device, "value": value}
        | {"metric": f"{metric} [Throughput %]"}
        for n, value in enumerate(values)
    ]


def copied(kind, *samples):
    """A kernel and a copy of 0.5 ms each, one after the other."""
    ends = {"HtoD": "dst_device_id", "DtoH": "src_device_id"}
    copy = {"memcpy_kind": kind, ends[kind]: 0, "bytes": 10 * MB}
    return draw(
        kernels=[(0, 500_000)],
        memcpys=[(500_000, 1_000_000, copy)],
        gpu_metrics=[*samples],
    )


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        (94, ", 94.0 % of the peak of PCIe, as fast as it allows"),
        (80, ", 80.0 % of the peak of PCIe, as fast as it allows"),
        (79, ", 79.0 % of the peak of PCIe"),
        (50, ", 50.0 % of the peak of PCIe"),
        (49, ", 49.0 % of the peak of PCIe, which could carry more"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "way", "metrics"),
    [("HtoD", "host to device 0", "RX TX"), ("DtoH", "device 0 to host", "TX RX")],
)
def test_a_wait_for_copies_says_how_much_of_the_link_they_use(percent, said, kind, way, metrics):
    there, back = (f"PCIe {way} Throughput" for way in metrics.split())
    samples = [*sampled(there, *[0] * 5, *[percent] * 5), *sampled(back, *[1] * 10)]
    finding = next(of_copies(scope_of(copied(kind, *samples)))).with_details()

    begin = "waits for copies from and to the host"
    assert finding.phrase == f"{begin} ({way} at 20.0 GB/s{said}, one copy)"


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(sampled("PCIe RX Throughput", 9, every_ns=2_000_000), id="too-seldom"),
        pytest.param(sampled("PCIe RX Throughput", *[9] * 10, device=1), id="of-another-gpu"),
        pytest.param([], id="none"),
    ],
)
def test_without_a_sample_within_the_copies_nothing_is_said_of_the_link(samples):
    finding = next(of_copies(scope_of(copied("HtoD", *samples)))).with_details()

    assert "PCIe" not in finding.phrase


def computing(*samples, **columns):
    return draw(
        kernels=[(0, 1_000_000, columns)],
        devices=[{"device_id": 0, "compute_capability": "7.0", "multiprocessors": 80}],
        gpu_metrics=[*samples],
    )


def test_kernels_that_leave_most_multiprocessors_idle_cost_that():
    profile = computing(*sampled("SMs Active", *[31] * 10))

    (finding,) = of_scope(scope_of(profile))

    assert finding.cause == "idle_sms"
    assert finding.phrase == "computes with 31.0 % of its multiprocessors active, by samples"
    assert (finding.cost_ns, finding.win_ns) == (1_000_000, 690_000)
    assert "split their work into more blocks" in finding.suggestion
    assert not finding.is_sure


def test_a_half_of_the_multiprocessors_is_enough():
    assert [*of_scope(scope_of(computing(*sampled("SMs Active", *[50] * 10))))] == []


def test_a_step_that_hardly_computes_has_no_idle_multiprocessors():
    profile = draw(
        kernels=[(0, 90_000)],
        memcpys=[(90_000, 1_000_000)],
        gpu_metrics=sampled("SMs Active", *[10] * 100, every_ns=10_000),
    )

    assert [*of_scope(scope_of(profile))] == []


def test_the_kernel_with_few_blocks_is_named_in_place_of_all():
    profile = computing(*sampled("SMs Active", *[10] * 10), **FEW_BLOCKS)

    assert [finding.cause for finding in of_scope(scope_of(profile))] == ["small_grids"]
