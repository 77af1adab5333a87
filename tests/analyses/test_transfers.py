"""Transfers by kind, memory kind and path."""

from collections import defaultdict
from statistics import mean, median

import numpy as np
import pytest
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MOVES, PROCESSES, is_transfer
from strategies import rows as drawn

from gpuprof.analyses.transfers import transfers

PAGEABLE = {"memcpy_kind": "HtoD", "src_memory_kind": "pageable", "dst_memory_kind": "device"}
PEER = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "path": "direct"}


def rows(profile, names):
    return [tuple(row[n] for n in names.split()) for row in transfers(profile).to_pylist()]


def test_staged_halves_are_one_peer_copy_with_its_bytes_once():
    half = PEER | {"path": "staged", "bytes": 64}
    pairs = [
        (start + shift, start + shift + 4, half | {"memcpy_kind": kind, "correlation_id": number})
        for number, start in ((7, 0), (8, 100))
        for shift, kind in ((0, "DtoH"), (5, "HtoD"))
    ]

    assert rows(draw(memcpys=pairs), "memcpy_kind path direction calls total_ns bytes max_ns") == [
        ("PtoP", "staged", "device to device", 2, 16, 128, 8)
    ]


def test_several_halves_of_one_launch_are_as_many_copies():
    half = PEER | {"path": "staged", "correlation_id": 7}
    halves = [
        (start, start + 10, half | {"memcpy_kind": kind, "bytes": size})
        for start, kind, size in ((0, "DtoH", 5), (10, "DtoH", 6), (12, "HtoD", 5), (30, "HtoD", 6))
    ]

    assert rows(draw(memcpys=halves), "calls total_ns bytes") == [(2, 40, 11)]


CALLS = [
    (0, 1, {"name": "cudaMemcpyAsync", "correlation_id": 1}),
    (1, 2, {"name": "cudaMemcpy", "correlation_id": 2}),
    # Several rows may bear one id, and another process has the same ids.
    (0, 1, {"name": "cuMemcpyHtoDAsync_v2", "correlation_id": 1}),
    (0, 1, {"name": "cudaMemcpyAsync", "correlation_id": 2, "process_id": 200}),
    (0, 1, {"name": "cudaMemcpyAsync", "correlation_id": 3, "process_id": None}),
]


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        pytest.param({"correlation_id": 1}, 1, id="async"),
        pytest.param({"correlation_id": 2}, 0, id="synchronous"),
        pytest.param({"correlation_id": 2, "process_id": 200}, 1, id="other-process"),
        pytest.param({"correlation_id": 3, "process_id": None}, 1, id="no-process-recorded"),
        pytest.param({"correlation_id": 9}, 0, id="no-call-found"),
        pytest.param({"correlation_id": 1, "src_memory_kind": "pinned"}, 0, id="pinned"),
    ],
)
def test_pageable_copies_by_asynchronous_calls_are_counted_once(copy, expected):
    profile = draw(memcpys=[(2, 5, PAGEABLE | copy)], api_calls=CALLS)

    assert rows(profile, "calls pageable_async_calls") == [(1, expected)]


def test_without_api_calls_asynchronous_ones_are_unknown():
    assert rows(draw(memcpys=[(2, 5, PAGEABLE)]), "pageable_async_calls") == [(None,)]


ENDS = {"HtoD": "host to device", "DtoH": "device to host", "UVM_DtoH": "device to host"}
KINDS = st.sampled_from(["pageable", "pinned", None])
SIZES = st.sampled_from([None, 0, 8, 8, 100])
NUMBERS = {"process_id": PROCESSES, "correlation_id": st.sampled_from([None, 1, 2])}
# The halves of staged copies, which make one copy, are drawn by hand above.
WHOLE = MOVES.filter(lambda move: move["path"] != "staged")
COPIES = drawn(
    st.builds(
        lambda a, b: a | b,
        WHOLE,
        st.fixed_dictionaries(
            {"src_memory_kind": KINDS, "dst_memory_kind": st.sampled_from(["device", "pageable"])}
            | {"bytes": SIZES}
            | NUMBERS
        ),
    ),
    max_size=12,
)
API = st.sampled_from(["cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cudaMemcpy"])
FIGURES = ("calls", "total_ns", "mean_ns", "median_ns", "p95_ns", "max_ns", "bytes")


def summed(copies, calls):
    """Each copy's duration, size, and whether it is pageable and asynchronous, by kind."""
    asynchronous = {
        (call["process_id"], call["correlation_id"])
        for _, _, call in calls
        if "Async" in call["name"] and call["correlation_id"] is not None
    }
    found = defaultdict(list)
    for start, end, copy in copies:
        kinds = copy["src_memory_kind"], copy["dst_memory_kind"]
        path = "uvm" if copy["memcpy_kind"].startswith("UVM") else "direct"
        way = ENDS.get(copy["memcpy_kind"], "device to device")
        launched = (copy["process_id"], copy["correlation_id"]) in asynchronous
        if is_transfer(copy):
            found[copy["memcpy_kind"], path, *map(str, kinds), way].append(
                (end - start, copy["bytes"], "pageable" in kinds and launched)
            )
    return found


@settings(max_examples=40)
@given(COPIES, drawn({"name": API} | NUMBERS))
def test_sums_and_quantiles_are_those_of_plain_lists(copies, calls):
    names = ("memcpy_kind", "path", "src_memory_kind", "dst_memory_kind", "direction")
    found = {
        tuple(str(row[name]) for name in names): row
        for row in transfers(draw(memcpys=copies, api_calls=calls)).to_pylist()
    }
    expected = summed(copies, calls)

    assert found.keys() == expected.keys()
    for key, some in expected.items():
        times, sizes, pageable = (list(column) for column in zip(*some, strict=True))
        size = None if None in sizes else sum(sizes)
        assert [found[key][name] for name in FIGURES] == [
            len(times),
            sum(times),
            pytest.approx(mean(times)),
            median(times),
            pytest.approx(np.percentile(times, 95)),
            max(times),
            size,
        ]
        rate = None if size is None or not sum(times) else size * 1e9 / sum(times)
        assert found[key]["bytes_per_s"] == (rate and pytest.approx(rate))
        assert found[key]["pageable_async_calls"] == sum(pageable)
