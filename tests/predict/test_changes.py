"""Each change on a program whose times can be computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launched import PLACE, SPAN, US, call, launched
from recordings import copy, kernel, summary, trace
from test_replay import SMALL

from gpuprof.base.errors import MissingTableError, UsageError
from gpuprof.model import data_model
from gpuprof.predict.changes import apply
from gpuprof.predict.link_models import FAST, SLOW, USUAL, fitted, links_named
from gpuprof.predict.predict import predict

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def peers():
    """A kernel of 50 µs, a copy of 100 kB to the other device in 10 µs, and a kernel there."""
    ends = {"src_device_id": 0, "dst_device_id": 1, "bytes": 100_000}
    other = PLACE | {"device_id": 1}
    return trace(
        kernels=[
            kernel("a", 10_000, 60_000, stream_id=7, correlation_id=1, **PLACE),
            kernel("b", 10_000, 20_000, stream_id=8, correlation_id=2, **other),
            kernel("c", 75_000, 95_000, stream_id=8, correlation_id=4, **other),
        ],
        memcpys=[copy("PtoP", 62_000, 72_000, stream_id=7, correlation_id=3, **PLACE | ends)],
        api_calls=[call("cudaLaunchKernel", n * 2000, n * 2000 + 1000, n) for n in (1, 2, 3, 4)],
    )


def first_row(profile, *what):
    return predict(profile, what).tables["prediction"].to_pylist()[0]


def both(profile, *what):
    row = first_row(profile, *what)
    return row["measured_ns"], row["predicted_ns"]


@pytest.mark.parametrize(
    ("what", "predicted"),
    [
        pytest.param(["link=1us,100GB/s"], 85_000 - 10_000 + 2000, id="1 µs and 1 µs of bytes"),
        pytest.param(["link[0->1]=30us,100GB/s"], 85_000 - 10_000 + 31_000, id="slower"),
        pytest.param(["scale=^a$:0.5"], 85_000 - 25_000, id="the kernel takes half as long"),
        pytest.param(["scale=^b$:2"], 85_000, id="nothing waits for b"),
        pytest.param(["scale=^a$:0.5", "link=1us,100GB/s"], 52_000, id="several together"),
    ],
)
def test_a_change_moves_what_waits_for_it(what, predicted):
    assert both(peers(), *what) == (85_000, predicted)


def stages(*, has_events):
    """A kernel of 50 µs, a copy of what it computes in 10 µs, and a kernel that needs that.

    Each is on a stream of its own, none of them the default stream of its device.
    """
    other, rows = PLACE | {"device_id": 1}, {}
    if has_events:
        waits = (3, 13, {"device_id": 0}, (0, 7)), (5, 8, {"device_id": 1}, (0, 13))
        rows["synchronizations"] = [
            {
                "sync_kind": "stream_wait", "start_ns": n * US, "end_ns": n * US + 500,
                "correlation_id": n, "event_id": n, "stream_id": stream,
                "src_device_id": source[0], "src_stream_id": source[1],
            } | PLACE | device
            for n, stream, device, source in waits
        ]  # fmt: skip
    ends = {"src_device_id": 0, "dst_device_id": 1, "bytes": 100_000}
    return trace(
        kernels=[
            kernel("a", 10_000, 60_000, stream_id=7, correlation_id=1, **PLACE),
            kernel("b", 10_000, 20_000, stream_id=3, correlation_id=2, **PLACE),
            kernel("b", 20_000, 30_000, stream_id=3, correlation_id=2, **other),
            kernel("c", 74_000, 94_000, stream_id=8, correlation_id=6, **other),
        ],
        memcpys=[copy("PtoP", 62_000, 72_000, stream_id=13, correlation_id=4, **PLACE | ends)],
        api_calls=[call("cuda", n * US, n * US + 500, n) for n in range(1, 7)],
        **rows,
    )


@pytest.mark.parametrize("what", ["drop=^PtoP", "hide=PtoP", "hide=0->1"])
@pytest.mark.parametrize("has_events", [True, False])
def test_what_needs_a_copy_does_not_begin_before_what_it_is_a_copy_of(what, has_events):
    measured_ns, predicted_ns = both(stages(has_events=has_events), what)

    assert measured_ns == 84_000
    assert 70_000 < predicted_ns < 76_000


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(("link=1us,10GB/s", "scale=PtoP:3"), id="link, then scale"),
        pytest.param(("scale=PtoP:3", "link=1us,10GB/s"), id="scale, then link"),
        pytest.param(("link=1us,10GB/s", "scale=PtoP:6", "scale=PtoP:0.5"), id="scale twice"),
    ],
)
def test_a_factor_holds_whatever_link_a_copy_takes(what):
    # 100 kB take 11 µs on the link.
    assert both(peers(), *what) == (85_000, 85_000 - 10_000 + 3 * 11_000)


def test_a_faster_link_does_not_speed_up_pageable_copies_and_says_why():
    recording = peers()
    ends = {"src_device_id": None, "dst_device_id": None, "memcpy_kind": "HtoD"}
    rows = [
        r | ends | {"src_memory_kind": "pageable"} for r in recording.table("memcpys").to_pylist()
    ]
    pageable = recording.with_table("memcpys", data_model.MEMCPYS.table(rows))

    for figures, took_us in (("1us,100GB/s", 10), ("1us,2GB/s", 51)):
        row = first_row(pageable, f"link[HtoD]={figures}")
        copy_ns = row["predicted_ns"] - row["measured_ns"] + 10_000
        assert copy_ns == took_us * US
        assert (
            "; those of pageable memory (1) no less than recorded, as the host's own copy to or"
            " from pinned memory bounds them;"
        ) in row["assumptions"]


def test_a_dropped_copy_holds_up_nothing():
    # The copy kept c from running beside a, which takes 50 µs.
    assert both(peers(), "drop=^PtoP")[1] < 60_000


def test_parts_that_take_as_long_are_listed_by_name():
    names = list("hdbfaceg")
    kernels = [
        kernel(name, 10_000 + n * 1000, 11_000 + n * 1000, stream_id=7, **PLACE)
        for n, name in enumerate(names)
    ]
    path = predict(trace(kernels=kernels), ()).tables["critical_path"].to_pylist()

    alike = [row["name"] for row in path if row["kind"] == "kernel"]
    assert alike == sorted(names)


def hidden_copies(copy_ns, back_ns=0):
    """Three steps of a copy to the device, a kernel of 100 µs that waits for it, a copy back."""
    kernels, copies, calls, at = [], [], [], 10_000
    for number in range(1, 10, 3):
        its = {"stream_id": 7, **PLACE}
        ends = {"bytes": 1000, "src_memory_kind": "pinned", "dst_memory_kind": "device"}
        copies.append(copy("HtoD", at, at + copy_ns, correlation_id=number, **its, **ends))
        at += copy_ns
        kernels.append(kernel("k", at, at + 100_000, correlation_id=number + 1, **its))
        at += 100_000
        calls += [call("cudaMemcpyAsync", number * 1000, number * 1000 + 500, number)]
        calls += [call("cudaLaunchKernel", number * 1000 + 600, number * 1000 + 900, number + 1)]
        if back_ns:
            ends = {"bytes": 1000, "src_memory_kind": "device", "dst_memory_kind": "pinned"}
            copies.append(copy("DtoH", at, at + back_ns, correlation_id=number + 2, **its, **ends))
            at += back_ns
            calls += [call("cudaMemcpyAsync", number * 1000 + 950, number * 1000 + 990, number + 2)]
    return trace(kernels=kernels, memcpys=copies, api_calls=calls)


@pytest.mark.parametrize(
    ("copy_ns", "measured_ns", "predicted_ns"),
    [
        pytest.param(30_000, 390_000, 330_000, id="all but the first"),
        pytest.param(300_000, 1_200_000, 1_000_000, id="longer than all else: they hide the rest"),
    ],
)
def test_hidden_copies_take_no_time_where_there_is_enough_to_hide_behind(
    copy_ns, measured_ns, predicted_ns
):
    assert both(hidden_copies(copy_ns), "hide=HtoD") == (measured_ns, predicted_ns)


@pytest.mark.parametrize(
    "what",
    [["hide=HtoD|DtoH"], ["hide=HtoD", "hide=DtoH"], ["hide=0->host", "scale=k:1", "hide=HtoD"]],
)
def test_copies_to_and_from_a_device_are_hidden_at_once(what):
    """The first copy, the kernels and the last copy are left."""
    profile = hidden_copies(30_000, back_ns=20_000)

    assert both(profile, *what) == (450_000, 30_000 + 300_000 + 20_000)


@pytest.mark.parametrize(("copied_us", "step_us"), [(300, 300), (60, 100)])
def test_copies_to_the_host_are_hidden_but_where_the_link_is_busy_for_longer(copied_us, step_us):
    """A kernel of 100 µs and a copy of its results in each step, all launched at first."""
    events, marks, at = [], [], 60
    for number in range(8):
        called, copied = 6 * number, ("DtoH", at + 100, at + 100 + copied_us)
        events.append(("cudaLaunchKernel", called, called + 1, ("k", at, at + 100)))
        events.append(("cudaMemcpyAsync", called + 2, called + 3, copied))
        span = {"start_ns": called * US, "end_ns": (called + 4) * US, "text": f"step {number}"}
        marks.append(SPAN | span)
        at += 100 + copied_us
    rows = predict(launched(*events, nvtx_ranges=marks), ["hide=DtoH"]).tables["prediction"]
    row = next(row for row in rows.to_pylist() if row["phase"])

    assert row["measured_ns"] == (100 + copied_us) * US
    assert row["predicted_ns"] == pytest.approx(step_us * US, rel=0.03)


@pytest.mark.parametrize(
    ("kind", "change"), [("HtoD", "drop=^HtoD"), ("HtoD", "hide=HtoD"), ("DtoH", "drop=^DtoH")]
)
def test_the_host_waits_for_no_copy_that_is_dropped_or_hidden(kind, change):
    """The host launches the next kernel long after the copy that it waited for."""
    events = []
    for at in range(0, 2000, 200):
        events.append(("cudaLaunchKernel", at, at + 5, ("k", at + 10, at + 110)))
        events.append(("cudaMemcpyAsync", at + 8, at + 12, (kind, at + 111, at + 112)))
        events.append(("cudaStreamSynchronize", at + 14, at + 115, None))
    profile = launched(*events)

    assert both(profile, change)[1] < 1_200_000


def test_launches_that_are_free_stay_free_where_their_copies_are_hidden():
    events = [
        (name, at, at + 18, (label, at + 20, at + 25))
        for n in range(5)
        for name, label, at in (
            ("cudaLaunchKernel", "k", 50 * n),
            ("cudaMemcpyAsync", "HtoD", 50 * n + 25),
        )
    ]
    changed = apply(launched(*events), ("no-launch-cost", "hide=HtoD"), USUAL)

    # The first call comes before all work.
    assert changed.weights.call_ns.tolist() == [18_000, *[0] * 9]


@pytest.mark.parametrize(
    ("change", "predicted"), [("scale=.*:0.5", 150_000), ("link[HtoD]=1us,1GB/s", 300_000)]
)
def test_what_is_dropped_takes_no_time_whatever_else_changes(change, predicted):
    profile = hidden_copies(30_000)

    assert both(profile, "drop=^HtoD", change)[1] == predicted
    assert both(profile, change, "drop=^HtoD")[1] == predicted


def test_without_a_cost_of_launches_the_device_waits_for_nothing():
    launches = [("cudaLaunchKernel", at, at + 4, ("k", at + 5, at + 8)) for at in range(0, 100, 20)]
    measured_ns, predicted_ns = both(launched(*launches), "no-launch-cost")

    assert measured_ns == 83_000
    # Of the first two nothing is won, as their calls come before all work; the others follow each
    # other as kernels do elsewhere: here each waits for its launch.
    assert predicted_ns == 20_000 + 3_000 + 3 * (1_400 + 3_000)


@pytest.mark.parametrize(
    ("query_us", "since_us", "won_us", "removed"),
    [
        # The range begins before the first launch, or after it: then it launches nothing.
        pytest.param((50, 51), 0.9, 10, "(1) and their calls (2)", id="with a launch"),
        pytest.param((50, 210), 49, 150, "(0) and their calls (1)", id="of calls alone"),
    ],
)
def test_a_dropped_range_takes_its_launches_and_the_host_within_it_along(
    query_us, since_us, won_us, removed
):
    _, end = query_us
    profile = launched(
        ("cudaLaunchKernel", 1, 2, ("a", 10, 20)),
        ("cudaEventQuery", *query_us, None),
        ("cudaLaunchKernel", end + 1, end + 2, ("b", end + 9, end + 19)),
        nvtx_ranges=[
            SPAN | {"text": "norm", "start_ns": round(since_us * US), "end_ns": end * US + 500}
        ],
    )

    result = predict(profile, ["drop=norm"])

    assert f"operations of norm {removed} are removed" in result.headline
    row = result.tables["prediction"].to_pylist()[0]
    assert row["measured_ns"] - row["predicted_ns"] > won_us * US


def loading(load_us, wait="nvtx_ranges"):
    """Six steps: the host loads for so long, then launches a kernel of 100 µs and waits for it."""
    events, loads = [], []
    for step in range(6):
        at = step * (load_us + 120)
        launch = at + load_us
        is_range = wait == "nvtx_ranges"
        named = {"text": f"load {step}"} if is_range else {"library": "os", "name": "read"}
        span = SPAN if is_range else {"process_id": 1, "thread_id": 1}
        loads.append(span | named | {"start_ns": (at + 1) * US, "end_ns": launch * US})
        events += [
            ("cudaLaunchKernel", launch, launch + 2, ("k", launch + 5, launch + 105)),
            ("cudaDeviceSynchronize", launch + 3, launch + 107, None),
        ]
    return launched(*events, **{wait: loads})


@pytest.mark.parametrize(
    ("wait", "name"),
    [("nvtx_ranges", "load *"), ("host_calls", "read")],
)
def test_without_its_loader_the_host_launches_at_once(wait, name):
    measured_ns, predicted_ns = both(loading(300, wait), f"drop-host={name}")

    # Between six kernels five loads, of which 1 µs is before the range.
    assert measured_ns == 5 * 420_000 + 100_000
    assert predicted_ns == measured_ns - 5 * 299_000


@pytest.mark.parametrize(("table", "column"), [("nvtx_ranges", "text"), ("host_calls", "name")])
@pytest.mark.parametrize(("name", "is_wait"), [("MPI_Waitall", True), ("MPI_Isend", False)])
def test_the_host_waits_for_other_ranks_in_mpi(table, column, name, is_wait):
    profile = loading(300, table)
    tables = {of: profile.table(of).to_pylist() for of in ("kernels", "api_calls", table)}
    for row in tables[table]:
        row[column] = name
    profile = trace(**tables)

    result = predict(profile, ())
    parts = result.tables["critical_path"].to_pylist()
    longest = max(
        (row for row in parts if row["kind"] in {"host", "wait"}), key=lambda row: row["before_ns"]
    )
    # Of each step, 299 us and 1 us before.
    assert longest["before_ns"] == pytest.approx(300_000, rel=0.02)
    assert (longest["kind"] == "wait") == is_wait
    assert (longest["name"] == f"in {name}") >= is_wait
    assert any("waits for other ranks in MPI" in note for note in result.notes) == is_wait
    with pytest.raises(UsageError, match="there are no collectives to balance") as error:
        predict(profile, ["balance"])
    assert "drop-host='MPI_*'" in error.value.hint


def test_without_calls_nothing_is_known_to_wait_for_the_host():
    profile = loading(300)
    tables = {name: profile.table(name).to_pylist() for name in ("kernels", "nvtx_ranges")}

    with pytest.raises(UsageError, match="no CUDA calls were recorded: what waits for load"):
        predict(trace(**tables), ["drop-host=load *"])


def test_the_host_does_not_shorten_what_it_does_elsewhere():
    with pytest.raises(UsageError, match="no range, operation or host call is named load"):
        predict(loading(300), ["drop-host=load"])


@pytest.mark.parametrize(("each_us", "is_told"), [(950, True), (95, False)])
def test_threads_that_may_wait_for_what_is_left_out_are_told(each_us, is_told):
    """A thread decodes for 920 µs between two calls; another one pauses meanwhile, or does not."""
    works = [*((at, 1) for at in range(0, 951, each_us)), (5, 2), (940, 2)]
    calls = [
        call("cudaLaunchKernel", at * US, at * US + 500, number, thread)
        for number, (at, thread) in enumerate(works)
    ]
    kernels = [
        kernel("k", at * US + 5000, at * US + 6000, stream_id=thread, correlation_id=n, **PLACE)
        for n, (at, thread) in enumerate(works)
    ]
    decode = SPAN | {"text": "decode", "start_ns": 10 * US, "end_ns": 930 * US, "thread_id": 2}
    calls.sort(key=lambda row: row["start_ns"])
    profile = trace(kernels=kernels, api_calls=calls, nvtx_ranges=[decode])

    headline = predict(profile, ["drop-host=decode"]).headline
    assert ("; pauses of other threads meanwhile (" in headline) is is_told


def test_only_what_matches_of_a_range_is_dropped():
    launches = [
        ("cudaLaunchKernel", n, n + 0.5, (name, 10 * n + 5, 10 * n + 15))
        for n, name in enumerate("abab")
    ]
    ranges = [SPAN | {"text": "sync", "start_ns": 1900, "end_ns": 4000}]
    profile = launched(*launches, nvtx_ranges=ranges)

    result = predict(profile, ["drop=^a$@sync"])

    assert "operations of ^a$@sync (1) and their calls (1) are removed" in result.headline
    assert both(profile, "drop=^a$@sync") == (40_000, 30_000)
    with pytest.raises(UsageError, match=r"sync launches no kernel or copy that matches \^b\$"):
        predict(launched(*launches[:3], nvtx_ranges=ranges), ["drop=^b$@sync"])


def test_copies_on_a_stream_of_their_own_let_the_host_go_on():
    """Each copy from pageable memory holds up the launch of the kernel before it is copied."""
    events = []
    for at in range(0, 1200, 300):
        events.append(("cudaMemcpyAsync", at, at + 100, ("HtoD", at + 1, at + 99)))
        events.append(("cudaLaunchKernel", at + 101, at + 103, ("k", at + 105, at + 300)))

    result = predict(launched(*events), ["streams=^HtoD"])

    assert "4 calls of copies return at once" in result.headline
    row = result.tables["prediction"].to_pylist()[0]
    assert row["predicted_ns"] < row["measured_ns"] - 3 * 90_000


def test_copies_of_results_on_a_stream_of_their_own_follow_what_computes_these():
    """Kernels of 100 µs and copies of 30 back to the host, all launched at first."""
    events = []
    for number in range(4):
        at = 20 + 130 * number
        events.append(("cudaLaunchKernel", 4 * number, 4 * number + 1, ("k", at, at + 100)))
        copied = ("DtoH", at + 100, at + 130)
        events.append(("cudaMemcpyAsync", 4 * number + 2, 4 * number + 3, copied))

    # Each copy runs beside the next kernel, and the last one after all of them.
    assert both(launched(*events), "streams=DtoH") == (520 * US, 430 * US)


def test_a_part_that_does_not_change_has_no_difference():
    parts = predict(peers(), ["link=1us,100GB/s"]).tables["critical_path"].to_pylist()

    differences = {part["name"]: part["difference_ns"] for part in parts}
    assert differences["PtoP 0->1"] == -8000
    assert {differences["a"], differences["c"]} == {0}


def test_copies_from_the_host_cannot_be_staged():
    with pytest.raises(UsageError, match="copies HtoD are not between devices") as error:
        predict(hidden_copies(30_000), ["link[HtoD]=staged"])

    assert error.value.hint


@pytest.mark.parametrize("link", ["nvlink2", "staged"])
def test_copies_of_unknown_size_keep_their_times_and_are_counted(link):
    ends = {"src_device_id": 0, "dst_device_id": 1, "stream_id": 7, **PLACE}
    profile = trace(
        kernels=[kernel("a", 0, 1000, stream_id=7, **PLACE)],
        memcpys=[
            copy("PtoP", 1000, 31_000, bytes=None, **ends),
            copy("PtoP", 31_000, 61_000, bytes=8, **ends),
        ],
    )
    result = predict(profile, [f"link={link}"])

    assert "copies between devices (1)" in result.headline
    assert "copies of unknown size (1)" in result.headline
    assert 31_000 < result.tables["prediction"].to_pylist()[0]["predicted_ns"] < 61_000


def in_a_row(*kernels, sync=None):
    """Kernels of one stream, launched before the first one starts, without gaps.

    Args:
        kernels: Name and duration in us of each.
        sync: When the host begins to wait for all of them, in us.
    """
    events, at = [], 20
    for number, (name, us) in enumerate(kernels, 1):
        events.append(("cudaLaunchKernel", number, number + 0.5, (name, at, at + us)))
        at += us
    if sync is not None:
        events.append(("cudaDeviceSynchronize", sync, at + 2, None))
        events.append(("cudaLaunchKernel", at + 3, at + 4, ("last", at + 22, at + 32)))
    return launched(*events)


@pytest.mark.parametrize(
    ("kernels", "predicted_ns"),
    [
        pytest.param([("a", 100), ("x", 50), ("b", 100)], 200_000, id="it hides behind a and b"),
        # Its launch is 1 µs after that of a.
        pytest.param([("a", 100), ("x", 300), ("b", 100)], 301_000, id="it is the longest"),
        pytest.param([("a", 9), ("x", 300), ("b", 9), ("x", 80)], 381_000, id="x follows x"),
        pytest.param([("x", 50), ("x", 50)], 100_000, id="nothing else is there"),
    ],
)
def test_operations_on_a_separate_stream_run_beside_the_others_in_their_order(
    kernels, predicted_ns
):
    measured_ns = 1000 * sum(us for _, us in kernels)

    assert both(in_a_row(*kernels), "streams=^x$") == (measured_ns, predicted_ns)


def test_the_host_still_waits_for_operations_on_a_separate_stream():
    profile = in_a_row(("a", 100), ("x", 300), ("b", 100), sync=10)

    # The last kernel is launched after x, which ends 199 µs earlier than b did.
    assert both(profile, "streams=^x$") == (532_000, 532_000 - 199_000)


def test_collectives_made_one_pay_their_latency_once():
    profile = in_a_row((NCCL, 12), (NCCL, 14), (NCCL, 20), ("k", 50))

    row = first_row(profile, "merge=nccl:3")
    # Without sizes the latency is none of the shortest, or all of it, usually half.
    assert (row["measured_ns"], row["predicted_ns"]) == (96_000, 96_000 - 2 * 6_000)
    assert row["low_ns"] < 96_000 - 2 * 12_000
    assert row["high_ns"] > 96_000


@pytest.mark.parametrize(
    ("kernels", "what", "message"),
    [
        ([(NCCL, 9), (NCCL, 9)], "merge=nccl", "nothing marks or repeats steps"),
        (
            [(NCCL, 9), ("k", 9), (NCCL, 9)],
            "merge=nccl:2",
            "no collectives that match nccl can",
        ),
        ([(NCCL, 9), ("k", 9), ("k", 9)], "merge=k:2", "no collectives that match k can"),
    ],
)
def test_collectives_that_are_none_or_do_not_follow_each_other_are_not_made_one(
    kernels, what, message
):
    with pytest.raises(UsageError, match=message) as error:
        predict(in_a_row(*kernels), [what])

    assert error.value.hint


def test_without_page_faults_kernels_save_half_to_all_of_the_time_that_these_take():
    faults = [
        {"start_ns": 20_000, "end_ns": 40_000, "processor": "gpu", "device_id": 0},
        {"start_ns": 50_000, "end_ns": 90_000, "processor": "cpu"},
        {"start_ns": 50_000, "end_ns": 90_000, "processor": "gpu", "device_id": 1},
    ]
    kernels = [kernel("k", 10_000, 100_000, stream_id=7, **PLACE)]
    moved = copy("UVM_HtoD", 30_000, 60_000, **PLACE)
    profile = trace(kernels=kernels, memcpys=[moved], page_faults=faults)

    row = first_row(profile, "faults=0")
    # From 20 to 60 us faults and a migration are handled on its device.
    assert (row["measured_ns"], row["predicted_ns"]) == (90_000, 90_000 - 30_000)
    assert row["low_ns"] <= 90_000 - 40_000
    assert row["high_ns"] >= 90_000 - 20_000
    # A factor is one of the time that is left, whichever is named first.
    both_ways = [["faults=0", "scale=k:0.5"], ["scale=k:0.5", "faults=0"]]
    first, second = (first_row(profile, *what)["predicted_ns"] for what in both_ways)
    assert first == second
    assert "migrations (1) are removed" in row["assumptions"]


def on_a_v100(*kernels, **more):
    devices = [{"device_id": 0, "name": "Tesla V100-SXM2-16GB"}]
    return trace(
        kernels=[kernel(*of, stream_id=7, **PLACE) for of in kernels], devices=devices, **more
    )


@pytest.mark.parametrize(
    ("name", "took_ns", "low", "point", "high"),
    [
        # Peaks: memory 900 / 1555 GB/s, fp32 15.7 / 19.5 and Tensor Cores 125 / 312 TFLOP/s.
        pytest.param(
            "k", 10**6, 125 / 312, (125 / 312 * 15.7 / 19.5) ** 0.5, 15.7 / 19.5, id="any"
        ),
        pytest.param("vectorized_elementwise_kernel", 10**6, *[900 / 1555] * 3, id="memory"),
        pytest.param("k", 9000, 125 / 312, (125 / 312 * 15.7 / 19.5) ** 0.5, 1, id="small"),
    ],
)
def test_another_gpu_takes_what_its_peak_rates_allow(name, took_ns, low, point, high):
    row = first_row(on_a_v100((name, 0, took_ns)), "gpu=a100")
    assert row["predicted_ns"] == pytest.approx(point * took_ns, abs=1)
    assert row["low_ns"] <= low * took_ns
    assert row["high_ns"] >= high * took_ns


def ranks_in_step(steps, transfer_us=50):
    """Ranks that compute for so many us per step, a row each, and meet in a collective."""
    kernels, free = [], [0] * len(steps[0])
    for computing in steps:
        begun = [at + us * 1000 for at, us in zip(free, computing, strict=True)]
        end = max(begun) + transfer_us * 1000
        for rank, (start, at) in enumerate(zip(free, begun, strict=True)):
            its = PLACE | {"device_id": rank, "process_id": rank, "stream_id": 7}
            kernels.append(kernel("gemm", start, at, **its))
            kernels.append(kernel(NCCL, at, end, **its))
        free = [end] * len(free)
    return trace(kernels=kernels)


COMPUTING = st.lists(st.tuples(*[st.integers(20, 400)] * 3), min_size=5, max_size=9)


@SMALL
@given(COMPUTING)
def test_balanced_ranks_take_their_own_time_and_the_program_the_mean(steps):
    rows = predict(ranks_in_step(steps), ["balance"]).tables["prediction"].to_pylist()
    of_recording = {row["device_id"]: row for row in rows if row["phase"] is None}

    measured_ns = sum(max(computing) + 50 for computing in steps) * 1000
    alone_ns = [sum(us + 50 for us in computing) * 1000 for computing in zip(*steps, strict=True)]
    assert {row["measured_ns"] for row in of_recording.values()} == {measured_ns}
    assert [of_recording[rank]["predicted_ns"] for rank in range(3)] == alone_ns
    assert of_recording[None]["predicted_ns"] == int(np.mean(alone_ns)) <= measured_ns


@pytest.mark.parametrize("changes", [["balance", "scale=.:0.5"], ["scale=.:0.5", "balance"]])
def test_balanced_ranks_that_work_in_half_the_time_do_not_wait_again(changes):
    """Each computes 100 or 300 µs a step, and transfers take 50."""
    rows = predict(ranks_in_step([(100, 300)] * 5), changes).tables["prediction"].to_pylist()

    assert [row["predicted_ns"] for row in rows[:3]] == [625_000, 375_000, 875_000]


def test_balanced_devices_take_the_mean_where_one_thread_waits_for_all_of_them():
    """Two devices compute for 100 and 300 µs a step, and reduce for 50, before the host goes on."""
    kernels, calls, at, number = [], [], 0, 0
    for _ in range(5):
        end = at + 20 + 300 + 50
        for device, us in enumerate((100, 300)):
            begun = at + 20 + us
            for start, until, name in ((at + 20, begun, "gemm"), (begun, end, NCCL)):
                its = PLACE | {"device_id": device, "stream_id": 7, "correlation_id": number}
                kernels.append(kernel(name, start * US, until * US, **its))
                called = (at + 4 * device + 2 * (name == NCCL)) * US
                calls.append(call("cudaLaunchKernel", called, called + US, number))
                number += 1
        calls.append(call("cudaDeviceSynchronize", (at + 8) * US, (end + 4) * US, number + 1000))
        at = end + 4
    row = first_row(trace(kernels=kernels, api_calls=calls), "balance")

    # Without what the host takes before the first kernel, and after the last one.
    assert row["predicted_ns"] == (5 * (20 + 200 + 50 + 4) - 20 - 4) * US
    assert "one thread launches the work of 2" in row["assumptions"]


def test_separate_streams_make_nothing_take_longer_where_pauses_differ():
    """The pauses between kernels of a stream are 1 us at first, and 3 us in most cases."""
    starts = [10, *(111 + 101 * n for n in range(20)), *(2_134 + 103 * n for n in range(30))]
    events = [
        ("cudaLaunchKernel", number, number + 0.5, ("k", start, start + 100))
        for number, start in enumerate(starts)
    ]

    measured_ns, predicted_ns = both(launched(*events), "streams=k")
    assert predicted_ns == measured_ns


def test_ranks_that_never_wait_win_nothing_by_balance():
    assert both(ranks_in_step([(100, 100)] * 5), "balance") == (750_000, 750_000)


@pytest.mark.parametrize(("factor", "win_ns"), [("1", 0), ("0.5", 5 * 25_000)])
def test_ranks_that_end_apart_stay_so_where_collectives_take_another_time(factor, win_ns):
    rows = ranks_in_step([(100, 160)] * 5).table("kernels").to_pylist()
    for row in rows:
        if row["device_id"] == 0 and row["name"] == NCCL:
            row["end_ns"] -= 4 * US

    result = predict(trace(kernels=rows), [f"scale=nccl:{factor}"])
    of_recording = [row for row in result.tables["prediction"].to_pylist() if row["phase"] is None]
    assert [row["measured_ns"] for row in of_recording] == [1_050_000, 1_046_000, 1_050_000]
    for row in of_recording:
        assert row["measured_ns"] - row["predicted_ns"] == win_ns


@pytest.mark.parametrize("apart_ns", [40_000_000, -3_000_000, 90_000])
@pytest.mark.parametrize("what", ["scale=gemm:0.5", "balance"])
def test_clocks_of_ranks_that_are_apart_change_no_prediction(apart_ns, what):
    """Rank 1 computes for longer in most steps, and its host and device have a clock apart."""
    computing = [(100, 300 - 20 * n) for n in range(12)]
    right = launched_beforehand(ranks_in_step(computing), {})
    apart = launched_beforehand(ranks_in_step(computing), {1: apart_ns})

    results = [predict(profile, [what]) for profile in (right, apart)]
    expected, rows = (
        {(row["phase"], row["device_id"]): row for row in r.tables["prediction"].to_pylist()}
        for r in results
    )
    for name in ("measured_ns", "predicted_ns", "change"):
        assert rows[None, None][name] == pytest.approx(expected[None, None][name], rel=0.001)
    assert expected[None, None]["predicted_ns"] < 0.9 * expected[None, None]["measured_ns"]
    assert any("times were set right by the common ends" in n for n in results[1].notes)


def launched_beforehand(profile, apart_ns):
    """The same kernels, on the clock of each rank, with calls before all of them."""
    kernels, calls = profile.table("kernels").to_pylist(), []
    for number, row in enumerate(kernels):
        shift_ns = apart_ns.get(row["device_id"], 0)
        row["correlation_id"] = number
        row["start_ns"] += shift_ns
        row["end_ns"] += shift_ns
        begun = shift_ns - 100_000 + 1000 * number
        calls.append(
            call("cudaLaunchKernel", begun, begun + 500, number) | {"process_id": row["process_id"]}
        )
    return trace(kernels=kernels, api_calls=sorted(calls, key=lambda row: row["start_ns"]))


def test_launches_without_cost_need_recorded_calls():
    with pytest.raises(UsageError, match="no CUDA calls were recorded") as error:
        predict(trace(kernels=[kernel("k", 0, 10, stream_id=7, **PLACE)]), ["no-launch-cost"])

    assert error.value.hint == "Record the CUDA API as well."


@pytest.mark.parametrize(
    ("messages", "predicted_ns"),
    [
        # The last kernel starts 1.4 µs after the one before it, as kernels do elsewhere.
        pytest.param(False, 50_000 + 10_000 + 1400 + 10_000, id="no message"),
        # Only the launch before it, and that call's 2 µs, take no time.
        pytest.param(True, 110_000 - 2000, id="a message"),
    ],
)
def test_without_a_cost_of_launches_the_host_still_sends_its_messages(messages, predicted_ns):
    launches = [("cudaLaunchKernel", at - 5, at - 3, ("k", at, at + 10)) for at in (10, 60, 110)]
    sent = {
        "start_ns": 58_000, "end_ns": 104_000, "library": "mpi" if messages else "os",
        "name": "MPI_Send" if messages else "read", "process_id": 1, "thread_id": 1,
    }  # fmt: skip
    profile = launched(*launches, host_calls=[sent])

    assert both(profile, "no-launch-cost") == (110_000, predicted_ns)


def test_a_start_of_many_calls_is_no_gain_of_launches_without_cost():
    start = [("cudaGetDevice", n * 9, n * 9 + 8, None) for n in range(90)]
    profile = launched(*start, ("cudaLaunchKernel", 890, 894, ("k", 900, 910)))

    assert both(profile, "no-launch-cost") == (10_000, 10_000)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("streams=", "there is no change streams="),
        ("streams=(", '"(" is not a regular expression'),
        ("streams=zebra", "no kernel or copy matches zebra"),
        ("balance=2", "there is no change balance=2"),
        ("link=warp", "there is no link warp"),
        ("link=4us", "there is no link 4us"),
        ("link=1us,0GB/s", "there is no link 1us,0GB/s"),
        ("link[3->4]=pcie3", "no copies 3->4 were recorded"),
        ("link[a->0]=pcie3", "a is neither a device number nor host"),
        ("scale=a", "scale=a has no factor"),
        ("scale=(:2", '"(" is not a regular expression'),
        ("drop=zebra", "no kernel or copy matches zebra"),
        ("hide=HtoD", "no copies HtoD were recorded"),
        ("hide=PtoP|HtoD", "no copies HtoD were recorded"),
        ("hide=|PtoP", "no copies  were recorded"),
        ("balance", "there are no collectives to balance"),
        ("faults=0", "trace.sqlite has no page faults of a GPU and no migrations"),
        ("faults=1", "there is no change faults=1"),
        ("gpu=Voodoo2", "there is no GPU Voodoo2"),
        ("gpu=H100", "trace.sqlite names no GPU of known rates as device 0"),
        ("faster", "there is no change faster"),
    ],
)
def test_a_change_that_is_none_is_refused(what, message):
    with pytest.raises(UsageError) as error:
        predict(peers(), [what])

    assert error.value.message.startswith(message)
    assert error.value.hint


def test_a_hint_names_what_was_recorded_the_longest_first():
    kernels = [kernel("b", 0, 5, **PLACE), kernel("void a::gemm<int>(int*)", 5, 15, **PLACE)]
    profile = trace(kernels=kernels, memsets=[], graph_launches=[])

    with pytest.raises(UsageError) as error:
        predict(profile, ["scale=zebra:2"])

    assert error.value.hint == "Recorded names include: gemm, b."


def test_versions_of_a_call_are_one_part_of_a_path():
    profile = launched(
        ("cudaLaunchKernel", 0, 9, ("k", 8, 8.5)),
        ("cudaLaunchKernel_v7000", 9, 18, ("k", 17, 17.5)),
        ("cudaGetDevice", 18, 19, None),
        ("cudaLaunchKernel", 19, 27.5, ("last", 27, 28)),
    )

    path = predict(profile, ()).tables["critical_path"].to_pylist()

    on_path = {row["name"]: row["before_ns"] for row in path if row["kind"] == "call"}
    assert on_path["cudaLaunchKernel"] == pytest.approx(18 * on_path["cudaGetDevice"], rel=0.01)


def test_a_printed_summary_has_no_times_to_replay():
    with pytest.raises(MissingTableError, match="no times of kernels and copies"):
        predict(summary(), [])


def test_a_recording_of_nothing_says_so():
    with pytest.raises(MissingTableError, match="no kernels and no copies"):
        predict(trace(kernels=[], api_calls=[]), [])


def test_no_answer_is_given_where_pauses_have_no_cause():
    kernels = [kernel("k", n * 1_000_000, n * 1_000_000 + 10, stream_id=7, **PLACE) for n in (1, 9)]
    result = predict(trace(kernels=kernels), ["scale=k:0.5"])

    row = result.tables["prediction"].to_pylist()[0]
    assert (row["predicted_ns"], row["change"]) == (None, None)
    assert "no CUDA calls were recorded" in result.headline


def early(process_of_last):
    """A hundred kernels that start half a microsecond before the calls that launched them."""
    launches = [("cudaLaunchKernel", n + 0.5, n + 0.6, ("k", n, n + 0.9)) for n in range(100)]
    profile = launched(*launches)
    kernels, calls = (profile.table(name).to_pylist() for name in ("kernels", "api_calls"))
    kernels[-1]["process_id"] = process_of_last
    return trace(kernels=kernels, api_calls=calls)


@pytest.mark.parametrize("process_of_last", [1, 2], ids=["all", "but one that no call launched"])
def test_clocks_that_disagree_are_set_right_and_said(process_of_last):
    result = predict(early(process_of_last), ["scale=k:0.5"])

    assert result.tables["prediction"].to_pylist()[0]["predicted_ns"] is not None
    assert any("-5.50 µs was added to all host times" in note for note in result.notes)


def test_a_link_is_fitted_to_the_smallest_and_the_largest_copies():
    sizes = np.array([4, 4, 1_000_000])
    link = fitted(sizes, np.array([2000, 2000, 102_000]), "these")

    assert link.copies_ns(sizes).tolist() == [2000, 2000, 102_000]
    assert fitted(sizes[:2], np.array([2000, 2000]), "these") is None


def test_copies_without_a_time_say_nothing_of_how_a_fitted_link_spreads():
    """Most copies are so short that the tool gave them no time."""
    ends = {"src_memory_kind": "device", "dst_memory_kind": "pinned", "stream_id": 7, **PLACE}
    short = [copy("DtoH", n * 20_000, n * 20_000, bytes=4096, **ends) for n in range(5)]
    long = [
        copy("DtoH", n * 20_000, n * 20_000 + took, bytes=40_000_000, **ends)
        for n, took in ((6, 9_000), (7, 10_000), (8, 12_000))
    ]
    peer = {"src_device_id": 0, "dst_device_id": 1, "bytes": 40_000_000, "stream_id": 7, **PLACE}
    copies = [*short, *long, copy("PtoP", 300_000, 301_000, **peer)]
    profile = trace(kernels=[kernel("k", 310_000, 320_000, **PLACE)], memcpys=copies)

    usual, slow, fast = (
        apply(profile, ["link=staged"], bound).weights.duration_ns.max()
        for bound in (USUAL, SLOW, FAST)
    )

    assert 18_000 < fast < usual < slow < 31_500  # two copies of 9 to 12 µs, and a gap of 7 µs


@pytest.mark.parametrize("name", ["nvlink2", "nvlink3", "nvlink4", "pcie3", "pcie4", "pcie5"])
def test_a_link_of_the_table_is_slower_at_its_slowest(name):
    usual, slow, fast = links_named(name)

    assert slow.bytes_per_s < usual.bytes_per_s < fast.bytes_per_s
    assert name in usual.words


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (
            "drop-host=load",
            (
                " Single steps often take longer: in the mean without the longest twentieth, a step"
                " would take 110 µs instead of 154 µs (-28.8 %)."
            ),
        ),
        ("scale=k:1", ""),
    ],
)
def test_what_single_steps_wait_for_is_won_in_the_mean(what, words):
    """A kernel of 100 µs each 110, and a loader of 300 before each fifth."""
    events, loads, steps, at = [], [], [], 0
    for number in range(30):
        begun = at
        if number % 5 == 2:
            loads.append({"text": "load", "start_ns": at * US, "end_ns": (at + 300) * US} | SPAN)
            at += 300
        events.append(("cudaLaunchKernel", at, at + 3, ("k", at + 6, at + 106)))
        events.append(("cudaDeviceSynchronize", at + 3, at + 110, None))
        at += 110
        step = {"text": f"step {number}", "start_ns": begun * US, "end_ns": at * US}
        steps.append(step | SPAN)
    headline = predict(launched(*events, nvtx_ranges=[*loads, *steps]), [what]).headline

    assert headline.endswith(words)
    assert ("in the mean" in headline) == bool(words)
