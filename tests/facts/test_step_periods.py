"""The time between marked steps is a part of them where the marks leave much of it out."""

import pytest
from drawing import draw, stepped
from drawn_program import Program

from gpuprof.analyses.avoidable_copies import repeated_transfers
from gpuprof.analyses.steps import phases_table
from gpuprof.analyses.trace_notes import step_notes
from gpuprof.comparisons import comparison
from gpuprof.comparisons.gate import checks, parse
from gpuprof.facts.phases import phases
from gpuprof.findings.bottom_line import bottom_line
from gpuprof.findings.findings import findings

MS = 1_000_000
TRAIN = 6 * MS
PARTS = "compute_ns exposed_communication_ns exposed_transfer_ns exposed_local_copy_ns idle_ns"


def trained(load_ns, *, train_ns=TRAIN, steps=12, range_text="load", longer=(1, 0)):
    """Steps that marks enclose, after each of which the host loads a batch and the device idles.

    After every ``longer[0]``-th step it loads for ``longer[1]`` ns more.
    """
    tables = {name: [] for name in ("kernels", "api_calls", "nvtx_ranges")}
    at = 0
    for number in range(steps):
        tables["nvtx_ranges"].append((at, at + train_ns, {"text": f"step {number}"}))
        for half in (0, 1):
            launched = {"correlation_id": 2 * number + half}
            call = at + half * train_ns // 2
            tables["api_calls"].append((call, call + 1000, launched))
            tables["kernels"].append((call + 2000, call + train_ns // 2 + 2000 * half, launched))
        at += train_ns
        loaded = at + load_ns + longer[1] * (number % longer[0] == longer[0] - 1)
        if range_text and loaded > at:
            tables["nvtx_ranges"].append((at, loaded, {"text": range_text}))
        at = loaded
    return draw(**tables)


def test_a_step_is_the_period_where_marks_leave_much_out():
    (phase,) = phases(trained(load_ns=24 * MS))

    assert phase.step_ns == 30 * MS
    assert (len(phase.start_ns), phase.cut_steps) == (11, 1)


def test_marks_that_cover_the_time_are_the_steps():
    (phase,) = phases(trained(load_ns=0))

    assert phase.step_ns == TRAIN
    assert not len(phase.between)


def test_the_time_between_marks_is_a_finding_with_what_the_host_did():
    """The last kernel of a step ends 2 µs after its mark."""
    (row,) = findings(trained(load_ns=24 * MS)).to_pylist()

    assert (row["cause"], row["where"]) == ("between_steps", "load")
    assert row["cost_ns"] == 24 * MS - 2000
    assert row["finding"] == (
        "device 0 has no work while the host is between two marked steps, 100 % of it in load:"
        " 24.0 ms of a step (80.0 %)"
    )
    assert row["suggestion"] == "do this on another thread or ahead, while the device computes"


def test_what_no_range_names_between_marks_is_said_to_be_unrecorded():
    (row,) = findings(trained(load_ns=24 * MS, range_text="")).to_pylist()

    assert (row["cause"], row["where"]) == ("between_steps", None)
    assert "100 % of it in no call or range that was recorded" in row["finding"]
    assert row["suggestion"].startswith("see what the host does in these pauses (nsys profile")


def test_a_loader_between_marks_is_told_to_load_ahead():
    (row,) = findings(trained(load_ns=24 * MS, range_text="DataLoader.next")).to_pylist()

    assert row["suggestion"].startswith("load and prepare input ahead: DataLoader(")


def test_what_the_host_does_within_marks_is_no_time_between_them():
    profile = trained(load_ns=24 * MS)
    marks = [
        {**row, "end_ns": row["end_ns"] + 24 * MS} if row["text"].startswith("step") else row
        for row in profile.table("nvtx_ranges").to_pylist()
    ]
    tables = {name: profile.table(name).to_pylist() for name in ("kernels", "api_calls")}
    profile = draw(**tables, nvtx_ranges=marks)

    assert [row["cause"] for row in findings(profile).to_pylist()] == ["host_late"]
    assert step_notes(profile) == []


def test_a_note_says_that_a_step_is_its_period():
    (note,) = step_notes(trained(load_ns=24 * MS))

    assert note == (
        'The marks of "step #" leave out much of the time: a step is the period from its start to'
        " that of the next, with what the program does between marks."
    )


def test_a_report_counts_the_time_between_marks_as_idle():
    (row,) = bottom_line(trained(load_ns=24 * MS)).to_pylist()

    assert (row["step_ns"], row["mean_step_ns"]) == (30 * MS, 30 * MS)
    assert row["idle_share"] == pytest.approx(0.8, abs=0.001)


def test_who_loads_faster_is_faster_though_the_marks_hide_it():
    """The candidate's marks hold 0.5 ms more of a step, and its loading takes 18 ms less."""
    slow, fast = trained(load_ns=24 * MS), trained(load_ns=6 * MS, train_ns=6 * MS + MS // 2)
    result = comparison({"slow": slow, "fast": fast})

    (outcome,) = result.outcomes.to_pylist()
    assert (outcome["baseline"], outcome["candidate"]) == (30 * MS, 12 * MS + MS // 2)
    assert (outcome["cause"], outcome["cause_ns"]) == ("idle", -18 * MS)
    assert not any(check.reason for check in checks(result, [parse("step_ns > 1.05x")]))
    assert any("each from its start to that of the next" in note for note in result.notes)


def test_a_side_whose_marks_cover_the_time_is_compared_by_period_too():
    """The host marks 1 ms of 6 ms, whose kernel takes 97 % of the time, and 94 % on one side."""

    def marked(busy_ns):
        at = [n * TRAIN for n in range(12)]
        ids = [{"correlation_id": n} for n in range(12)]
        return draw(
            nvtx_ranges=[(t, t + MS, {"text": f"step {n}"}) for n, t in enumerate(at)],
            api_calls=[(t, t + 1000, row) for t, row in zip(at, ids, strict=True)],
            kernels=[(t + 2000, t + busy_ns, row) for t, row in zip(at, ids, strict=True)],
        )

    mostly, less = marked(TRAIN * 97 // 100), marked(TRAIN * 94 // 100)
    assert phases(mostly)[0].step_ns == TRAIN * 97 // 100 - 2000

    (outcome,) = comparison({"mostly": mostly, "less": less}).outcomes.to_pylist()
    assert (outcome["baseline"], outcome["candidate"]) == (TRAIN, TRAIN)


def test_a_range_that_is_asked_for_is_compared_without_what_follows_it():
    sides = {"a": trained(load_ns=24 * MS), "b": trained(load_ns=6 * MS)}
    figures = comparison(sides, range_text="step *").figures.to_pylist()

    steps = {row["variant"]: row["median"] for row in figures if row["metric"] == "step_ns"}
    assert steps == {"a": TRAIN, "b": TRAIN}


def test_validation_after_an_epoch_is_no_step_of_another_kind():
    """Six epochs of ten steps, after each of which 2 ms of other kernels run unmarked."""
    program = Program()
    for _ in range(6):
        program.steps([1000] * 10, ["forward", "backward"])
        for _ in range(20):
            program.kernel(100_000, "evaluate")
    (phase,) = phases(program.profile())

    assert (phase.step_ns, len(phase.start_ns)) == (1000, 59)


def test_a_pause_between_two_kinds_of_steps_is_of_neither():
    """Five steps on one device, 10 ms of nothing, five on two devices: all have pauses."""
    program = Program()
    for devices in ((0,), (0, 1)):
        for _ in range(5):
            program.steps([MS], ["matmul"], devices)
            program.at += MS
        program.at += 10 * MS

    assert [(p.devices, p.step_ns, len(p.start_ns)) for p in phases(program.profile())] == [
        ((0,), 2 * MS, 4),
        ((0, 1), 2 * MS, 4),
    ]


def test_mean_and_median_stand_side_by_side_where_they_are_apart():
    """Every third of 13 steps loads for 24 ms more: median 6 ms, mean 14 ms."""
    profile = trained(load_ns=0, longer=(3, 24 * MS), steps=13)
    (row,) = bottom_line(profile).to_pylist()

    assert (row["step_ns"], row["mean_step_ns"]) == (6 * MS, 14 * MS)
    assert row["bottom_line"].startswith("A step takes 12.5 ms in the mean, of it ")
    assert (
        "The step on device 0 (median 6.00 ms of 12 steps; mean 14.0 ms) is "
        in (row["bottom_line"])
    )
    even = trained(load_ns=0)
    both = comparison({"even": even, "uneven": profile})
    assert (
        "Medians are compared. Median and mean of the steps are apart: even 6.00 ms and 6.00 ms"
        " and uneven 6.00 ms and 14.0 ms."
    ) in both.notes
    assert not any(
        "mean" in note for note in comparison({"a": even, "b": trained(load_ns=0)}).notes
    )


def test_times_beside_a_step_are_those_of_the_step_that_stands_for_all():
    """Two of twelve steps take ten times as long, most of it kernels: the mean kernel time is more
    than the median step."""

    def side(train_ns):
        return stepped(*(train_ns * (10 if n in {4, 8} else 1) for n in range(12)), idle_ns=100)

    result = comparison({"a": side(10_000), "b": side(12_000)})

    figures = {(r["variant"], r["metric"]): r["median"] for r in result.figures.to_pylist()}
    for label, step_ns in (("a", 10_000), ("b", 12_000)):
        assert figures[label, "step_ns"] == step_ns
        assert figures[label, "kernel_ns"] == step_ns - 100
        assert figures[label, "compute_ns"] + figures[label, "idle_ns"] == step_ns
        assert figures[label, "kernel_calls"] == 1


def test_the_parts_of_a_step_add_up_to_it_and_none_exceeds_it():
    """Steps of 10 µs: each third computes, copies or idles for 8 µs; medians would be 1 µs each."""
    tables = {name: [] for name in ("kernels", "memcpys", "api_calls", "nvtx_ranges")}
    for step in range(13):
        at = 10_000 * step
        compute = at + (8000 if step % 3 == 0 else 1000)
        copied = compute + (8000 if step % 3 == 1 else 1000)
        ids = [{"correlation_id": 2 * step + n} for n in (0, 1)]
        tables["nvtx_ranges"].append((at, at + 10_000, {"text": f"step {step}"}))
        tables["api_calls"] += [(at + n, at + n + 1, row) for n, row in enumerate(ids)]
        tables["kernels"].append((at, compute, ids[0]))
        tables["memcpys"].append((compute, copied, ids[1]))

    (row,) = phases_table(draw(**tables)).to_pylist()

    assert row["step_ns"] == 10_000
    assert sum(row[name] for name in PARTS.split()) == 10_000


def test_copies_between_marks_are_copies_of_every_step():
    """1 MB goes to the device after each of 12 marks; what the last step copies is not whole."""
    profile = trained(load_ns=24 * MS)
    tables = {
        name: profile.table(name).to_pylist() for name in ("kernels", "api_calls", "nvtx_ranges")
    }
    starts = [30 * MS * step + 7 * MS for step in range(11)]
    ids = [{"correlation_id": 100 + step} for step in range(11)]
    copies = [
        (at + 1000, at + MS, row | {"bytes": 1 << 20, "dst_device_id": 0})
        for at, row in zip(starts, ids, strict=True)
    ]
    call = {"name": "cudaMemcpyAsync"}
    tables["api_calls"] += [(at, at + 500, row | call) for at, row in zip(starts, ids, strict=True)]

    (row,) = repeated_transfers(draw(**tables, memcpys=copies)).to_pylist()

    assert (row["steps"], row["calls_per_step"]) == (11, 1)
