"""Utilisation, pauses, launches and waits: the devices and what the host did meanwhile."""

from collections import defaultdict
from statistics import mean, median

import numpy as np
import pytest
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MOVES, PROCESSES, ends_of, instants, painted, rows

from gpuprof.analyses.api_calls import launch_latency, synchronising_calls
from gpuprof.analyses.breakdown import utilisation, utilisation_over_time
from gpuprof.analyses.pauses import gaps
from gpuprof.model.table import Selection


def first(table):
    return table.to_pylist()[0]


@pytest.mark.parametrize(
    ("kernels", "enough"), [([(0, 90), (99, 100)], True), ([(0, 88), (99, 100)], False)]
)
def test_ninety_percent_is_enough(kernels, enough):
    row = first(utilisation(draw(kernels=kernels)))

    assert row["is_enough"] is enough
    assert row["kernel_share"] == pytest.approx(sum(e - s for s, e in kernels) / 100)


def test_without_api_calls_the_cause_of_idle_time_is_unknown():
    row = first(utilisation(draw(kernels=[(0, 10), (90, 100)])))

    assert (row["biggest_reason"], row["idle_waiting_ns"]) == ("idle", None)


def test_a_pause_names_the_operation_that_ended_it_beside_the_annotation():
    operation = {"range_kind": "operation"}
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[
            (0, 90, {"text": "forward", "range_kind": "annotation"}),
            (50, 80, {"text": "aten::linear"} | operation),
            (52, 58, {"text": "aten::addmm"} | operation),
        ],
    )

    row = first(gaps(profile))
    assert (row["nvtx_range"], row["operation"]) == ("forward", "aten::linear")


def test_a_range_of_the_whole_process_is_around_the_calls_of_all_its_threads():
    whole = {"text": "epoch", "range_kind": "start_end", "thread_id": 2}
    profile = draw(
        kernels=[(0, 10), (60, 70, {"correlation_id": 5})],
        api_calls=[(55, 56, {"correlation_id": 5})],
        nvtx_ranges=[(50, 90, whole), (52, 60, {"text": "stranger", "thread_id": 2})],
    )

    assert first(gaps(profile))["nvtx_range"] == "epoch"


def test_pauses_of_a_window_are_cut_at_its_borders():
    profile = draw(kernels=[(0, 10), (50, 60)])

    found = gaps(profile.restricted(Selection(((20, 55),)))).to_pylist()
    assert [(row["start_ns"], row["gap_ns"], row["ended_by"]) for row in found] == [
        (20, 30, "matmul")
    ]


DEVICES = st.sampled_from([0, 1])
WAITING = ("cudaDeviceSynchronize", "cudaMemcpy", "cudaFree")
OTHERS = ("cudaLaunchKernel", "cudaMemcpyAsync")
NAMES = st.sampled_from(WAITING + OTHERS)
IDS = st.sampled_from([None, 1, 2, 2])
OF_KERNELS = {"device_id": DEVICES, "name": st.sampled_from(["gemm", "ncclAllReduce"])}
KERNELS = rows(OF_KERNELS)
COPIES = rows(MOVES)
MEMSETS = rows({"device_id": DEVICES}, max_size=3)
CALLS = rows({"name": NAMES, "process_id": PROCESSES, "thread_id": st.sampled_from([1, 2])})


def utilised(parts, calls):
    span, compute, communication, transfers, local, idle = parts
    waiting = instants([row for row in calls if row[2]["name"] in WAITING])
    launching = instants(calls) - waiting
    host = idle - waiting - launching
    reasons = {
        "exposed transfers": len(transfers),
        "exposed local copies": len(local),
        "synchronisation": len(idle & waiting),
        "launching": len(idle & launching),
        "input or other host work": len(host),
    }
    return (len(span), len(compute | communication), *reasons.values()), reasons


FIGURES = (
    "span_ns kernel_ns exposed_transfer_ns exposed_local_copy_ns"
    " idle_waiting_ns idle_launching_ns idle_host_ns"
)


