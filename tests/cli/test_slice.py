"""``gpuprof slice``: what a file of a part of a recording holds."""

import json
import zipfile
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from click.testing import CliRunner
from recordings import copy, kernel, summary, trace

from gpuprof import compare
from gpuprof.analyses import ANALYSES, reports
from gpuprof.analyses.steps import steps
from gpuprof.base.errors import CorruptFileError
from gpuprof.cli import chosen, cli
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.model import data_model
from gpuprof.predict.predict import predict
from gpuprof.readers.gpuprof import gpuprof_file, write_gpuprof_file
from gpuprof.show.exporters import EXPORTERS

RECORDING = trace(
    kernels=[
        kernel("a", 0, 15, device_id=0, correlation_id=1),
        kernel("b", 10, 20, device_id=1, correlation_id=2),
        kernel("c", 20, 30, device_id=0, correlation_id=3),
    ],
    memcpys=[copy("PtoP", 12, 13, bytes=8, device_id=0, src_device_id=0, dst_device_id=1)],
    api_calls=[
        {"name": "cudaLaunchKernel", "correlation_id": n, "start_ns": n, "end_ns": n + 1}
        for n in (1, 2, 3)
    ],
    nvtx_ranges=[
        {"text": "run", "start_ns": -5, "end_ns": 40},
        {"text": "step", "start_ns": 1, "end_ns": 2},
        {"text": "step", "start_ns": 2, "end_ns": 4},
        {"text": "mark", "start_ns": 10, "end_ns": 10},
        {"text": "wait", "start_ns": 4, "end_ns": 9},
    ],
    devices=[{"device_id": 0, "name": "V100"}],
    epochs=[{"epoch": 0, "seconds": 1.0}],
)


BORDERS = "Sums are of what starts in it; the time of a device is cut at its borders."


