"""The peak of memory, where it is, and what steps leave behind."""

import gzip
import json

import pytest
from commands import CORPUS
from recordings import kernel, trace

from gpuprof.analyses.memory import memory, memory_over_time
from gpuprof.analyses.reports import report
from gpuprof.base.errors import MissingTableError
from gpuprof.readers import read_profile
from gpuprof.show.charts.catalogue import chart_named, of_recording, picture_of
from gpuprof.show.page.recording_page import recording_page

MB = 1_000_000


def event(at, size, allocated=None, reserved=None, **columns):
    place = {"process_id": 1, "thread_id": 2, "device_id": 0} | columns
    return place | {
        "start_ns": at,
        "bytes": size,
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
    }


def test_without_events_or_a_monitor_there_are_no_rows():
    assert memory_over_time(trace(memory_events=[])).num_rows == 0


def test_the_peak_has_its_range_its_operation_and_its_share():
    thread = {"process_id": 1, "thread_id": 2}
    profile = trace(
        memory_events=[
            event(10, 5 * MB, 25 * MB, 40 * MB),
            event(20, 15 * MB, 40 * MB, 60 * MB),
            event(30, -20 * MB, 20 * MB, 60 * MB),
        ],
        nvtx_ranges=[
            {"start_ns": 0, "end_ns": 25, "text": "forward", "range_kind": "annotation"} | thread,
            {"start_ns": 18, "end_ns": 22, "text": "aten::conv", "range_kind": "operation"}
            | thread,
            {"start_ns": 19, "end_ns": 21, "text": "aten::empty", "range_kind": "operation"}
            | thread,
            {"start_ns": 0, "end_ns": 99, "text": "other thread", "range_kind": "annotation"}
            | {"process_id": 1, "thread_id": 3},
        ],
        devices=[{"device_id": 0, "name": "A100", "total_memory_bytes": 80 * MB}],
    )

    assert memory(profile).to_pylist() == [
        {
            "process_id": 1,
            "device_id": 0,
            "allocations": 2,
            "before_bytes": 20 * MB,
            "peak_bytes": 40 * MB,
            "peak_ns": 20,
            "peak_range": "forward",
            "peak_operation": "aten::conv",
            "reserved_bytes": 60 * MB,
            "total_memory_bytes": 80 * MB,
            "peak_share": 0.5,
            "steps": None,
            "step_peak_bytes": None,
            "growth_bytes_per_step": None,
            "growing_share": None,
        }
    ]


def test_where_no_total_was_recorded_the_peak_is_of_the_events_alone():
    devices = [{"device_id": 0, "name": "A100", "total_memory_bytes": 80 * MB}]
    events = [event(10, 5), event(20, 7), event(30, -12), event(40, 3)]

    [row] = memory(trace(memory_events=events, devices=devices)).to_pylist()

    assert (row["before_bytes"], row["peak_bytes"], row["peak_ns"]) == (None, 12, 20)
    assert (row["reserved_bytes"], row["peak_share"]) == (None, None)


def test_processes_devices_and_the_host_have_rows_of_their_own():
    events = [
        event(10, 5, 5), event(10, 7, 7, device_id=1), event(10, 9, 9, process_id=3),
        event(10, 2, 2, device_id=None),
    ]  # fmt: skip

    rows = memory(trace(memory_events=events)).to_pylist()

    assert {(r["process_id"], r["device_id"]): r["peak_bytes"] for r in rows} == {
        (1, None): 2, (1, 0): 5, (1, 1): 7, (3, 0): 9,
    }  # fmt: skip


def _steps(kept):
    """Six steps of 1 ms that allocate ever more for a while and keep some bytes each."""
    events, kernels, ranges, level = [], [], [], 100 * MB
    for step in range(6):
        start = step * MB
        mark = {"text": f"ProfilerStep#{step}", "range_kind": "annotation", "process_id": 1}
        ranges.append(mark | {"thread_id": 2, "start_ns": start, "end_ns": start + MB})
        kernels.append(kernel("k", start + 1000, start + 900_000, device_id=0, process_id=1)
                       | {"correlation_id": step})  # fmt: skip
        temporary = (50 + 7 * step) * MB
        for at, size in ((100, temporary + kept), (500_000, -temporary)):
            level += size
            events.append(event(start + at, size, level, 200 * MB))
    calls = [
        {"start_ns": k["start_ns"] - 500, "end_ns": k["start_ns"], "name": "cudaLaunchKernel"}
        | {"process_id": 1, "thread_id": 2, "correlation_id": k["correlation_id"]}
        for k in kernels
    ]
    return trace(
        memory_events=events, kernels=kernels, memcpys=[], api_calls=calls, nvtx_ranges=ranges
    )