@settings(max_examples=40)
@given(KERNELS, COPIES, MEMSETS, CALLS, st.sampled_from([None, (10, 50), (30, 33)]))
def test_utilisation_is_that_of_the_instants(kernels, memcpys, memsets, calls, window):
    profile = draw(kernels=kernels, memcpys=memcpys, memsets=memsets, api_calls=calls)
    seen = profile if window is None else profile.restricted(Selection((window,)))
    within = set(range(-1, 100)) if window is None else set(range(*window))
    found = {row["device_id"]: row for row in utilisation(seen).to_pylist()}

    expected = {
        device: utilised([part & within for part in parts], calls)
        for device, parts in painted(kernels, memcpys, memsets).items()
        if window is None or parts[0] & within
    }
    assert {d: tuple(row[n] for n in FIGURES.split()) for d, row in found.items()} == {
        device: figures for device, (figures, _) in expected.items()
    }
    for device, (figures, reasons) in expected.items():
        row = found[device]
        is_enough = None if not figures[0] else 10 * figures[1] >= 9 * figures[0]
        assert row["is_enough"] is is_enough
        if is_enough is False:
            assert row["biggest_reason_ns"] == max(reasons.values())
            assert reasons[row["biggest_reason"]] == max(reasons.values())
            assert row["kernel_share"] == figures[1] / figures[0]
        else:
            assert row["biggest_reason"] is None


@settings(max_examples=40)
@given(KERNELS, COPIES, MEMSETS)
def test_slices_hold_the_instants_between_their_borders(kernels, memcpys, memsets):
    found = utilisation_over_time(draw(kernels=kernels, memcpys=memcpys, memsets=memsets))
    devices = {d: parts for d, parts in painted(kernels, memcpys, memsets).items() if parts[0]}
    assert {row["device_id"] for row in found.to_pylist()} == set(devices)
    if not devices:
        return
    every = set().union(*(parts[0] for parts in devices.values()))
    first, last = min(every), max(every) + 1
    for device, (_, compute, communication, transfers, *_) in devices.items():
        mine = [row for row in found.to_pylist() if row["device_id"] == device]
        # The slices follow one another, cover the time, and are as long as one another.
        assert [row["start_ns"] for row in mine[1:]] == [row["end_ns"] for row in mine[:-1]]
        assert (mine[0]["start_ns"], mine[-1]["end_ns"]) == (first, last)
        lengths = [row["end_ns"] - row["start_ns"] for row in mine]
        assert len(mine) == min(20, last - first)
        assert max(lengths) - min(lengths) <= 1
        for row, length in zip(mine, lengths, strict=True):
            piece = set(range(row["start_ns"], row["end_ns"]))
            assert row["kernel_ns"] == len(piece & (compute | communication))
            assert row["kernel_share"] == row["kernel_ns"] / length
            assert row["exposed_transfer_ns"] == len(piece & transfers)


@settings(max_examples=25)
@given(CALLS)
def test_waits_are_summed_by_function_and_process(calls):
    times = defaultdict(list)
    for start, end, call in calls:
        if call["name"] in WAITING:
            times[call["name"], call["process_id"]].append(end - start)

    found = synchronising_calls(draw(api_calls=calls)).to_pylist()
    names = ("calls", "total_ns", "mean_ns", "max_ns")
    assert {(r["name"], r["process_id"]): tuple(r[n] for n in names) for r in found} == {
        key: (len(some), sum(some), pytest.approx(mean(some)), max(some))
        for key, some in times.items()
    }
    totals = [row["total_ns"] for row in found]
    assert totals == sorted(totals, reverse=True)


LAUNCHED = {"process_id": PROCESSES, "correlation_id": IDS}
KINDS = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset"}


def launching(activity, calls):
    """The earliest call of an activity's process and number, if it is known."""
    key = ("process_id", "correlation_id")
    wanted = [activity[2][name] for name in key]
    own = [call for call in calls if [call[2][name] for name in key] == wanted]
    return min(own, key=lambda call: call[0], default=None) if wanted[1] is not None else None


