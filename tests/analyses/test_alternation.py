"""Parts of a program that take turns on two devices."""

import pytest
from drawing import draw

from gpuprof.analyses.alternation import ALTERNATION, alternation

NAMES = ("src", "dst", "there", "back", "turns", "total_ns", "bytes")


def rows(profile, names=NAMES):
    return [tuple(row[name] for name in names) for row in alternation(profile).to_pylist()]


def layers(*moves, kernels=None):
    """Copies of 10 ns every 100 ns: (from, to, range); a kernel follows each where it went."""
    drawn = {"kernels": [], "memcpys": [], "api_calls": [], "nvtx_ranges": []}
    for number, (src, dst, text) in enumerate(moves):
        at = 100 * number
        ends = {"src_device_id": src, "dst_device_id": dst, "device_id": src, "path": "direct"}
        copy = {"memcpy_kind": "PtoP", "bytes": 8, "correlation_id": number} | ends
        drawn["memcpys"].append((at + 10, at + 20, copy))
        drawn["api_calls"].append((at, at + 1, {"correlation_id": number}))
        if text is not None:
            drawn["nvtx_ranges"].append((at, at + 5, {"text": text}))
        if kernels is None or number in kernels:
            drawn["kernels"].append((at + 30, at + 60, {"device_id": dst}))
    return draw(**drawn)


ALTERNATING = [(0, 1, "layer 1"), (1, 0, "layer 2")] * 3


def test_nothing_copied_is_an_empty_table():
    assert alternation(draw()).schema == ALTERNATION.arrow
    assert rows(draw()) == []


def test_layers_in_turn_are_named_with_both_ends():
    assert rows(layers(*ALTERNATING)) == [
        ("device 0", "device 1", "layer 1", "layer 2", 3, 30, 24),
        ("device 1", "device 0", "layer 2", "layer 1", 2, 20, 16),
    ]
    [first, _] = alternation(layers(*ALTERNATING)).to_pylist()
    assert first["suggestion"] == 'place "layer 1" and "layer 2" on one device'


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(layers(*[(0, 1, "a"), (1, 0, "a")] * 3), id="one-range"),
        pytest.param(layers(*[(0, 1, None), (1, 0, "b")] * 3), id="unknown-range"),
        pytest.param(layers(*[(0, 1, "a"), (0, 1, "b")] * 3), id="one-way"),
        pytest.param(layers(*ALTERNATING, kernels=()), id="exchange-without-work"),
        pytest.param(layers(*ALTERNATING[:2]), id="once-is-chance"),
    ],
)
def test_other_copies_are_no_turns(profile):
    assert rows(profile) == []


def test_copies_with_other_devices_do_not_end_a_turn():
    moves = [(0, 1, "a"), (2, 3, "x"), (1, 0, "b"), (3, 0, "y")]

    assert rows(layers(*moves * 2), NAMES[:5]) == [
        ("device 0", "device 1", "a", "b", 2),
    ]


def tensor(src, dst, made, taken, size=64):
    ends = {"src_device": f"CPU:{src}", "dst_device": f"CPU:{dst}", "tensor": made}
    ends |= {"src_operation": made, "dst_operation": taken, "function": "step"}
    flags = {"is_control": False, "is_gradient": False}
    return ends | flags | {"calls": 10, "bytes_per_call": size, "bytes": 10 * size}


def test_a_tower_whose_forward_pass_goes_both_ways_alternates():
    profile = draw(
        tensor_copies=[
            tensor(0, 1, "user/embed", "user/conv"),
            tensor(1, 0, "user/pool", "user/dense", size=32),
            tensor(0, 1, "item/embed", "item/conv"),
            tensor(1, 0, "item/grad", "item/update") | {"is_gradient": True},
            tensor(0, 1, "input", "other/embed"),
            tensor(1, 0, "other/dense", "concat"),
        ],
        functions=[{"function": "step", "executions": 10, "is_step": True}],
    )

    assert rows(profile, (*NAMES, "name_scope", "suggestion")) == [
        (
            "CPU:0",
            "CPU:1",
            "user/conv",
            "user/pool",
            10,
            None,
            960,
            "user",
            "place all of user on one device",
        )
    ]
