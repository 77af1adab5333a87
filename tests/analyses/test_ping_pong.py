"""Copies there and straight back."""

from itertools import chain
from statistics import median

import pytest
from drawing import copied, draw
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.analyses.avoidable_copies import ping_pong

KIB = 1024


def peer(start, src, dst, size=KIB, **columns):
    ends = {"memcpy_kind": "PtoP", "src_device_id": src, "dst_device_id": dst, "path": "direct"}
    return (start, start + 5, ends | {"bytes": size, "device_id": src} | columns)


def rows(profile, *names):
    return [tuple(row[name] for name in names) for row in ping_pong(profile).to_pylist()]


def test_the_costliest_come_first():
    quick = [peer(10 * n, n % 2, 1 - n % 2) for n in range(4)]
    slow = [(s + 100, e + 104, row | {"bytes": 2 * KIB}) for s, e, row in quick]

    assert rows(draw(memcpys=[*quick, *slow]), "copy_bytes", "total_ns") == [
        (2 * KIB, 36),
        (KIB, 20),
    ]


def test_another_size_way_or_overlap_is_no_pair():
    one_way = [peer(at, 0, 1) for at in range(0, 60, 10)]
    sizes = [peer(at, at // 10 % 2, 1 - at // 10 % 2, KIB + at) for at in range(0, 60, 10)]
    at_once = [peer(0, n % 2, 1 - n % 2) for n in range(6)]
    tiny = [peer(at, at // 10 % 2, 1 - at // 10 % 2, 4) for at in range(0, 60, 10)]
    kinds = {0: "UVM_HtoD", 1: "UVM_DtoH"}
    managed = [(10 * n, 10 * n + 5, {"memcpy_kind": kinds[n % 2], "bytes": KIB}) for n in range(6)]

    for copies in (one_way, sizes, at_once, tiny, managed):
        assert rows(draw(memcpys=copies), "pairs") == []


def test_host_is_a_memory_like_any_other_and_what_to_try_differs():
    def copy(at, kind):
        return (at, at + 5, {"memcpy_kind": kind, "bytes": KIB})

    out = [copy(0, "DtoH"), copy(10, "HtoD"), copy(40, "DtoH"), copy(50, "HtoD")]

    assert rows(draw(memcpys=out), "src", "dst", "suggestion") == [
        ("device 0", "host", "keep it on device 0: do on the device what the host does with it")
    ]


@pytest.mark.parametrize(
    ("around", "named"),
    [
        pytest.param("embedding", "embedding", id="annotation"),
        pytest.param("ProfilerStep#3", "aten::to", id="step"),
        pytest.param(None, "aten::to", id="none"),
    ],
)
def test_what_copies_is_named_by_an_operation_where_no_annotation_says_it(around, named):
    times = (10, 20, 30, 40)
    kinds = {"ProfilerStep#3": "annotation", "embedding": "annotation"}
    held = [(0, 100, {"text": around, "range_kind": kinds[around]})] if around else []
    for at in times:
        stack = enumerate(("aten::to", "aten::_to_copy", "aten::copy_"))
        held += [
            (at + n, at + 8 - n, {"text": text, "range_kind": "operation"}) for n, text in stack
        ]
    profile = draw(
        memcpys=[peer(at + 4, at // 10 % 2, 1 - at // 10 % 2, correlation_id=at) for at in times],
        api_calls=[(at + 3, at + 4, {"correlation_id": at}) for at in times],
        nvtx_ranges=held,
    )

    assert rows(profile, "there_range", "back_range") == [(named, named)]


MEMORIES = {"HtoD": ("host", 0), "DtoH": (0, "host"), "there": (0, 1), "back": (1, 0)}
KINDS = {"there": peer(0, 0, 1)[2], "back": peer(0, 1, 0)[2]}
WAY_BACK = {"HtoD": "DtoH", "DtoH": "HtoD", "there": "back", "back": "there"}


def there_and_back(pair):
    """Two copies of one size in opposite directions, and the first again."""
    there, back = pair
    return there, (*back[:2], WAY_BACK[there[2]], there[3], back[4]), there


MOVED = st.tuples(
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from([*MEMORIES, "there", "back"]),
    st.sampled_from([KIB, KIB, KIB, KIB, KIB, KIB - 1, 2 * KIB]),
    st.sampled_from([None, "a", "b"]),
)
# Chance alone seldom goes there and back often enough.
MOVES = st.lists(
    st.one_of(st.tuples(MOVED), st.tuples(MOVED, MOVED).map(there_and_back)), max_size=7
)


def taken_in_turn(copies):
    """Pairs as a walk finds them: a copy, and the next one between its two memories."""
    found = {}
    for memories in ({"host", 0}, {0, 1}):
        left = [c for c in copies if set(MEMORIES[c[2]]) == memories and c[3] >= KIB]
        while len(left) > 1:
            there, back = left[:2]
            is_pair = there[3] == back[3] and there[2] != back[2] and back[0] >= there[1]
            if is_pair:
                found.setdefault((*MEMORIES[there[2]], there[3]), []).append((there, back))
            left = left[2 if is_pair else 1 :]
    return {key: pairs for key, pairs in found.items() if len(pairs) > 1}


def most(texts):
    known = sorted(text for text in texts if text is not None)
    return max(known, key=known.count, default=None)


@settings(max_examples=40)
@given(MOVES)
def test_pairs_are_those_of_a_walk_from_copy_to_copy(moves):
    copies, at = [], 0
    for pause, length, way, size, text in chain.from_iterable(moves):
        at += pause + 1
        copies.append((at, at + length, way, size, text))
    profile = copied(
        *(
            (start, end, KINDS.get(way, {"memcpy_kind": way}) | {"bytes": size}, text)
            for start, end, way, size, text in copies
        )
    )

    names = ("src", "dst", "copy_bytes", "pairs", "total_ns", "median_stay_ns")
    assert sorted(rows(profile, *names, "there_range", "back_range"), key=str) == sorted(
        (
            (
                *(end if end == "host" else f"device {end}" for end in (src, dst)),
                size,
                len(pairs),
                sum(c[1] - c[0] for pair in pairs for c in pair),
                median(back[0] - there[1] for there, back in pairs),
                most(there[4] for there, _ in pairs),
                most(back[4] for _, back in pairs),
            )
            for (src, dst, size), pairs in taken_in_turn(copies).items()
        ),
        key=str,
    )