@pytest.mark.parametrize(("kept", "growing"), [(0, 0.0), (3 * MB, 1.0)])
def test_what_each_step_keeps_is_its_growth(kept, growing):
    [row] = memory(_steps(kept)).to_pylist()

    assert row["steps"] >= 3
    assert (row["growth_bytes_per_step"], row["growing_share"]) == (kept, growing)
    # Each needs 7 MB more than the one before, beside what these keep; the last is the peak.
    steps_before_last = (row["steps"] - 1) / 2
    assert row["step_peak_bytes"] == row["peak_bytes"] - steps_before_last * (7 * MB + kept)


def test_slices_have_the_most_and_the_least_that_was_allocated_in_them():
    events = [event(0, 10, 10, 20), event(605, 30, 40, 64), event(1199, -30, 10, 64)]

    rows = memory_over_time(trace(memory_events=events)).to_pylist()

    assert len(rows) == 120
    assert [rows[at]["most_bytes"] for at in (0, 59, 60, 61, 119)] == [10, 10, 40, 40, 40]
    assert [rows[at]["least_bytes"] for at in (0, 60, 61, 119)] == [10, 10, 40, 10]
    assert [rows[at]["reserved_bytes"] for at in (0, 60)] == [20, 64]
    assert rows[0]["start_ns"] == 0
    assert rows[-1]["end_ns"] == 1200


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
@pytest.mark.parametrize(
    "name",
    [
        "brainstorm_a100_rankA.pt.trace.json",
        "hta_df_index_resolver__df_index_resolver.json.gz",
        "tb_resnet50_v2_worker0.pt.trace.json.gz",
    ],
)
def test_real_peaks_are_those_of_the_trace(name):
    path = CORPUS / "kineto" / name
    text = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    levels, running = {}, {}
    events = [e for e in json.loads(text, strict=False)["traceEvents"] if e["name"] == "[memory]"]
    for told in sorted((e["ts"], n, e["args"]) for n, e in enumerate(events)):
        args = told[2]
        device = args["Device Id"] if args["Device Type"] else None
        running[device] = running.get(device, 0) + args["Bytes"]
        levels.setdefault(device, []).append(args.get("Total Allocated", running[device]))

    rows = memory(read_profile(path)).to_pylist()

    assert {r["device_id"]: r["peak_bytes"] for r in rows} == {d: max(v) for d, v in levels.items()}


def test_a_page_and_a_chart_show_memory():
    profile, chart = _steps(kept=0), chart_named("memory")

    page = recording_page(profile).replace("\N{NO-BREAK SPACE}", " ")
    assert "Device 0 has up to 185 MB allocated, of 200 MB reserved" in page
    [panel] = picture_of(chart, of_recording(profile, chart)).panels
    assert panel.series[0][0].name == "in use throughout"


def test_without_events_the_monitor_tells_what_is_in_use():
    samples = [
        {"time_ns": at, "device_id": device, "memory_used_bytes": used}
        for at, device, used in ((0, 0, 5 * MB), (0, None, 9 * MB), (4, 0, 7 * MB), (4, 1, None))
    ]

    rows = memory_over_time(trace(monitor=samples)).to_pylist()

    assert {(row["process_id"], row["device_id"], row["measure"]) for row in rows} == {
        (None, 0, "in use")
    }
    assert [row["most_bytes"] // MB for row in rows] == [5, 5, 5, 5, 7]
    assert not any(row["reserved_bytes"] for row in rows)


def test_what_is_released_without_an_allocation_was_allocated_before():
    events = [event(1, -5 * MB), event(2, 3 * MB), event(3, 4 * MB)]

    (row,) = memory(trace(memory_events=events)).to_pylist()

    assert (row["before_bytes"], row["peak_bytes"], row["peak_ns"]) == (None, 7 * MB, 3)


@pytest.mark.parametrize(
    ("table", "chart", "advice"),
    [
        ("memory", "memory", "`nsys profile --cuda-memory-usage=true`"),
        ("gpu_metric_means", "gpu_metrics", "`nsys profile --gpu-metrics-devices=all`"),
    ],
)
def test_who_asks_for_what_was_not_recorded_learns_how_to_record_it(table, chart, advice):
    profile = trace(kernels=[], memcpys=[])

    (note,) = report(profile, [table]).notes
    with pytest.raises(MissingTableError, match=f"^{chart} cannot be drawn") as refused:
        picture_of(chart_named(chart), of_recording(profile, chart_named(chart)))

    assert note.startswith(f"{table} is n/a: the recording has no ")
    assert advice in note
    assert advice in refused.value.hint
