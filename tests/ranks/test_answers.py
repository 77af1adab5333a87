"""What only many ranks tell: jobs drawn with a known late rank, cause and clocks."""

import random
import re

import pytest
from collective_jobs import GEMM, REDUCE, US, Job
from drawing import draw
from ranks.joint import job_report, of_rank, ranks_of

from gpuprof.analyses import analysis_named
from gpuprof.analyses.reports import report
from gpuprof.base.units import say_ns
from gpuprof.findings.bottom_line import bottom_line
from gpuprof.readers.merged_ranks import joined

# What compute hides in part is not known to the ns; all else is.
_ESTIMATED = {"exposed_transfer_ns", "exposed_waiting_ns"}
_OFFSETS = {1: 5_000 * US, 3: -700 * US}


def _late_job(late="host", ranks=6, late_ns=(), seed=3):
    job = Job(ranks, 12, seed=seed, names=(REDUCE,), late=late)
    return job, ranks_of(job.drawn(late_ns=dict(late_ns).items()))


def _tables(files, *names):
    return {name: table.to_pylist() for name, table in job_report(files, [*names]).tables.items()}


@pytest.mark.parametrize("late_ns", [{}, _OFFSETS], ids=["one clock", "clocks apart"])
def test_waits_are_those_of_the_joined_recording_and_of_the_drawing(late_ns):
    job, files = _late_job(late_ns=late_ns)

    rows = _tables(files, "collective_waits")["collective_waits"]
    expected = analysis_named("collective_waits").run(joined(files)).to_pylist()

    assert [_exact(row) for row in rows] == [_exact(row) for row in expected]
    for row in rows:
        transfer, waiting, last_share, basis = job.answer(row["rank"], REDUCE)
        assert (row["transfer_ns"], row["waiting_ns"]) == (transfer, waiting)
        assert (row["last_share"], row["basis"]) == (last_share, basis)


def _exact(row):
    return {name: value for name, value in row.items() if name not in _ESTIMATED}


@pytest.mark.parametrize("way", ["job", "joined"])
def test_clock_offsets_are_those_that_were_drawn(way):
    _, files = _late_job(late_ns=_OFFSETS)

    if way == "job":
        rows = _tables(files, "clock_offsets")["clock_offsets"]
    else:
        rows = analysis_named("clock_offsets").run(joined(files)).to_pylist()

    assert [row["rank"] for row in rows] == [*range(6)]
    for row in rows:
        drawn_ns = _OFFSETS.get(row["rank"], 0)
        # Ends vary by two microseconds.
        assert abs(row["offset_ns"] - drawn_ns) <= 2 * US
        assert 0 <= row["error_ns"] <= 2 * US
        assert (row["reference_rank"], row["collectives"]) == (0, 12)
        assert row["is_set_right"] == (drawn_ns != 0)


@pytest.mark.parametrize("late", ["host", "kernels", "work", "copies"])
@pytest.mark.parametrize("late_ns", [{}, _OFFSETS], ids=["one clock", "clocks apart"])
def test_the_first_sentence_names_the_late_rank_and_its_cause(late, late_ns):
    _, files = _late_job(late, late_ns=late_ns)

    tables = _tables(files, "bottom_line", "findings")

    sentence = tables["bottom_line"][0]["bottom_line"]
    assert "Rank 2 makes the others wait: it came last to 100 %" in sentence
    assert f"({late}:" in sentence
    waiting = [row for row in tables["findings"] if row["cause"] == "collective_waiting"]
    (row,) = waiting
    assert row["where"] == "rank 2"
    assert row["finding"].startswith("5 of 6 devices: each waits in collectives")
    assert late in row["suggestion"]


def test_the_first_sentence_tells_the_call_for_which_the_others_wait_most():
    job = Job(6, 12, seed=3, names=(REDUCE,), late="host", late_steps=[7])
    (sentence,) = _sentences(ranks_of(job.drawn()))

    at = say_ns(job.calls[7][1][2])
    assert "Rank 2 makes the others wait" in sentence
    assert re.search(rf"; 8\d\.\d % of the waiting for it is in one call, at {at}$", sentence)


def test_the_first_sentence_tells_the_step_in_which_the_others_wait_most():
    (sentence,) = _sentences(ranks_of(stepping_job(6, lambda step: step == 7)))

    assert re.search(r"; 9\d\.\d % of the waiting for it is in step 7", sentence)
    assert "(kernels: " in sentence
    assert "gemm takes 1.6" in sentence


def test_a_rank_that_is_late_in_all_steps_is_named_with_no_step():
    (sentence,) = _sentences(ranks_of(stepping_job(6, lambda _: True)))

    assert "Rank 2 makes the others wait" in sentence
    assert "is in step" not in sentence
    assert "Slow without collectives: rank 2 takes" in sentence


