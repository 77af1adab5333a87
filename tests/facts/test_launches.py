"""Which call launched an activity, with the compiled functions and without them."""

from unittest.mock import patch

import numpy as np
import pytest
from drawing import draw
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.analyses.ranges import ranges
from gpuprof.facts.launches import ALL_THREADS, activities, launches
from gpuprof.model.derived import UNKNOWN
from gpuprof.native import arrays

IDS = st.sampled_from([None, 0, 1, 2, 7, 300, 2**40])
PROCESSES = st.sampled_from([None, 1, 2, 2**33])
THREADS = st.sampled_from([None, 5, 6, 2**40])
CALLS = st.lists(st.tuples(st.integers(0, 20), IDS, PROCESSES, THREADS), max_size=12)
KERNELS = st.lists(st.tuples(IDS, PROCESSES), max_size=12)
RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), PROCESSES, THREADS, st.sampled_from("ab")),
    max_size=8,
)


def recording(calls, kernels, ranges=()):
    return draw(
        api_calls=[
            (time, time + 1, {"correlation_id": number, "process_id": process, "thread_id": thread})
            for time, number, process, thread in calls
        ],
        kernels=[
            (100 + 3 * i, 102 + 3 * i, {"correlation_id": number, "process_id": process})
            for i, (number, process) in enumerate(kernels)
        ],
        memcpys=[],
        nvtx_ranges=[
            (*sorted([a, b]), {"process_id": process, "thread_id": thread, "text": text})
            for a, b, process, thread, text in ranges
        ],
    )


def known(value):
    return UNKNOWN if value is None else value


def launched(found):
    """When and by which process and thread each activity was launched, by its place."""
    return {
        int(found.order[i]): (int(found.launch_ns[i : i + 1][0]), *lane)
        for lane, (low, high) in found.bounds.items()
        for i in range(low, high)
    }


@pytest.mark.parametrize("is_compiled", [True, False])
@given(calls=CALLS, kernels=KERNELS)
def test_the_earliest_call_of_a_process_and_id_launched_an_activity(is_compiled, calls, kernels):
    with patch.object(arrays, "library", arrays.library if is_compiled else lambda: None):
        found = launches(recording(calls, kernels))

    of_id = {
        (place, (time, known(of), known(thread)))
        for place, (wanted, process) in enumerate(kernels)
        for time, number, of, thread in calls
        if (number, of) == (wanted, process) and number is not None
    }
    first = {place: min(time for p, (time, *_) in of_id if p == place) for place, _ in of_id}
    said = launched(found)
    assert {place: time for place, (time, *_) in said.items()} == first
    assert {*said.items()} <= of_id
    assert {*found.bounds} == {(known(process), known(thread)) for *_, process, thread in calls}
    assert found.launch_ns[:].dtype == np.int64
    for low, high in found.bounds.values():
        assert (found.launch_ns[low:high][1:] >= found.launch_ns[low:high][:-1]).all()


@pytest.mark.parametrize("is_compiled", [True, False])
def test_calls_that_start_at_once_launch_in_the_order_of_the_activities(is_compiled):
    calls = [(5, 2, 1, 1), (5, 1, 1, 1), (1, 3, 1, 1), (9, 1, 1, 1)]
    with patch.object(arrays, "library", arrays.library if is_compiled else lambda: None):
        found = launches(recording(calls, [(1, 1), (2, 1), (1, 1), (3, 1)]))

    assert found.order.tolist() == [3, 0, 1, 2]
    assert found.launch_ns[:].tolist() == [1, 5, 5, 5]


@given(calls=CALLS, kernels=KERNELS, spans=RANGES)
def test_without_the_compiled_functions_ranges_hold_the_same(calls, kernels, spans):
    compiled = ranges(recording(calls, kernels, spans))

    with patch.object(arrays, "library", lambda: None):
        assert ranges(recording(calls, kernels, spans)).equals(compiled)


def test_launches_of_a_process_are_in_the_order_of_their_calls_whatever_their_thread():
    calls = [(4, 1, 9, 5), (1, 2, 9, 6), (3, 3, 9, 6), (2, 4, 8, 5)]

    found = launches(recording(calls, [(1, 9), (2, 9), (3, 9), (4, 8)]))

    of_process = found.by_process()
    assert of_process.bounds == {(8, ALL_THREADS): (0, 1), (9, ALL_THREADS): (1, 4)}
    assert of_process.order.tolist() == [3, 1, 2, 0]
    assert of_process.launch_ns[:].tolist() == [2, 1, 3, 4]
    assert sorted(found.of_process(9).tolist()) == [0, 1, 2]


def test_times_too_far_apart_to_be_sorted_together_with_their_places_are_sorted():
    times = [2**61, 5, 2**61 + 1, 4]

    found = launches(
        recording([(t, i, 1, 1) for i, t in enumerate(times)], [(i, 1) for i in range(4)])
    )

    assert found.order.tolist() == [3, 1, 0, 2]


def test_activities_without_recorded_calls_are_known():
    profile = draw(kernels=[(0, 4, {}), (5, 9, {})], memcpys=[(1, 2, {"bytes": 7})])

    every = activities(profile)

    assert (every.start_ns.tolist(), every.end_ns(slice(None)).tolist()) == ([1, 0, 5], [2, 4, 9])
    assert every.tables == {"memcpys": (0, 1), "kernels": (1, 3)}
    assert every.copies.correlation.tolist() == [UNKNOWN]
