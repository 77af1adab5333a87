"""Programs whose times are computed by hand, and drawn ones that hold to what a replay must."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launched import PLACE, call
from recordings import copy, kernel, trace

from gpuprof import native
from gpuprof.native import replay_core as native_replay
from gpuprof.predict.build import graph_of
from gpuprof.predict.changes import apply
from gpuprof.predict.graph import AWAITED, DEFAULT_STREAMS, SYNCHRONISATION, is_before
from gpuprof.predict.link_models import USUAL
from gpuprof.predict.predict import predict
from gpuprof.predict.replay import as_measured, last_waits, replay

LAUNCH_NS, LATENCY_NS, GAP_NS, RETURN_NS, HOST_NS = 4_000, 6_000, 1_000, 2_000, 3_000
LONG_NS = 100_000
SMALL = settings(max_examples=12, deadline=None)


def program(iterations):
    """A program of one thread that launches kernels on two streams and waits for all of them.

    Args:
        iterations: Of each the stream, name and duration of its kernels.

    Returns:
        The recording, and the time from the first start to the last end.
    """
    kernels, calls, waits, number, host = [], [], [], 0, 0
    free = Counter()
    for iteration in iterations:
        for stream, name, took in iteration:
            number += 1
            calls.append(call("cudaLaunchKernel", host, host + LAUNCH_NS, number))
            start = max(host + LATENCY_NS, free[stream])
            kernels.append(
                kernel(name, start, start + took, stream_id=stream, correlation_id=number, **PLACE)
            )
            free[stream] = start + took + GAP_NS
            host += LAUNCH_NS + HOST_NS
        number += 1
        end = max(host, max(k["end_ns"] for k in kernels) + RETURN_NS)
        calls.append(call("cudaDeviceSynchronize", host, end, number))
        waits.append(
            {"start_ns": host, "end_ns": end, "sync_kind": "context", "correlation_id": number}
            | PLACE
        )
        host = end + HOST_NS
    span = max(k["end_ns"] for k in kernels) - min(k["start_ns"] for k in kernels)
    return trace(kernels=kernels, api_calls=calls, synchronizations=waits), span


# The first kernel of an iteration shows the latency of launches, the second that of streams.
FIXED = [(0, "first", LONG_NS), (0, "second", LONG_NS)]
KERNELS = st.tuples(
    st.integers(0, 1), st.sampled_from(["gemm", "relu"]), st.integers(1, LONG_NS // 1000)
)
ITERATIONS = st.lists(st.lists(KERNELS, max_size=6), min_size=1, max_size=4).map(
    lambda drawn: [
        [*FIXED, *((stream, name, us * 1000) for stream, name, us in kernels)] for kernels in drawn
    ]
)


def recording_ns(prediction, column="predicted_ns"):
    return prediction.tables["prediction"].to_pylist()[0][column]


@SMALL
@given(ITERATIONS)
def test_a_program_of_known_times_is_replayed_with_no_time_unexplained(iterations):
    profile, span = program(iterations)

    result = predict(profile, [])

    assert recording_ns(result) == recording_ns(result, "replayed_ns") == span


@SMALL
@given(ITERATIONS, st.sampled_from(["0", "0.5", "3"]))
def test_other_durations_give_the_times_of_the_program_that_has_them_to_the_ns(iterations, factor):
    changed = [
        [(s, n, round(t * float(factor)) if n == "gemm" else t) for s, n, t in kernels]
        for kernels in [[*kernels, (0, "gemm", 1000)] for kernels in iterations]
    ]
    profile, _ = program([[*kernels, (0, "gemm", 1000)] for kernels in iterations])
    _, span = program(changed)

    assert recording_ns(predict(profile, [f"scale=^gemm$:{factor}"])) == span


@pytest.mark.parametrize("apart_ns", [RETURN_NS + 1, RETURN_NS + HOST_NS - 1])
def test_calls_wait_also_for_work_that_seems_to_end_a_little_after_they_return(apart_ns):
    """The clock of the device is up to 5 us ahead of that of the host."""
    profile, span = program([[(0, "gemm", 300_000)]] * 4)
    tables = {name: profile.table(name).to_pylist() for name in profile.sources}
    for row in tables["kernels"]:
        row["start_ns"] += apart_ns
        row["end_ns"] += apart_ns

    assert recording_ns(predict(trace(**tables), ["scale=gemm:0.5"])) == span - 4 * 150_000


@SMALL
@given(ITERATIONS)
def test_separate_streams_give_the_time_of_the_program_that_has_them_to_the_ns(iterations):
    profile, span = program([[*kernels, (0, "gemm", 1000)] for kernels in iterations])
    _, separate_span = program(
        [
            [(s + 2 if n == "gemm" else s, n, t) for s, n, t in [*kernels, (0, "gemm", 1000)]]
            for kernels in iterations
        ]
    )

    predicted_ns = recording_ns(predict(profile, ["streams=^gemm$"]))

    assert predicted_ns == separate_span <= span


TIMES = st.integers(0, 400).map(lambda value: value * 1000)
OPERATIONS = st.lists(
    st.tuples(TIMES, TIMES, st.integers(0, 1), st.integers(0, 2), st.integers(-1, 6)), max_size=12
)
CALLS = st.lists(
    st.tuples(
        TIMES,
        TIMES,
        st.integers(0, 1),
        st.integers(0, 6),
        st.sampled_from(["cudaLaunchKernel", "cudaMemcpy", "cudaStreamSynchronize"]),
    ),
    max_size=12,
)


def scrambled(operations, calls):
    """A recording in which nothing need make sense: calls after their work, overlaps, and so on."""
    kernels = [kernel("fixed", 0, 1000, stream_id=9, **PLACE)]
    copies = [copy("PtoP", 500_000, 510_000, bytes=1000, src_device_id=0, dst_device_id=1, **PLACE)]
    for place, (a, b, device, stream, number) in enumerate(operations):
        its = PLACE | {"device_id": device, "stream_id": stream}
        its["correlation_id"] = None if number < 0 else number
        if place % 3:
            kernels.append(kernel(f"k{place % 2}", min(a, b), max(a, b), **its))
        else:
            ends = {"src_device_id": device, "dst_device_id": 1 - device}
            copies.append(copy("PtoP", min(a, b), max(a, b), bytes=10_000, **ends, **its))
    rows = [call(name, min(a, b), max(a, b), n, thread) for a, b, thread, n, name in calls]
    return trace(kernels=kernels, memcpys=copies, api_calls=rows)


@SMALL
@given(OPERATIONS, CALLS)
def test_a_replay_that_changes_nothing_is_the_recording_to_the_ns(operations, calls):
    graph = graph_of(scrambled(operations, calls))

    edges = graph.weights.edges
    assert is_before(graph.time_ns, edges.source, edges.target).all()
    assert not replay(graph, graph.weights).moved_ns.any()


@SMALL
@given(OPERATIONS, CALLS)
def test_a_change_that_changes_nothing_gives_the_measured_time(operations, calls):
    for row in (
        predict(scrambled(operations, calls), ["scale=.:1"]).tables["prediction"].to_pylist()
    ):
        assert row["predicted_ns"] in (None, row["measured_ns"])


@SMALL
@given(OPERATIONS, CALLS)
def test_dropping_work_wins_no_more_than_its_time_its_calls_and_the_pauses_it_ends(
    operations, calls
):
    profile = scrambled(operations, calls)
    graph = graph_of(profile)
    o = graph.operations
    dropped = np.flatnonzero(o.where(lambda label: label.text == "k1"))
    if not len(dropped):
        return
    row = predict(profile, ["drop=^k1$"]).tables["prediction"].to_pylist()[0]

    before = np.where(np.diff(o.stream, prepend=-1) == 0, np.roll(o.end_ns, 1), graph.origin_ns)
    pauses = np.maximum(o.start_ns - before, 0)
    # Those that it ends are before it, and before what waited for it on other streams.
    first, edges = len(graph.calls), graph.weights.edges
    is_of = np.isin(edges.source // 2 - first, dropped)
    is_of &= np.isin(edges.kind, (DEFAULT_STREAMS, AWAITED))
    ended = np.union1d(dropped, edges.target[is_of] // 2 - first)
    gone = np.unique(o.call[dropped])
    host = (graph.calls.end_ns - graph.calls.start_ns)[gone[gone >= 0]]
    most = int(o.took_ns[dropped].sum() + pauses[ended].sum() + host.sum())
    if row["predicted_ns"] is not None:
        assert row["measured_ns"] - row["predicted_ns"] <= most


@SMALL
@given(OPERATIONS, CALLS, st.integers(1, 20), st.integers(1, 20), st.integers(0, 9))
def test_a_faster_link_is_never_slower(operations, calls, latency, rate, more):
    profile = scrambled(operations, calls)

    fast, slow = (
        predict(profile, [f"link={us}us,{gb}GB/s"]).tables["prediction"].to_pylist()
        for us, gb in ((latency, rate + more), (latency + more, rate))
    )

    for one, other in zip(fast, slow, strict=True):
        assert (
            one["predicted_ns"] is None
            or one["phase"]
            or (one["predicted_ns"] <= other["predicted_ns"])
        )


@pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")
@SMALL
@given(OPERATIONS, CALLS, st.sampled_from([(), ("scale=.:3",), ("hide=PtoP", "streams=fixed")]))
def test_the_compiled_sweep_and_the_plain_one_agree(operations, calls, changes):
    profile = scrambled(operations, calls)
    changed = apply(profile, changes, USUAL)
    results = []
    for is_compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_compiled:
                patch.setattr(native_replay, "library", lambda: None)
            for is_usual in (False, True):
                replayed = changed.replayed(is_usual=is_usual)
                results.append([replayed.moved_ns.tolist(), replayed.lag_ns, replayed.lag_at])
            results.append([c.tolist() for c in last_waits(changed.replayed(), 2)])

    assert results[:3] == results[3:]


def test_a_path_leads_back_to_what_waits_for_nothing():
    profile, _ = program([FIXED, [(1, "gemm", 5000), *FIXED]])
    graph = graph_of(profile)

    instants, kinds = last_waits(as_measured(graph), graph.ends.stop - 2)

    assert (np.diff(graph.time_ns[instants]) <= 0).all()
    assert kinds[-1] == -1
    assert (kinds[:-1] >= 0).all()


@SMALL
@given(OPERATIONS, CALLS, TIMES)
def test_before_a_time_is_the_latest_instant_before_it_else_the_first_of_all(
    operations, calls, time_ns
):
    graph = graph_of(scrambled(operations, calls))
    times = graph.time_ns

    latest_ns = max(times[times < time_ns], default=graph.origin_ns)
    assert times[graph.last_before(time_ns)] == latest_ns


def test_only_what_indices_do_not_imply_is_stored():
    """Of a hundred kernels with their calls, a wait for each of the streams of each iteration."""
    profile, _ = program([[(0, "gemm", 5000), (1, "relu", 5000)] * 5] * 10)
    graph = graph_of(profile)

    assert graph.counts.sum() > 4 * len(graph.operations)
    assert np.unique(graph.weights.edges.kind).tolist() == [SYNCHRONISATION]
    assert len(graph.weights.edges) == 10 * 2