@settings(max_examples=40)
@given(  # fewer than ten launches, of which early ones would show how far clocks are apart
    rows(LAUNCHED | {"device_id": DEVICES}, max_size=4),
    rows(LAUNCHED | {"device_id": st.just(1)}, max_size=3),
    rows(LAUNCHED | {"device_id": st.none()}, max_size=2),
    st.one_of(rows(LAUNCHED), rows(LAUNCHED, latest=3, min_size=6, max_size=12)),
)
def test_latencies_are_those_from_each_activity_to_its_earliest_call(
    kernels, memcpys, memsets, calls
):
    tables = {"kernels": kernels, "memcpys": memcpys, "memsets": memsets}
    latencies = defaultdict(list)
    for table, activities in tables.items():
        for activity in activities:
            call = launching(activity, calls)
            if call is not None:
                place = (KINDS[table], activity[2]["device_id"])
                latencies[place].append(activity[0] - call[0])

    names = ("calls", "early_calls", "mean_ns", "median_ns", "p95_ns", "max_ns")
    found = launch_latency(draw(**tables, api_calls=calls)).to_pylist()
    assert {(r["activity_kind"], r["device_id"]): tuple(r[n] for n in names) for r in found} == {
        place: (
            len(some),
            sum(one < 0 for one in some),
            # So few cannot be 1 % early: one that is makes the clocks disagree.
            *(
                (None,) * 4
                if min(some) < 0
                else map(
                    pytest.approx, (mean(some), median(some), np.percentile(some, 95), max(some))
                )
            ),
        )
        for place, some in latencies.items()
    }


def pauses(idle):
    """Each run of idle instants: its start and end."""
    starts = sorted(idle - {at + 1 for at in idle})
    ends = sorted({at + 1 for at in idle} - idle)
    return list(zip(starts, ends, strict=True))


def enders(device, end, kernels, memcpys, memsets):
    """What starts on a device when a pause ends; the first kind of it that there is, by name."""
    named = [
        [(row[2]["name"], row) for row in kernels if row[2]["device_id"] == device],
        [
            (f"[CUDA memcpy {row[2]['memcpy_kind']}]", row)
            for row in memcpys
            if device in ends_of(row[2])
        ],
        [("[CUDA memset]", row) for row in memsets if row[2]["device_id"] == device],
    ]
    for kind in named:
        starting = [(name, row) for name, row in kind if row[0] == end]
        if starting:
            first = min(name for name, _ in starting)
            return first, [row for name, row in starting if name == first]
    return None, []


# Calls come before all that they launch, so that the clocks agree.
THREADS = st.sampled_from([1, 2])
EARLY = rows(LAUNCHED | {"name": NAMES, "thread_id": THREADS}, latest=6)
LATE = rows({"name": NAMES, "process_id": PROCESSES, "thread_id": THREADS})
RANGES = rows({"text": st.sampled_from("abc"), "process_id": PROCESSES, "thread_id": THREADS}, 6, 6)


def fills(span, gap):
    """Whether it takes at least half of a pause."""
    held = set(range(*span[:2])) & set(range(*gap))
    return bool(held) and 2 * len(held) >= gap[1] - gap[0]


