"""The table of phases, the status of steps, and what is said about them."""

import json
from itertools import product

import pytest
from commands import gpuprof
from drawing import draw

from gpuprof.analyses.reports import report
from gpuprof.analyses.steps import phases_table, steps
from gpuprof.model.table import Selection
from gpuprof.readers.gpuprof.write_gpuprof_file import write

LENGTHS = (500, *[100] * 7, 250, *[100] * 4)


def training(lengths=LENGTHS, device=0):
    """Steps of a kernel, a copy in the last fifth, of which half lies behind the kernel."""
    tables = {name: [] for name in ("kernels", "memcpys", "api_calls", "nvtx_ranges")}
    at = 1000
    for number, ns in enumerate(lengths):
        ids = [{"correlation_id": 2 * number + place} for place in (0, 1)]
        tables["nvtx_ranges"].append((at, at + ns, {"text": f"step {number}"}))
        tables["api_calls"] += [(at + place, at + place + 1, one) for place, one in enumerate(ids)]
        tables["kernels"].append((at, at + ns * 8 // 10, ids[0] | {"device_id": device}))
        copy = ids[1] | {"device_id": device}
        tables["memcpys"].append((at + ns * 7 // 10, at + ns * 9 // 10, copy))
        at += ns
    return draw(**tables)


def test_each_figure_is_the_median_of_the_samples():
    (row,) = phases_table(training()).to_pylist()

    assert {name: value for name, value in row.items() if value is not None} == {
        "name": "step #",
        "source": "ranges",
        "process_id": 100,
        "device_id": 0,
        "steps": 11,
        "warm_up_steps": 1,
        "warm_up_ns": 500,
        "cut_steps": 1,
        "start_ns": 1000,
        "span_ns": sum(LENGTHS) - 10,
        "step_ns": 100,
        "mean_step_ns": 113,
        "step_low_ns": 100,
        "step_high_ns": 100,
        "compute_ns": 80,
        "exposed_communication_ns": 0,
        "exposed_transfer_ns": 10,
        "exposed_local_copy_ns": 0,
        "idle_ns": 10,
        "longest_step": 8,
        "longest_step_ns": 250,
    }


def test_every_step_says_what_it_is_to_its_phase():
    rows = steps(training()).to_pylist()

    assert [row["status"] for row in rows] == [
        "warm_up", *["sample"] * 7, "outlier", *["sample"] * 3, "cut",
    ]  # fmt: skip
    assert {row["phase"] for row in rows} == {"step #"}
    assert [row["step"] for row in rows] == list(range(13))


def test_of_a_part_are_the_steps_that_start_in_it():
    # The warm-up ends at 1500, the outlier begins at 2200.
    part = training().restricted(Selection(((1000, 1700), (2200, 2201))))

    (row,) = phases_table(part).to_pylist()

    assert (row["steps"], row["warm_up_steps"], row["cut_steps"]) == (3, 1, 0)
    assert (row["step_ns"], row["longest_step_ns"], row["span_ns"]) == (100, 250, 1450)
    assert len(steps(part)) == 4
    assert phases_table(training().restricted(Selection(None, 1))).num_rows == 0
    assert phases_table(training().restricted(Selection(None, 0))).num_rows == 1


def test_a_phase_without_samples_in_a_part_has_no_figures():
    (row,) = phases_table(training().restricted(Selection(((1000, 1001),)))).to_pylist()

    assert (row["steps"], row["warm_up_steps"]) == (0, 1)
    assert (row["step_ns"], row["compute_ns"], row["longest_step"]) == (None, None, None)


def test_two_steps_have_a_median_and_no_interval():
    (row,) = phases_table(training([100, 100, 100])).to_pylist()

    assert (row["steps"], row["step_ns"], row["step_low_ns"]) == (2, 100, None)


def notes(profile):
    return [note for note in report(profile, ["phases"]).notes if not note.startswith("n/a")]


def test_what_was_set_aside_and_what_stands_out_is_said():
    aside, far = notes(training())

    assert aside == (
        'Set aside as warm-up: the first step of "step #" (500 ns, 400 ns more than as many later'
        " ones); --skip-steps 0 keeps all."
    )
    assert far == 'Far longer than most: step 8 of "step #" took 250 ns, median 100 ns.'


@pytest.mark.parametrize(("far", "more"), [(4, "and 1 more step."), (5, "and 2 more steps.")])
def test_only_some_of_the_steps_that_stand_out_are_listed(far, more):
    (note,) = notes(training([100] * 40 + [300, 100] * far))

    assert note.endswith(more)


def test_steps_of_which_nothing_is_to_be_said_have_no_note():
    assert notes(training([100] * 9)) == []
    assert [note for note in report(training(), ["totals"]).notes if "warm-up" in note] == []


def test_phases_of_one_name_are_numbered_in_time():
    profile = training([100] * 20 + [400] * 20)

    numbers = {row["step"]: row["phase_number"] for row in steps(profile).to_pylist()}
    assert {numbers[step] for step in range(1, 19)} == {1}
    assert {numbers[step] for step in range(21, 39)} == {2}
    part = profile.restricted(Selection(windows=((4_000, 2**40),)))
    assert {row["phase_number"] for row in steps(part).to_pylist()} == {2}


def test_too_few_steps_are_said_to_be():
    assert notes(training([100, 100, 100])) == [
        '"step #" has 2 whole steps: too few to say how long a step usually takes.'
    ]


def test_phases_of_one_name_with_too_few_steps_are_said_once():
    tables = {name: [] for name in ("kernels", "api_calls", "nvtx_ranges")}
    for process, step in product((1, 2), range(3)):
        at, of = 100 * step, {"process_id": process}
        call = of | {"correlation_id": step}
        tables["nvtx_ranges"].append((at, at + 100, of | {"text": f"step {step}"}))
        tables["api_calls"].append((at, at + 1, call))
        tables["kernels"].append((at + 1, at + 99, call | {"device_id": process}))
    profile = draw(**tables)

    (few,) = [note for note in notes(profile) if "too few" in note]
    assert few.startswith('"step #" has 2 whole steps in each of 2 phases: too few')


def test_inferred_steps_are_said_to_be():
    kernels = [(at, at + 90, {"name": "gemm"}) for at in range(0, 900, 100)]

    (note,) = notes(draw(kernels=kernels))

    assert note.startswith("Nothing marks steps in this recording: they were inferred")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("phases") / "phases.gpuprof"
    write(training(), path)
    return path


def asked(recording, *options):
    done = gpuprof("report", recording, "--per-step", "--format", "json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = json.loads(done.stdout)["tables"]["phases"]
    return row


@pytest.mark.parametrize(
    ("options", "steps", "aside"),
    [((), 11, 1), (("--skip-steps", 0), 12, 0), (("--skip-steps", 5), 7, 5)],
)
def test_the_steps_to_skip_are_asked_for(recording, options, steps, aside):
    row = asked(recording, *options)

    assert (row["steps"], row["warm_up_steps"], row["step_ns"]) == (steps, aside, 100)


def test_skipped_steps_and_a_part_are_asked_for_together(recording):
    assert asked(recording, "--skip-steps", 2, "--from", "1.6us", "--to", "1.8us")["steps"] == 2


def test_to_skip_all_steps_is_refused(recording):
    done = gpuprof("report", recording, "--per-step", "--skip-steps", 99)

    assert (done.returncode, done.stdout) == (2, "")
    assert "there are no steps after the first 99" in done.stderr
    assert "Traceback" not in done.stderr
