"""A sweep's own results and cells, as `plot` and `compare` take them."""

import csv
import json
from pathlib import Path

import pytest
from commands import gpuprof

import gpuprof as library
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, InputError, UsageError
from gpuprof.base.manifest import MANIFEST
from gpuprof.base.sweep_cells import PLAN, cell_runs, cells_of
from gpuprof.sweeps.times import read_times

# Faster with more devices and larger batches; two placements; a cell that fails.
PROGRAM = """
import json, os, sys
import gpuprof
from gpuprof.base.manifest import MARKS, RUN_DIR_VARIABLE
placement, devices, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if (placement, devices, batch) == ("dual", 2, 32):
    sys.exit("out of memory")
seconds = 64 / devices / batch + (0.5 if placement == "single" else 0.25)
mark = {"mark": "epoch", "epoch": 0, "seconds": seconds, "steps": 4, "rank": None,
        "started_at_unix_ns": 5, "process_id": os.getpid()}
with open(os.path.join(os.environ[RUN_DIR_VARIABLE], MARKS), "a") as file:
    file.write(json.dumps(mark) + "\\n")
"""


def _sweep(folder, *options):
    (folder / "train.py").write_text(PROGRAM)
    return gpuprof(
        *("sweep", "--recorder", "none", "--repeat", "2", "-o", "swept", *options),
        *("--grid", "placement=single,dual", "--grid", "n_gpus=1,2", "--grid", "batch=32,128"),
        *("--baseline", "placement=single", "--baseline", "n_gpus=1"),
        *("--", "train.py", "{placement}", "{n_gpus}", "{batch}"),
        cwd=folder,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("sweep")
    completed = _sweep(place, "--format", "json")
    (place / "printed.json").write_text(completed.stdout)
    return place


TIMES = [
    ("placement=single", 1, 32, 2.5),
    ("placement=single", 1, 128, 1.0),
    ("placement=single", 2, 32, 1.5),
    ("placement=single", 2, 128, 0.75),
    ("placement=dual", 1, 32, 2.25),
    ("placement=dual", 1, 128, 0.75),
    ("placement=dual", 2, 128, 0.5),
]


@pytest.mark.parametrize(
    "name",
    ["swept", "swept/results.csv", "swept/results.parquet", "printed.json"],
    ids=["folder", "csv", "parquet", "json"],
)
def test_results_are_times_whose_axes_are_known_by_their_names(folder, name):
    rows = read_times(folder / name).to_pylist()

    assert [tuple(row.values()) for row in rows] == [(*row, 2) for row in TIMES]


def test_the_baseline_comes_first_wherever_it_stands_in_the_grid(folder, tmp_path):
    with (folder / "swept" / "results.csv").open() as file:
        head, *rows = csv.reader(file)
    path = tmp_path / "turned.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *reversed(rows)])

    assert read_times(path).to_pylist()[0]["label"] == "placement=single"


@pytest.mark.parametrize(
    ("chart", "series", "finding"),
    [
        pytest.param(
            "scaling",
            ["single, batch size 32", "single, batch size 128", "dual, batch size 128"],
            "placement=single, batch size 32 on 2 devices: 1.67 times as fast",
            id="a-line-for-each-batch-size",
        ),
        pytest.param(
            "batch",
            ["single, 2 devices", "dual, 1 device", "dual, 2 devices"],
            "Faster than placement=single, 1 device with every batch size, at most 2.00 times",
            id="a-line-for-each-number-of-devices",
        ),
    ],
)
def test_a_sweep_s_folder_is_drawn(folder, tmp_path, chart, series, finding):
    picture = tmp_path / "a.svg"
    done = gpuprof("plot", chart, folder / "swept", "-o", picture, "--chart-data", "json")

    assert done.returncode == 0, done.stderr
    drawn = json.loads((tmp_path / "a.json").read_text())
    labels = [row["series"].removeprefix("placement=") for row in drawn["rows"]]
    assert [*dict.fromkeys(labels)] == series
    assert finding in drawn["finding"]


def test_cells_that_ran_are_found_with_the_baseline_first(folder):
    cells = cells_of(folder / "swept")

    assert list(cells) == [
        "placement=single,n_gpus=1,batch=32",
        "placement=single,n_gpus=1,batch=128",
        "placement=dual,n_gpus=1,batch=32",
        "placement=dual,n_gpus=1,batch=128",
        "placement=dual,n_gpus=2,batch=128",
        "placement=single,n_gpus=2,batch=32",
        "placement=single,n_gpus=2,batch=128",
    ]
    assert all([run.name for run in cell_runs(cell)] == ["1", "2"] for cell in cells.values())


def test_a_cell_s_runs_are_one_variant(folder):
    runs = folder / "swept" / "runs"
    names = [f"placement={name},n_gpus=1,batch=128" for name in ("single", "dual")]

    completed = gpuprof("compare", *(runs / name for name in names), "--format", "json")

    assert completed.returncode == 0, completed.stderr
    document = json.loads(completed.stdout)
    assert document["baseline"] == names[0]
    assert [document["variants"][name]["runs"] for name in names] == [2, 2]
    assert document["differences"][names[1]]["seconds_per_epoch"]["difference"] == -0.25


def test_a_sweep_s_folder_is_compared_cell_by_cell(folder):
    result = library.compare(folder / "swept")

    frame = result.variants
    assert result.baseline == "placement=single,n_gpus=1,batch=32"
    assert list(frame["seconds_per_epoch"]) == [2.5, 1.0, 2.25, 0.75, 0.5, 1.5, 0.75]
    assert list(frame["runs"]) == [2] * 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("swept", "{} is a sweep of 7 cells"),
        (
            "swept/runs/placement=dual,n_gpus=1,batch=32",
            "{} is a folder of 2 runs, and this reads one",
        ),
    ],
    ids=["sweep", "cell"],
)
def test_what_reads_one_run_says_what_a_sweep_s_folder_is(folder, name, message):
    path = folder / name

    with pytest.raises(library.GpuprofError) as caught:
        library.read_profile(path)

    assert caught.value.message == message.format(path)
    assert "`gpuprof compare` takes all" in caught.value.hint