def context(gap, row, calls, ranges):
    """All that may be said of a pause that one activity ended."""
    start, end = gap
    process = row[2]["process_id"]
    busy = defaultdict(set)
    for call in calls:
        if call[2]["process_id"] == process:
            busy[call[2]["name"]] |= instants([call]) & set(range(start, end))
    busiest = min(busy, key=lambda name: (-len(busy[name]), name), default=None)
    host = (busiest, len(busy[busiest])) if busiest and busy[busiest] else (None, None)
    filling = [r for r in ranges if r[2]["process_id"] == process and fills(r, gap)]
    shortest = min(filling, key=lambda r: (r[1] - r[0], r[0], r[2]["text"]), default=None)
    host += (shortest and shortest[2]["text"],)
    call = launching(row, calls)
    if call is None:
        return [(None, None, *host, None)]
    earliest = [c for c in calls if launching(row, [c]) and c[0] == call[0]]
    texts = []
    for one in earliest:
        around = [
            r
            for r in ranges
            if r[0] <= one[0] < r[1]
            and (r[2]["process_id"], r[2]["thread_id"]) == (process, one[2]["thread_id"])
        ]
        inner = max(around, key=lambda r: (r[0], -r[1]), default=None)
        same = [r[2]["text"] for r in around if inner and r[:2] == inner[:2]]
        texts += same or [None]
    return [(call[0], end - call[0], *host, text) for text in texts]


SAID = ("launch_ns", "launch_latency_ns", "host_call", "host_call_ns", "host_range", "nvtx_range")


ACTIVITIES = st.tuples(
    rows(OF_KERNELS | LAUNCHED, 30, 9),
    rows(st.builds(lambda a, b: a | b, MOVES, st.fixed_dictionaries(LAUNCHED)), 30, 9),
    rows({"device_id": DEVICES} | LAUNCHED, 30, 9, max_size=3),
)


@settings(max_examples=40)
@given(ACTIVITIES, EARLY, LATE, RANGES)
def test_pauses_are_the_idle_instants_and_what_was_around_them(activities, early, late, ranges):
    later = [[(s + 6, e + 6, row) for s, e, row in some] for some in activities]
    calls = [*early, *late]
    late_ids = [(s, e, {"correlation_id": None} | call) for s, e, call in late]
    tables = dict(zip(("kernels", "memcpys", "memsets"), later, strict=True))
    profile = draw(**tables, api_calls=calls, nvtx_ranges=ranges)

    expected = {
        (device, start): end
        for device, parts in painted(*later).items()
        for start, end in pauses(parts[-1])
    }
    found = {(row["device_id"], row["start_ns"]): row for row in gaps(profile).to_pylist()}
    assert {key: row["start_ns"] + row["gap_ns"] for key, row in found.items()} == expected
    lengths = [row["gap_ns"] for row in gaps(profile).to_pylist()]
    assert lengths == sorted(lengths, reverse=True)
    for (device, start), end in expected.items():
        row = found[device, start]
        name, ending = enders(device, end, *later)
        assert row["ended_by"] == name
        said = [
            one
            for activity in ending
            for one in context((start, end), activity, [*early, *late_ids], ranges)
        ]
        assert tuple(row[column] for column in SAID) in said


PLACES = st.fixed_dictionaries({"process_id": PROCESSES, "thread_id": THREADS})


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 4), PLACES), min_size=2, max_size=6),
    rows(PLACES, latest=1, longest=4, min_size=2, max_size=8),
)
def test_a_pause_ends_with_what_its_innermost_range_launched(launched, opened):
    profile = draw(
        kernels=[
            (20 * n, 20 * n + 5, {"correlation_id": n, "process_id": place["process_id"]})
            for n, (_, place) in enumerate(launched, start=1)
        ],
        # A later call of the same id, on the other thread, launches nothing.
        api_calls=[
            (at + later, at + 9, place | {"correlation_id": n, "thread_id": thread})
            for n, (at, place) in enumerate(launched, start=1)
            for later, thread in ((0, place["thread_id"]), (1, 3 - place["thread_id"]))
        ],
        nvtx_ranges=[(s, e, {"text": str(n)} | place) for n, (s, e, place) in enumerate(opened)],
    )

    found = {row["start_ns"]: row["nvtx_range"] for row in gaps(profile).to_pylist()}
    assert len(found) == len(launched) - 1
    for start, text in found.items():
        at, place = launched[(start + 15) // 20 - 1]
        around = {
            str(n): (s, -e) for n, (s, e, own) in enumerate(opened) if s <= at < e and own == place
        }
        innermost = [name for name, times in around.items() if times == max(around.values())]
        assert text in (innermost or [None])
