"""GPU work by the NVTX range that launched it."""

from typing import NamedTuple

import pytest
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.analyses.ranges import ranges
from gpuprof.facts import numbers as numbers_of
from gpuprof.model.table import Selection

PUSHED = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "path": "direct"}


def by_text(profile, *names):
    return {row["text"]: tuple(row[name] for name in names) for row in ranges(profile).to_pylist()}


def call(start, number, **columns):
    return (start, start + 1, {"correlation_id": number} | columns)


def work(start, end, number, **columns):
    return (start, end, {"correlation_id": number} | columns)


def test_ranges_that_differ_in_numbers_only_are_one_row():
    texts = ("epoch 0", "epoch 1", "conv2d", "conv3d", "save 7")
    calls = [f"aten::mm, seq = {n}, op_id = {n + 1}, sizes = [[{n}]]" for n in (1, 2)]
    layers = [f"layer_{n}" for n in range(11)]
    spans = [(n, n + 1, {"text": text}) for n, text in enumerate((*texts, *calls, *layers))]

    assert by_text(draw(nvtx_ranges=spans, api_calls=[]), "instances", "host_ns") == {
        "epoch *": (2, 2),
        "conv2d": (1, 1),
        "conv3d": (1, 1),
        "save 7": (1, 1),
        "aten::mm, *": (2, 2),
        "layer_*": (11, 11),
    }


def test_launches_are_added_up_alike_in_pieces_of_any_size(monkeypatch):
    numbers = range(9)
    profile = [
        draw(
            nvtx_ranges=[(0, 40, {"text": "first"}), (40, 99, {"text": "second"})],
            api_calls=[call(10 * n, n) for n in numbers],
            kernels=[work(10 * n + 5, 11 * n + 7, n) for n in numbers if n % 3],
            memcpys=[work(10 * n + 5, 12 * n + 7, n, bytes=n + 1) for n in numbers if not n % 3],
        )
        for _ in range(2)
    ]
    in_one = ranges(profile[0])

    monkeypatch.setattr(numbers_of, "_PIECE_ROWS", 2)

    assert ranges(profile[1]).equals(in_one)
    assert by_text(profile[0], "kernel_calls") == {"first": (2,), "second": (4,)}


def test_the_longest_projected_time_comes_first():
    profile = draw(
        nvtx_ranges=[(0, 9, {"text": "copies"}), (10, 19, {"text": "kernels"})],
        api_calls=[call(1, 1), call(11, 2)],
        memcpys=[(2, 5, {"correlation_id": 1})],
        kernels=[(12, 19, {"correlation_id": 2})],
    )

    assert [*by_text(profile, "projected_ns").items()] == [("kernels", (7,)), ("copies", (3,))]


def test_nested_ranges_share_work_and_only_the_innermost_owns_it():
    profile = draw(
        nvtx_ranges=[
            (0, 100, {"text": "step"}),
            (10, 40, {"text": "layer"}),
            (20, 30, {"text": "copy"}),
        ],
        api_calls=[call(5, 1), call(15, 2), call(25, 3), call(30, 4), call(50, 5)],
        kernels=[work(100, 110, 1), work(110, 130, 2), work(130, 160, 4), work(160, 200, 5)],
        memcpys=[work(200, 207, 3, bytes=64)],
    )

    assert by_text(profile, "kernel_ns", "self_kernel_ns", "transfer_ns", "self_transfer_ns") == {
        "step": (100, 50, 7, 0),
        "layer": (50, 50, 7, 0),
        "copy": (0, 0, 7, 7),
    }


def test_operations_share_work_with_the_annotation_around_them():
    operation = {"range_kind": "operation"}
    profile = draw(
        nvtx_ranges=[
            (0, 20, {"text": "forward", "range_kind": "annotation"}),
            (1, 9, {"text": "aten::linear"} | operation),
            (2, 8, {"text": "aten::addmm"} | operation),
        ],
        api_calls=[call(3, 1), call(12, 2)],
        kernels=[work(30, 50, 1), work(60, 65, 2)],
    )

    assert by_text(profile, "range_kind", "kernel_ns", "self_kernel_ns") == {
        "forward": ("annotation", 25, 5),
        "aten::linear": ("operation", 20, 0),
        "aten::addmm": ("operation", 20, 20),
    }


def test_operations_that_launched_nothing_are_left_out():
    profile = draw(
        nvtx_ranges=[
            (0, 9, {"text": text, "range_kind": kind})
            for text, kind in (("aten::view", "operation"), ("wait", "annotation"))
        ],
        api_calls=[],
    )

    assert by_text(profile, "instances") == {"wait": (1,)}


def test_ranges_and_ids_of_another_thread_or_process_hold_nothing():
    other = {"process_id": 200, "thread_id": 9}
    profile = draw(
        nvtx_ranges=[
            (0, 10, {"text": "mine"}),
            (0, 10, {"text": "other thread", "thread_id": 2}),
            (0, 10, {"text": "other process", **other}),
        ],
        api_calls=[call(5, 1), call(6, 1, **other), call(7, 7)],
        kernels=[work(20, 23, 1), work(20, 29, 1, process_id=200), work(30, 31, 8)],
    )

    assert by_text(profile, "kernel_ns") == {
        "mine": (3,),
        "other thread": (0,),
        "other process": (9,),
    }


