"""``gpuprof slice``: what a file of a part of a recording holds."""

import pytest
from click.testing import CliRunner
from recordings import copy, kernel, summary, trace

from gpuprof.cli import chosen, cli
from gpuprof.readers.gpuprof import gpuprof_file

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
        api_calls=[launch | {"correlation_id": n, "start_ns": 2 * n - 1} for n in (1, 2)],
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
        ("--to 20ns", "from the start to 20 ns. What starts in it is kept whole."),
        ("--device 1", "device 1."),
        (
            "--range step --occurrence 1",
            'what range 1 of "step" launched. What starts in it is kept whole.',
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