@pytest.mark.parametrize("is_late", [lambda step: step == 7, lambda _: True, lambda _: False])
def test_a_joined_recording_says_the_same_of_late_ranks(is_late):
    files = ranks_of(stepping_job(6, is_late))

    (sentence,) = _sentences(files)

    assert bottom_line(joined(files))["bottom_line"].to_pylist() == [sentence]
    assert ("makes the others wait" in sentence) == is_late(7)


def test_one_file_says_nothing_of_late_ranks():
    (line, *_) = bottom_line(stepping_job(6, lambda _: True))["bottom_line"].to_pylist()

    assert "makes the others wait" not in line


def _sentences(files):
    return [row["bottom_line"] for row in _tables(files, "bottom_line")["bottom_line"]]


def stepping_job(ranks, is_late, steps=12):
    """Steps that ranges mark: every rank computes, rank 2 longer where it is late, and reduces."""
    dice, now = random.Random(1), [0] * ranks  # noqa: S311 - not for secrets
    tables = {"nvtx_ranges": [], "api_calls": [], "kernels": []}

    def launch(rank, end, **kernel):
        call = {"correlation_id": len(tables["api_calls"])}
        tables["api_calls"].append((now[rank], now[rank] + 1, call))
        tables["kernels"].append((now[rank], end, {"device_id": rank, **kernel, **call}))
        now[rank] = end + 1

    for step in range(steps):
        began = min(now)
        for rank in range(ranks):
            late = 4_000 * US if rank == 2 and is_late(step) else 0
            launch(rank, now[rank] + dice.randrange(500 * US, 510 * US) + late, name=GEMM)
        end = max(now) + 50 * US
        tables["nvtx_ranges"].append((began, end - 10 * US, {"text": f"step {step}"}))
        for rank in range(ranks):
            launch(rank, end + dice.randrange(2 * US), name=REDUCE, stream_id=20)
        now = [end + 3 * US] * ranks
    return draw(**tables)


def test_what_keeps_one_of_many_last_ranks_is_no_advice():
    job = stepping_job(6, lambda _: False)
    rows = _tables(ranks_of(job), "findings")["findings"]
    turns = [row for row in rows if row["cause"] == "collective_waiting"]

    assert not any("see what keeps" in row["suggestion"] for row in turns)


def test_waiting_costs_what_the_drawing_says():
    job, files = _late_job("host")

    rows = _tables(files, "findings")["findings"]

    (row,) = [row for row in rows if row["cause"] == "collective_waiting"]
    # No range marks steps: costs are of the span.
    waiting = sorted(job.answer(rank, REDUCE)[1] for rank in (0, 1, 3, 4, 5))
    assert row["cost_ns"] == waiting[2]


def test_a_cause_of_one_rank_is_said_of_that_rank():
    kernels = [(1000 * US * n, 1000 * US * n + 900 * US) for n in range(8)]
    busy = [draw(kernels=kernels) for _ in range(3)]
    copying = draw(
        kernels=kernels, memsets=[(start + 900 * US, start + 990 * US) for start, _ in kernels]
    )
    files = [of_rank(profile, rank) for rank, profile in enumerate([*busy, copying])]

    rows = _tables(files, "findings")["findings"]

    (row,) = [row for row in rows if row["cause"] == "local_copies"]
    assert row["where"] == "rank 3"
    assert row["finding"].startswith("rank 3 ")


def test_three_ranks_at_most_are_named_those_that_pay_most():
    kernels = [(1000 * US * n, 1000 * US * n + 800 * US) for n in range(8)]
    durations = [20, 20, 20, 20, 20, 90, 100, 110, 120]
    files = [
        of_rank(
            draw(
                kernels=kernels,
                memsets=[(start + 800 * US, start + (800 + us) * US) for start, _ in kernels],
            ),
            rank,
        )
        for rank, us in enumerate(durations)
    ]

    rows = _tables(files, "findings")["findings"]

    (row,) = [row for row in rows if row["cause"] == "local_copies"]
    assert row["where"] == "ranks 8, 7 and 6"
    assert row["finding"].startswith("9 of 9 devices: each ")
    assert "most on ranks 8, 7 and 6" in row["finding"]
    assert row["cost_share"] == pytest.approx(0.02, abs=0.003)


@pytest.mark.parametrize("way", ["job", "joined"])
def test_clocks_that_were_set_right_are_said(way):
    _, files = _late_job(late_ns=_OFFSETS)
    _, files_of_one_clock = _late_job()
    reported = (
        job_report if way == "job" else lambda profiles, names: report(joined(profiles), names)
    )

    notes = [n for n in reported(files, ["collective_waits"]).notes if "clocks" in n]

    assert len(notes) == 1
    assert notes[0].startswith("The clocks of ranks 1 and 3 are up to 5.00 ms from those")
    assert not any("clocks" in n for n in reported(files_of_one_clock, ["findings"]).notes)