def _one_cell(place, *, exit_status):
    run = place / "runs" / "batch=1" / "1"
    run.mkdir(parents=True)
    (place / PLAN).write_text(
        json.dumps({"format": "gpuprof-sweep", "seed": 1, "plan": {"baseline": {}}})
    )
    values = {"format": "gpuprof-run", "recorder": "none", "variant": "batch=1", "command": ["a"]}
    values |= {"started_at": "2026-01-01", "exit_status": exit_status}
    (run / MANIFEST).write_text(json.dumps(values))
    return place


def test_a_sweep_in_which_nothing_ended_well_has_nothing_to_compare(tmp_path):
    with pytest.raises(EmptyRecordingError, match=r"no run of the sweep .* succeeded"):
        library.compare([_one_cell(tmp_path, exit_status=1)])


def test_a_label_of_a_whole_sweep_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"^one label, a, is given to a sweep"):
        library.compare([("a", _one_cell(tmp_path, exit_status=0))])


def test_a_broken_plan_is_refused(tmp_path):
    _one_cell(tmp_path, exit_status=0)
    (tmp_path / PLAN).write_text("[" * 100_000)

    message = r"sweep\.json cannot be read as the plan of a sweep"
    with pytest.raises(CorruptFileError, match=message):
        library.compare([tmp_path])


def test_a_folder_without_results_is_no_table(tmp_path):
    with pytest.raises(InputError) as caught:
        read_times(tmp_path)

    assert caught.value.message == f"{tmp_path} has no results of a sweep"


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"cells": 3}', '{"cells": [{"cell": []}]}', '{"cells": [1]}', "[" * 100_000],
)
def test_json_that_is_no_sweep_s_is_refused(tmp_path, text):
    path = tmp_path / "printed.json"
    path.write_text(text)

    with pytest.raises(CorruptFileError) as caught:
        read_times(path)

    assert caught.value.message.startswith(str(path))


@pytest.mark.parametrize("chart", ["scaling", "batch"])
def test_what_one_point_cannot_show_is_said(tmp_path, chart):
    Path(tmp_path / "times.csv").write_text("devices,batch_size,seconds\n1,64,10\n")

    completed = gpuprof("plot", chart, tmp_path / "times.csv", "-o", tmp_path / "a.png")

    assert completed.returncode == 1
    assert completed.stderr.startswith(f"Error: {chart} needs ")
    assert len(completed.stderr.splitlines()) == 2