def test_of_two_calls_with_one_id_the_earlier_launched():
    profile = draw(
        nvtx_ranges=[(0, 6, {"text": "early"}), (6, 10, {"text": "late"})],
        api_calls=[call(7, 1, api="driver"), call(5, 1)],
        kernels=[work(20, 23, 1)],
    )

    assert by_text(profile, "kernel_ns") == {"early": (3,), "late": (0,)}


def test_ids_far_apart_are_matched_too():
    profile = draw(
        nvtx_ranges=[(0, 9, {"text": "step"})],
        api_calls=[call(5, 10**12), call(6, 3)],
        kernels=[work(20, 23, 10**12), work(30, 34, 3), work(40, 45, 10**6)],
    )

    assert by_text(profile, "kernel_ns") == {"step": (7,)}


def test_peer_copy_costs_the_end_that_waits_longer():
    profile = draw(
        nvtx_ranges=[(0, 9, {"text": "step"})],
        api_calls=[call(1, 1), call(2, 2), call(3, 3)],
        kernels=[work(10, 20, 1), work(10, 13, 2, device_id=1)],
        memcpys=[work(11, 18, 3, bytes=5, **PUSHED)],
    )

    assert by_text(
        profile, "transfer_ns", "transfer_bytes", "peer_transfer_ns", "exposed_transfer_ns"
    ) == {"step": (7, 5, 7, 5)}


def test_a_copy_of_no_known_device_is_hidden_by_kernels_of_none():
    profile = draw(
        nvtx_ranges=[(0, 9, {"text": "step"})],
        api_calls=[call(1, 1), call(2, 2), call(3, 3)],
        kernels=[work(10, 20, 1, device_id=None), work(20, 40, 1)],
        # Of the second one the device is known, and neither end.
        memcpys=[work(12, 25, 2, device_id=None), work(30, 36, 3, memcpy_kind="PtoP")],
    )

    assert by_text(profile, "transfer_ns", "exposed_transfer_ns") == {"step": (19, 5)}


def test_staged_halves_are_one_call_with_its_bytes_once():
    half = PUSHED | {"path": "staged", "bytes": 8}
    profile = draw(
        nvtx_ranges=[(0, 9, {"text": "step"})],
        api_calls=[call(1, 1)],
        memcpys=[
            work(10, 13, 1, **half | {"memcpy_kind": "DtoH"}),
            work(13, 18, 1, **half | {"memcpy_kind": "HtoD", "device_id": 1}),
        ],
    )

    assert by_text(profile, "transfer_calls", "transfer_ns", "transfer_bytes") == {
        "step": (1, 8, 8)
    }


def test_work_of_a_window_keeps_the_call_that_came_before_it():
    profile = draw(
        nvtx_ranges=[(0, 10, {"text": "early"}), (50, 60, {"text": "late"})],
        api_calls=[call(5, 1), call(6, 2), call(55, 3)],
        kernels=[work(20, 23, 1), work(51, 60, 2), work(61, 63, 3)],
    )

    assert by_text(profile.restricted(Selection(((50, 100),))), "kernel_ns") == {
        "early": (9,),
        "late": (2,),
    }


THREADS = st.sampled_from([(100, 1), (100, 2), (200, 1)])


def recursion(depth, text="aten::sum", **columns):
    """Ranges of one text within one another, the outermost first."""
    return [(at, 100 - at, {"text": text} | columns) for at in range(depth)]


@pytest.mark.parametrize("kind", ["push_pop", "annotation", "operation", "start_end"])
def test_a_launch_counts_once_in_ranges_of_one_text_within_one_another(kind):
    profile = draw(
        nvtx_ranges=recursion(3, range_kind=kind),
        api_calls=[call(50, 1)],
        kernels=[work(200, 207, 1)],
    )

    assert by_text(
        profile,
        *("instances", "active_instances", "host_ns", "projected_ns", "kernel_calls", "kernel_ns"),
    ) == {"aten::sum": (3, 3, 100, 7, 1, 7)}


def test_a_launch_counts_once_where_another_text_lies_between_two_that_are_equal():
    profile = draw(
        nvtx_ranges=[
            (0, 100, {"text": "forward"}),
            (10, 90, {"text": "layer"}),
            (20, 80, {"text": "forward"}),
        ],
        api_calls=[call(5, 1), call(15, 2), call(30, 3)],
        kernels=[work(200, 201, 1)],
        memcpys=[work(210, 212, 2, bytes=8), work(220, 224, 3, bytes=16)],
    )

    names = ("kernel_calls", "transfer_calls", "transfer_bytes", "transfer_ns")
    assert by_text(profile, *names) == {"forward": (1, 2, 24, 6), "layer": (0, 2, 24, 6)}
    names = ("self_kernel_ns", "self_transfer_ns", "exposed_transfer_ns")
    assert by_text(profile, *names) == {"forward": (1, 4, 6), "layer": (0, 2, 6)}
    names = ("host_ns", "projected_ns")
    assert by_text(profile, *names) == {"forward": (100, 24), "layer": (80, 14)}