def training(steps=9, step_ns=1_000_000):
    """Marked steps of three kernels and a copy, launched a step ahead; the fourth is long."""
    tables = {name: [] for name in ("kernels", "memcpys", "api_calls", "nvtx_ranges")}
    work_ns = 10_000  # the first launch finds the device idle, which shows that clocks agree
    of = {"process_id": 7, "thread_id": 7}
    for step in range(steps):
        host_ns = step * step_ns
        mark = {"text": f"step {step}", "start_ns": host_ns, "end_ns": host_ns + step_ns}
        tables["nvtx_ranges"].append(of | mark)
        for place in range(4):
            number = 4 * step + place + 1
            launch_ns = host_ns + place * 100_000
            start = max(work_ns, launch_ns + 5_000)
            end = start + (230_000 if step != 4 else 400_000)
            row = {"process_id": 7, "device_id": 0, "stream_id": 1, "correlation_id": number}
            called = {"start_ns": launch_ns, "end_ns": launch_ns + 2_000, "correlation_id": number}
            name = "cudaMemcpyAsync" if place == 3 else "cudaLaunchKernel"
            tables["api_calls"].append(of | called | {"name": name})
            if place == 3:
                end = start + 100_000
                pinned = {"src_memory_kind": "pinned", "dst_memory_kind": "device", "bytes": 4096}
                tables["memcpys"].append(copy("HtoD", start, end, **row, **pinned))
            else:
                tables["kernels"].append(kernel(f"k{place}", start, end, **row))
            work_ns = end + 20_000
    return trace(**tables)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the command; gives what it wrote, or the error that it ended with."""

    def run(*words, of=RECORDING):
        monkeypatch.setattr(chosen, "read_profile", lambda *_: of)
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.gpuprof"
        result = CliRunner().invoke(cli, ["slice", "x", *words, "-o", str(path)])
        assert path.exists() == (result.exit_code == 0)
        return result.exception or gpuprof_file.read(path)

    return run


def names(profile, table="kernels", column="name"):
    return profile.table(table).column(column).to_pylist()


@pytest.mark.parametrize(
    ("words", "kernels", "copies"),
    [
        pytest.param("--from -1s", ["a", "b", "c"], 1, id="all"),
        # a reaches into the window, but belongs to where it starts; c starts where it ends.
        pytest.param("--from 10ns --to 20ns", ["b"], 1, id="start-is-in-end-is-not"),
        pytest.param("--to 10ns", ["a"], 0, id="from-the-start"),
        pytest.param("--from 13ns", ["c"], 0, id="to-the-end"),
        pytest.param("--range step", ["a", "b", "c"], 1, id="each-of-the-ranges"),
        pytest.param("--range step --occurrence 0", ["a", "b"], 1, id="what-a-range-launched"),
        pytest.param("--range s*p --occurrence 1", ["b", "c"], 1, id="a-later-range"),
        pytest.param("--range step --from 15ns", ["c"], 0, id="range-in-window"),
        pytest.param("--device 1", ["b"], 1, id="device"),
    ],
)
def test_what_starts_in_the_part_is_kept_whole(run, words, kernels, copies):
    part = run(*words.split())

    assert names(part) == kernels
    assert part.table("memcpys").num_rows == copies
    every = RECORDING.table("kernels").to_pylist()
    assert all(row in every for row in part.table("kernels").to_pylist())


def test_windows_side_by_side_add_up_to_the_recording(run):
    windows = ("--to 10ns", "--from 10ns --to 20ns", "--from 20ns")
    parts = [run(*window.split()) for window in windows]

    for table in ("kernels", "memcpys", "api_calls"):
        rows = [row for part in parts for row in part.table(table).to_pylist()]
        assert rows == RECORDING.table(table).to_pylist()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("--from 10ns --to 20ns", ["run", "mark"], id="open-or-begins-there"),
        pytest.param("--to 2ns", ["run", "step"], id="ends-where-another-begins"),
        pytest.param("--from 8ns --to 11ns", ["run", "wait", "mark"], id="ends-within"),
        pytest.param("--device 1", ["run", "step", "step", "wait", "mark"], id="of-no-device"),
    ],
)
def test_ranges_that_reach_into_the_part_are_kept(run, words, expected):
    assert names(run(*words.split()), "nvtx_ranges", "text") == expected


def test_ranges_between_two_windows_are_left_out(run):
    launch = {"name": "cudaLaunchKernel"}
    ranges = [("step", 0, 2), ("step", 2, 4), ("between", 30, 90), ("around", 30, 105)]
    recording = trace(
        kernels=[kernel("a", 10, 20, correlation_id=1), kernel("b", 100, 110, correlation_id=2)],
        api_calls=[
            launch | {"correlation_id": n, "start_ns": 2 * n - 1, "end_ns": 2 * n} for n in (1, 2)
        ],
        nvtx_ranges=[
            {"text": text, "start_ns": start, "end_ns": end} for text, start, end in ranges
        ],
    )

    part = run("--range", "step", of=recording)
    assert names(part, "nvtx_ranges", "text") == ["around"]
    assert names(part) == ["a", "b"]


def test_times_stay_those_of_the_recording(run):
    assert names(run("--from", "10ns", "--to", "20ns"), column="start_ns") == [10]


def test_devices_stay_and_what_is_true_of_the_whole_goes(run):
    part = run("--from", "10ns", "--to", "20ns")

    assert names(part, "devices") == ["V100"]
    assert not part.has("epochs")


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("--to 20ns", f"from the start to 20 ns. {BORDERS}"),
        ("--device 1", "device 1."),
        (
            "--range step --occurrence 1",
            f'what range 1 of "step" launched. {BORDERS}',
        ),
    ],
)
def test_a_part_says_what_it_is_a_part_of(run, words, note):
    assert run(*words.split()).origin.warnings == (f"A part of trace.sqlite: {note}",)


@pytest.mark.parametrize(("start", "end"), [("35 ns", "40 ns"), ("21 ns", "22 ns")])
def test_a_part_in_which_nothing_starts_is_refused(run, start, end):
    error = run("--from", start, "--to", end)

    assert error.message == f"trace.sqlite: nothing starts in this part, from {start} to {end}"
    assert error.hint == "Its activities start between -5 ns and 20 ns."


def test_sums_cannot_be_cut(run):
    recording = summary({"activity_kind": "kernel", "name": "k", "calls": 1})

    error = run("--to", "1s", of=recording)
    assert "holds sums only, so no part of it can be selected" in error.message


def report_of(profile):
    """Every table of a report, as rows."""
    tables = reports.report(profile, [*ANALYSES]).tables
    # What predictions count lies outside of the part, too, and commands name the file.
    left_out = {"assumptions", "command"}
    return {
        name: [{n: value for n, value in row.items() if n not in left_out} for row in rows]
        for name, rows in (
            (n, table.to_pylist()) for n, table in tables.items() if table is not None
        )
    }


PARTS = [
    # The borders cut a step, and a kernel, each.
    pytest.param(
        "--from 2.3ms --to 6.4ms",
        RecordingPart(from_ns=2_300_000, to_ns=6_400_000),
        id="window-that-cuts-steps",
    ),
    pytest.param("--to 3ms", RecordingPart(to_ns=3_000_000), id="beginning"),
    pytest.param("--range step*", RecordingPart(range_text="step*"), id="all-steps"),
    pytest.param(
        "--range step* --occurrence 5", RecordingPart(range_text="step*", occurrence=5), id="a-step"
    ),
]


@pytest.mark.parametrize(("words", "part"), PARTS)
def test_a_report_of_the_file_is_that_of_the_part(run, words, part):
    recording = training()
    expected = report_of(part_of(recording, part))
    assert expected["phases"]

    assert report_of(run(*words.split(), of=recording)) == expected


def test_steps_set_aside_are_those_of_the_whole_recording(run):
    recording = training()
    words, part = PARTS[0].values
    expected = report_of(part_of(replace(recording, skip_steps=4), part))

    sliced = replace(run(*words.split(), of=recording), skip_steps=4)
    assert [row["status"] for row in expected["steps"]].count("warm_up") == 1
    assert report_of(sliced) == expected


def test_a_prediction_takes_no_step_for_a_whole_one_that_the_border_cuts(run):
    recording = training()
    window = "--from", "2.3ms", "--to", "6.4ms"
    whole = {row["step"]: row["span_ns"] for row in steps(recording).to_pylist()}

    prediction = predict(run(*window, of=recording), [])
    (row,) = [row for row in prediction.tables["prediction"].to_pylist() if row["phase"]]
    # Those that start in the window; the slow one is among them.
    assert row["steps"] == 4
    assert row["measured_ns"] == int(np.median([whole[step] for step in (3, 4, 5, 6)]))


def test_an_exported_graph_has_only_what_starts_in_the_part(run):
    part = run("--from", "2.3ms", "--to", "6.4ms", of=training())
    trace = BytesIO()
    [write], _ = EXPORTERS["chakra"].parts(part)
    write(trace)

    kernels = names(part)
    assert len(names(part.unrestricted)) > len(kernels)
    assert [trace.getvalue().count(n.encode()) for n in ("k0", "k1", "k2")] == [
        kernels.count(n) for n in ("k0", "k1", "k2")
    ]


def test_a_part_of_a_part_is_in_both(run):
    recording = training()
    outer = run("--from", "2.3ms", "--to", "6.4ms", of=recording)

    inner = report_of(part_of(outer, RecordingPart(from_ns=4_000_000)))
    window = RecordingPart(from_ns=4_000_000, to_ns=6_400_000)
    assert inner == report_of(part_of(recording, window))


def test_a_part_stays_one_when_it_is_written_again(run, tmp_path):
    sliced = run("--from", "2.3ms", "--to", "6.4ms", of=training())
    path = tmp_path / "again.gpuprof"
    write_gpuprof_file.write(sliced, path)

    again = gpuprof_file.read(path)
    assert again.selection == sliced.selection
    assert report_of(again) == report_of(sliced)


@pytest.mark.parametrize("windows", [[[0, "x"]], [[2, 1]], [1]])
def test_a_window_that_is_none_is_refused(run, tmp_path, windows):
    run("--from", "1ns")
    (path,) = tmp_path.iterdir()
    header = json.loads(zipfile.ZipFile(path).read(gpuprof_file.HEADER))
    part = {"windows": windows, "device_id": None}
    broken = tmp_path / "broken.gpuprof"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr(gpuprof_file.HEADER, json.dumps(header | {"part": part}))

    with pytest.raises(CorruptFileError, match=r"gpuprof.json in it is missing or broken"):
        gpuprof_file.read(broken)


def test_steps_that_reach_beyond_the_part_are_compared_with_all_of_their_kernels(run):
    recording = training()
    first = run("--from", "0.5ms", "--to", "3.3ms", of=recording)
    second = run("--from", "4.7ms", "--to", "8.3ms", of=recording)

    kernels = compare({"first": [first], "second": [second]}).tables["kernels"].to_dict("list")
    assert kernels["name"] == ["k0", "k1", "k2"]
    assert kernels["baseline_calls"] == kernels["candidate_calls"] == [1, 1, 1]


def test_steps_of_a_device_that_does_nothing_are_none(run):
    part = run("--from", "2.3ms", "--to", "6.4ms", of=training())
    rows = [row | {"device_id": 5} for row in part.unrestricted.table("recorded_steps").to_pylist()]
    edited = part.unrestricted.with_table("recorded_steps", data_model.RECORDED_STEPS.table(rows))

    tables = report_of(edited.restricted(part.selection))
    assert tables["steps"] == tables["phases"] == []
    assert tables["breakdown"]
