"""Phases: which steps are alike, which of them are whole and past the warm-up."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawing import draw
from drawn_program import Program

from gpuprof.base.errors import UsageError
from gpuprof.facts.phases import per_step, phases, steps_by_phase
from gpuprof.facts.step_times import CUT, SAMPLE, UNUSUAL
from gpuprof.findings.bottom_line import bottom_line
from gpuprof.model.intervals import union
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
JACOBI = "nsys-rep/openhackathons__gpubootcamp__{}.qdrep"
SC21 = "nsys-rep/NERSC__sc21-dl-tutorial__4gpu_{}.qdrep"


def real(name):
    if not (CORPUS / name).exists():
        pytest.skip(f"the corpus is not here: {name}")
    return phases(read_profile(CORPUS / name))


def told(profile):
    return [
        (one.name, one.devices, len(one.start_ns), one.step_ns, one.warm_up_steps, one.cut_steps)
        for one in phases(profile)
    ]


def test_samples_are_the_whole_steps_past_the_warm_up():
    profile = Program().steps([500, 300, *[100] * 10, 20]).profile()

    (phase,) = phases(profile)

    assert told(profile) == [("step #", (0,), 10, 100, 2, 1)]
    assert phase.warm_up_ns == 800
    assert phase.span == (1000, 1000 + 800 + 1000 + 20)
    assert phase.start_ns.tolist() == list(range(1800, 2800, 100))
    assert phase.end_ns.tolist() == list(range(1900, 2900, 100))
    assert (phase.process_id, phase.source) == (100, "ranges")


def apart(lengths, kernels=2):
    """Steps with pauses between them that are longer than they are."""
    program = Program()
    for ns in lengths:
        program.steps([ns], [f"kernel{k}" for k in range(kernels)], text="step 1")
        program.at += 1000
    return program


def test_the_last_step_is_cut_off_as_nothing_ends_it_or_its_pause():
    assert told(Program().steps([100] * 6).profile()) == [("step #", (0,), 5, 100, 0, 1)]
    assert told(apart([100] * 6).profile()) == [("step #", (0,), 5, 1100, 0, 1)]


@pytest.mark.parametrize(
    ("place", "ns", "cut"), [(0, 30, 2), (-1, 30, 1), (1, 60, 1), (3, 60, 1), (-2, 60, 1)]
)
def test_a_step_with_a_part_of_its_kernel_time_is_cut_off_at_the_recordings_ends_alone(
    place, ns, cut
):
    lengths = [100] * 7
    lengths[place] = ns

    assert told(apart(lengths).profile()) == [("step #", (0,), 7 - cut, 1100, 0, cut)]


def test_a_short_first_step_is_whole_where_the_recording_began_before():
    program = Program()
    lengths = [30] + [100] * 6
    program.kernel(5, "init")
    program.at += 5000
    for ns in lengths:
        program.steps([ns], text="step 1")
        program.at += 1000
    program.at += 5000
    program.kernel(5, "evaluate")

    assert told(program.profile()) == [("step #", (0,), 6, 1100, 0, 1)]


@pytest.mark.parametrize("devices", [(0, 1), (0,)], ids=["on-other-devices", "of-another-length"])
def test_steps_that_differ_for_long_are_another_phase(devices):
    program = Program().steps([470] * 30).steps([240] * 31, devices=devices)

    assert told(program.profile()) == [
        ("step #", (0,), 30, 470, 0, 0),
        ("step #", devices, 30, 240, 0, 1),
    ]


def test_the_same_steps_on_another_device_are_another_phase():
    program = Program().steps([240] * 10).steps([240] * 11, devices=(1,))

    assert [row[1:3] for row in told(program.profile())] == [((0,), 10), ((1,), 10)]


def test_inferred_steps_within_another_range_are_another_phase():
    program = Program()
    enclosed(program, "warm up 7", [240] * 10)
    enclosed(program, "measured", [240] * 11)

    assert [row[0] for row in told(program.profile())] == ["warm up #", "measured"]


def test_steps_of_other_kernels_are_another_phase():
    program = Program()
    for _ in range(5):
        program.steps([200] * 6, ["conv", "gemm"]).steps([180] * 2, ["argmax", "sum"])
    program.steps([200])

    assert [row[2:4] for row in told(program.profile())] == [(30, 200), (10, 180)]


def test_steps_with_a_few_more_kernels_are_of_the_same_phase():
    program = Program()
    for _ in range(8):
        program.steps([200] * 3, ["conv", "gemm"] * 5).steps([220], ["conv", "gemm"] * 5 + ["adam"])

    assert [(row[2], row[5]) for row in told(program.profile())] == [(31, 1)]


def test_a_phase_that_comes_again_is_one_phase():
    program = Program()
    for ns in (300, 100, 300):
        program.steps([ns] * 30)

    assert [row[2:4] for row in told(program.profile())] == [(59, 300), (30, 100)]


def test_a_rare_step_of_another_kind_is_no_phase_and_no_sample():
    program = Program().steps([100] * 10).steps([900], ["save"]).steps([100] * 10)

    (steps,) = steps_by_phase(program.profile())

    assert steps.status.tolist() == [SAMPLE] * 10 + [UNUSUAL] + [SAMPLE] * 9 + [CUT]
    assert steps.number.tolist() == list(range(21))


def test_outliers_are_samples_and_named():
    program = Program().steps([300] * 41 + [690] + [305, 310] * 10)

    (steps,) = steps_by_phase(program.profile())

    assert steps.number[steps.outliers].tolist() == [41]
    assert steps.status[41] == SAMPLE
    assert steps.phase.step_ns == 300


@pytest.mark.parametrize(
    "lengths", [[300] * 20 + [320] + [300] * 20, [100, 200, 300, 400] * 10 + [500, 100]]
)
def test_a_step_near_the_others_is_no_outlier(lengths):
    (steps,) = steps_by_phase(Program().steps(lengths).profile())

    assert steps.outliers.tolist() == []


def enclosed(program, text, *args, **options):
    since = program.at
    program.steps(*args, text=None, **options)
    program.ranged(text, since)
    return program


def test_inferred_steps_of_two_devices_are_one_phase_named_by_the_range_around_it():
    program = Program()
    enclosed(program, "Reference 1", [470] * 40, ["jacobi"])
    program.kernel(20, "init", 1)
    program.at += 40_000
    enclosed(program, "Solve", [240, 242] * 20, ["jacobi"], devices=(1, 0))

    found = phases(program.profile())

    assert [(one.name, one.devices, one.source) for one in found] == [
        ("Reference #", (0,), "detected"),
        ("Solve", (0, 1), "detected"),
    ]
    # The last one of either is closed by nothing of its phase.
    assert [(len(one.start_ns), one.step_ns) for one in found] == [(39, 470), (39, 240)]
    # The pause between the phases is in none.
    assert found[0].span == (1000, 1000 + 470 * 40)
    assert found[0].process_id is None


def test_a_few_slow_steps_within_a_range_are_no_phase():
    program = Program()
    for number, lengths in enumerate(([100] * 20, [200] * 4, [100] * 20)):
        enclosed(program, f"epoch {number}", lengths)

    assert [(row[0], row[3]) for row in told(program.profile())] == [("epoch #", 100)]


def test_devices_whose_steps_do_not_match_have_phases_of_their_own():
    first, second = Program().steps([300] * 20, ["a", "b"], text=None), Program()
    second.steps([70] * 85, ["c", "d"], (1,), text=None)
    tables = {name: first.tables[name] + second.tables[name] for name in first.tables}

    found = phases(draw(**tables))

    assert [(one.devices, one.step_ns) for one in found] == [((1,), 70), ((0,), 300)]


def test_steps_are_inferred_from_the_busiest_stream():
    program, dice = Program(), np.random.default_rng(1)
    program.steps([400] * 20, ["a", "b", "c", "d"], text=None)
    # Beside it another stream runs a short kernel at any time of a step, in an order that varies.
    for number in range(20):
        at = 1000 + 400 * number + int(dice.integers(390))
        name = {"name": f"side{dice.integers(4)}", "stream_id": 9, "correlation_id": -number - 1}
        program.tables["kernels"].append((at, at + 3, name))

    (phase,) = phases(program.profile())

    assert (phase.name, phase.step_ns, len(phase.start_ns)) == ("a", 400, 19)


def test_communication_that_lasts_longer_does_not_make_a_stream_the_busiest():
    program = Program().steps([400] * 20, ["a", "b", "c", "d"], text=None)
    for number, at in enumerate(range(1000, program.at - 900, 777)):
        name = {"name": "ncclDevKernel_AllReduce", "stream_id": 9, "correlation_id": -number - 1}
        program.tables["kernels"].append((at, at + 900, name))

    assert {one.name for one in phases(program.profile())} == {"a"}


def test_irregular_repeats_of_a_kernel_are_no_steps():
    lengths = np.random.default_rng(3).integers(1, 10_000, 60)

    assert phases(Program().steps(lengths, ["solve"], text=None).profile()) == ()


def test_an_optimizers_step_is_no_step():
    program = Program()
    for _ in range(12):
        program.steps([300], ["forward", "backward"], text=None)
        program.steps([50], ["sgd"], text="Optimizer.step#SGD.step")

    (phase,) = phases(program.profile())

    assert (phase.source, phase.step_ns) == ("detected", 350)


def test_steps_that_are_skipped_replace_the_warm_up():
    profile = Program().steps([500, 300, *[100] * 10]).profile()

    kept, left = replace(profile, skip_steps=0), replace(profile, skip_steps=4)

    assert told(kept) == [("step #", (0,), 11, 100, 0, 1)]
    assert told(left) == [("step #", (0,), 7, 100, 4, 1)]
    with pytest.raises(UsageError, match="no steps after the first 11"):
        phases(replace(profile, skip_steps=11))


def test_phases_are_those_of_the_whole_recording():
    profile = Program().steps([100] * 10).profile()

    assert phases(profile.restricted(Selection(((1100, 1200),)))) is not None
    assert told(profile.restricted(Selection(((1100, 1200),)))) == told(profile)


def test_instants_are_counted_in_each_sample():
    (phase,) = phases(Program().steps([100] * 4).profile())

    found = per_step(union([1050, 1210], [1120, 1220]), phase)

    assert found.tolist() == [50, 20, 10]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_steps_are_told_as_they_are(number):
    profile = apart([100] * number).profile()

    assert [row[2] for row in told(profile)] == ([number - 1] if number > 1 else [])


def test_the_reference_of_one_rank_and_its_steps_are_two_phases():
    reference, solve = real(JACOBI.format("report1"))

    assert reference.span[1] - reference.span[0] == pytest.approx(3.52e9, rel=0.01)
    assert len(reference.start_ns) == 999
    # 1.03 ms by hand, from the least busy half.
    assert solve.step_ns == pytest.approx(1_050_000, rel=0.01)


def test_steps_that_a_recording_cuts_off_are_not_in_its_medians():
    bucket, none, base = (
        real(SC21.format(n))[0] for n in ("bucketcap100mb", "nobroadcast", "baseline")
    )

    assert (bucket.cut_steps, none.cut_steps) == (1, 1)
    assert bucket.step_ns / base.step_ns - 1 == pytest.approx(-0.019, abs=0.001)
    assert none.step_ns / base.step_ns - 1 == pytest.approx(-0.015, abs=0.001)


@pytest.mark.parametrize("is_marked", [False, True])
def test_work_that_begins_at_once_is_no_row_of_steps(is_marked):
    """Eight equal kernels run at once: the starts are no time apart, and no step takes 0 ns."""
    marks = [(10 * n, 10 * n + 6, {"text": f"step {n}"}) for n in range(8 * is_marked)]
    profile = draw(
        kernels=[(100, 1_000_100, {"correlation_id": n}) for n in range(8)],
        api_calls=[(10 * n, 10 * n + 5, {"correlation_id": n}) for n in range(8)],
        nvtx_ranges=marks,
    )

    assert phases(profile) == ()
    (row,) = bottom_line(profile).to_pylist()
    assert row["bottom_line"].startswith(
        "The recording of device 0 spans 1.00 ms, 100 % of it compute"
    )


def test_steps_of_kernels_without_length_are_no_error():
    profile = draw(
        kernels=[(700, 700, {"correlation_id": n}) for n in range(6)],
        api_calls=[(100 * n, 100 * n + 1, {"correlation_id": n}) for n in range(6)],
        nvtx_ranges=[(100 * n, 100 * n + 9, {"text": f"step {n}"}) for n in range(6)],
    )

    assert all(phase.step_ns >= 0 for phase in phases(profile))


@pytest.mark.parametrize(
    ("lengths", "are_steps"),
    [
        pytest.param([100, 120, 150, 190, 240, 320], False, id="ever-longer"),
        pytest.param([320, 240, 190, 150, 120, 99], False, id="ever-shorter"),
        pytest.param([100, 120, 150, 140, 160, 210], True, id="one-is-shorter"),
        pytest.param([100, 110, 120, 130, 140, 150], True, id="grow-by-half"),
        pytest.param([100, 140, 170, 210], True, id="few"),
    ],
)
def test_unmarked_runs_of_one_size_after_another_are_no_steps(lengths, are_steps):
    """The last one, which nothing ends, does not count."""
    program = Program().steps([1000 * length for length in [*lengths, 200]], text=None)

    assert (len(phases(draw(**program.tables))) > 0) == are_steps