def test_a_range_of_the_part_that_lies_within_one_outside_of_it_keeps_its_own_time():
    profile = draw(
        nvtx_ranges=[(0, 100, {"text": "train"}), (60, 70, {"text": "train"})],
        api_calls=[call(5, 1)],
        kernels=[work(6, 9, 1), work(62, 65, 2)],
    )

    assert by_text(profile.restricted(Selection(((50, 80),))), "instances", "host_ns") == {
        "train": (1, 10)
    }


class Entry(NamedTuple):
    """One instance of a range."""

    text: str
    kind: str
    process: int
    thread: int | None
    start: int
    end: int

    def holds(self, launch):
        at, (process, thread), _ = launch
        is_here = process == self.process and self.thread in {thread, None}
        return is_here and self.start <= at < self.end

    def meets(self, other):
        is_same_lane = self[:4] == other[:4]
        return is_same_lane and max(self.start, other.start) < min(self.end, other.end)


@st.composite
def entries(draw_value):
    """Ranges of few texts, nested, overlapping and touching; no two begin and end together."""
    kinds = st.sampled_from([("a", "push_pop"), ("b", "push_pop"), ("a", "start_end")])
    times = st.tuples(THREADS, st.integers(0, 12), st.integers(0, 8))
    return [
        Entry(text, kind, p, None if kind == "start_end" else t, start, start + length)
        for ((p, t), start, length), (text, kind) in draw_value(
            st.dictionaries(times, kinds, max_size=8)
        ).items()
    ]


LAUNCHED = st.lists(st.tuples(st.integers(0, 20), THREADS, st.integers(1, 9)), max_size=8)


def ran(number, launch):
    """When the kernel of a launch ran."""
    return 50 + 3 * number, 50 + 3 * number + launch[2]


def held_by(some, launched):
    """The numbers of the launches that at least one of some ranges holds."""
    return {n for n, launch in enumerate(launched) if any(one.holds(launch) for one in some)}


def joined(some):
    """Groups of ranges of one thread that share an instant with another of the group."""
    groups = []
    for one in some:
        met = [group for group in groups if any(one.meets(other) for other in group)]
        groups = [group for group in groups if group not in met]
        groups.append([one, *(other for group in met for other in group)])
    return groups


def by_instants(some, launched):
    """The figures of a row, from sets of launches and of instants."""
    numbers = held_by(some, launched)
    extents = [
        [end for n in held_by(group, launched) for end in ran(n, launched[n])]
        for group in joined(some)
    ]
    return {
        "instances": len(some),
        "active_instances": sum(bool(held_by([one], launched)) for one in some),
        "host_ns": len({(*one[:4], at) for one in some for at in range(one.start, one.end)}),
        "kernel_calls": len(numbers),
        "kernel_ns": sum(launched[number][2] for number in numbers),
        "projected_ns": sum(max(ends) - min(ends) for ends in extents if ends),
    }


def owned_ns(row, every, launched):
    """What was launched while a range of this row was the innermost of its thread."""
    nested = [one for one in every if one.kind == "push_pop"]
    around = [(launch, [one for one in nested if one.holds(launch)]) for launch in launched]
    return sum(
        launch[2]
        for launch, some in around
        if some and max(some, key=lambda one: (one.start, -one.end))[:2] == row
    )


@settings(max_examples=100)
@given(entries(), LAUNCHED)
def test_any_launch_counts_once_in_each_row(every, launched):
    profile = draw(
        nvtx_ranges=[
            (one.start, one.end, {"text": one.text, "range_kind": one.kind}
             | {"process_id": one.process, "thread_id": one.thread})
            for one in every
        ],
        api_calls=[
            call(at, number, process_id=process, thread_id=thread)
            for number, (at, (process, thread), _) in enumerate(launched)
        ],
        kernels=[
            work(*ran(number, launch), number, process_id=launch[1][0])
            for number, launch in enumerate(launched)
        ],
    )  # fmt: skip

    result = {(row["text"], row["range_kind"]): row for row in ranges(profile).to_pylist()}

    expected = {
        row: by_instants([one for one in every if one[:2] == row], launched)
        for row in {one[:2] for one in every}
    }
    assert result.keys() == expected.keys()
    for row, figures in expected.items():
        assert {name: result[row][name] for name in figures} == figures
        is_nested = row[1] == "push_pop"
        assert result[row]["self_kernel_ns"] == (
            owned_ns(row, every, launched) if is_nested else None
        )


def test_every_column_is_filled():
    profile = draw(
        nvtx_ranges=[(0, 9, {"text": "step"})], api_calls=[call(1, 1)], kernels=[work(5, 6, 1)]
    )

    assert None not in ranges(profile).to_pylist()[0].values()
