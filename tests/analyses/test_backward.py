import pytest
from drawing import draw

from gpuprof.facts.moves import backward_peer_share
from gpuprof.model.schema import NVTX_RANGES
from gpuprof.model.selection import Selection

_PEER = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1}


def _recording(*texts, thread=1):
    """Copies of 10, 30 and 60 ns, each launched in a range of its text."""
    copies = [(100, 110), (200, 230), (300, 360)]
    return draw(
        memcpys=[(s, e, {**_PEER, "correlation_id": n}) for n, (s, e) in enumerate(copies)],
        api_calls=[(10 * n + 1, 10 * n + 2, {"correlation_id": n}) for n in range(3)],
        nvtx_ranges=[
            (10 * n, 10 * n + 9, {"text": text, "thread_id": thread})
            for n, text in enumerate(texts)
        ],
    )


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        pytest.param([], None, id="no-ranges"),
        pytest.param(["forward", "loss", "optimizer"], None, id="none-names-it"),
        pytest.param(["forward", "backward", "Backward pass"], 0.9, id="as-a-script-says"),
        pytest.param(["aten::mm", "MmBackward0, seq = 12", "step"], 0.3, id="emit-nvtx"),
        pytest.param(
            ["x", "y", "autograd::engine::evaluate_function: AddBackward0"], 0.6, id="autograd"
        ),
        pytest.param(["gradients/item_tower", "grads", "upgrade"], 0.4, id="gradients"),
    ],
)
def test_copies_belong_to_the_ranges_that_launched_them(texts, share):
    assert backward_peer_share(_recording(*texts)) == share


def test_nested_ranges_count_a_copy_once():
    profile = _recording("backward", "MmBackward0", "forward")
    inner = profile.table("nvtx_ranges").to_pylist()
    around = {**inner[0], "end_ns": 29}

    nested = profile.with_table("nvtx_ranges", NVTX_RANGES.table([around, *inner]))

    assert backward_peer_share(nested) == 1


def test_a_range_that_launched_nothing_tells_nothing():
    assert backward_peer_share(_recording("backward", thread=2)) is None


def test_only_the_part_that_is_looked_at_counts():
    profile = _recording("forward", "backward", "forward").restricted(Selection(((100, 300),)))

    assert backward_peer_share(profile) == 0.75


def test_without_copies_between_devices_there_is_no_share():
    profile = draw(
        kernels=[(5, 9, {"correlation_id": 1})],
        api_calls=[(1, 2, {"correlation_id": 1})],
        nvtx_ranges=[(0, 3, {"text": "backward"})],
    )

    assert backward_peer_share(profile) is None
    assert backward_peer_share(draw()) is None
