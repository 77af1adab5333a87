"""Parts of a program that take turns on two devices."""

from collections import defaultdict
from itertools import chain, pairwise

from drawing import copied, draw
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instants
from strategies import rows as drawn

from gpuprof.analyses.avoidable_copies import alternation

NAMES = ("src", "dst", "there", "back", "turns", "total_ns", "bytes")


def rows(profile, names=NAMES):
    return [tuple(row[name] for name in names) for row in alternation(profile).to_pylist()]


def moved(start, end, way, size, text):
    """A copy, and the range that launched it; -1 is the host."""
    src, dst = (None if end < 0 else end for end in way)
    kind = "HtoD" if src is None else "DtoH" if dst is None else "PtoP"
    ends = {"src_device_id": src, "dst_device_id": dst, "device_id": max(way)}
    return (start, end, ends | {"memcpy_kind": kind, "bytes": size}, text)


def layers(*moves, kind="push_pop"):
    """Copies of 10 ns every 100 ns: (from, to, range); a kernel follows each where it went."""
    copies = [
        moved(100 * n + 10, 100 * n + 20, move[:2], 8, {"text": move[2], "range_kind": kind})
        for n, move in enumerate(moves)
    ]
    kernels = [
        (s + 20, s + 50, {"device_id": move[1]})
        for (s, *_), move in zip(copies, moves, strict=True)
    ]
    return copied(*copies, kernels=kernels)


ALTERNATING = [(0, 1, "layer 1"), (1, 0, "layer 2")] * 3


def test_layers_in_turn_are_named_with_both_ends():
    assert rows(layers(*ALTERNATING)) == [
        ("device 0", "device 1", "layer 1", "layer 2", 3, 30, 24),
        ("device 1", "device 0", "layer 2", "layer 1", 2, 20, 16),
    ]
    [first, _] = alternation(layers(*ALTERNATING)).to_pylist()
    assert first["suggestion"] == 'place "layer 1" and "layer 2" on one device'


def test_operations_are_no_parts_that_could_be_placed():
    # Each peer copy of a forward pass has one of the backward pass that goes back.
    node = "autograd::engine::evaluate_function: ToCopyBackward0"
    assert rows(layers(*[(0, 1, "aten::to"), (1, 0, node)] * 3, kind="operation")) == []


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


def there_and_back(pair):
    """Two copies in opposite directions, and the first again."""
    there, back = pair
    return there, (*back[:2], there[2][::-1], *back[3:]), there


MOVED = st.tuples(
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from([(0, 1), (1, 0), (0, 1), (1, 0), (1, 2), (2, 1), (-1, 0), (1, -1)]),
    st.sampled_from([None, 8, 8, 8]),
    st.sampled_from([None, "a", "a", "b", "b"]),
)
# Chance alone seldom goes there and back often enough.
MOVES = st.lists(
    st.one_of(st.tuples(MOVED), st.tuples(MOVED, MOVED).map(there_and_back)), max_size=7
)


def turns(copies, kernels):
    """Turns as a walk over the copies between each two devices finds them."""
    found = defaultdict(list)
    for devices in ({0, 1}, {1, 2}):
        mine = [copy for copy in copies if set(copy[2]) == devices]
        for there, back in pairwise(mine):
            stay = set(range(there[1], back[0]))
            works = instants([k for k in kernels if k[2]["device_id"] == there[2][1]]) & stay
            if there[2] == back[2][::-1] and works and None not in {there[4], back[4]}:
                found[there[2], there[4], back[4]].append(there)
    return {key: some for key, some in found.items() if len(some) > 1 and key[1] != key[2]}


@settings(max_examples=40)
@given(
    MOVES,
    drawn({"device_id": st.sampled_from([0, 1, 2])}, latest=90, longest=20, max_size=6),
)
def test_turns_are_those_of_a_walk_from_copy_to_copy(moves, kernels):
    copies, at = [], 0
    for pause, length, *rest in chain.from_iterable(moves):
        at += pause + 1
        copies.append((at, at + length, *rest))
    profile = copied(*(moved(*copy) for copy in copies), kernels=kernels)

    assert set(rows(profile)) == {
        (
            f"device {src}",
            f"device {dst}",
            out,
            home,
            len(some),
            sum(copy[1] - copy[0] for copy in some),
            None if None in {copy[3] for copy in some} else sum(copy[3] for copy in some),
        )
        for ((src, dst), out, home), some in turns(copies, kernels).items()
    }
