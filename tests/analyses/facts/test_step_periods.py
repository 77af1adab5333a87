"""The time between marked steps is a part of them where the marks leave much of it out."""

import pytest
from drawing import draw

from gpuprof.analyses.facts.phases import phases
from gpuprof.analyses.facts.step_notes import step_notes
from gpuprof.analyses.findings.bottom_line import bottom_line
from gpuprof.analyses.findings.findings import findings
from gpuprof.comparisons import comparison
from gpuprof.comparisons.judge.gate import checks, parse

MS = 1_000_000
TRAIN = 6 * MS


def trained(load_ns, steps=12, range_text="load"):
    """Steps of 6 ms, marked, after each of which the host loads a batch: nothing runs then."""
    tables = {name: [] for name in ("kernels", "api_calls", "nvtx_ranges")}
    at = 0
    for number in range(steps):
        tables["nvtx_ranges"].append((at, at + TRAIN, {"text": f"step {number}"}))
        for half in range(2):
            launched = {"correlation_id": 2 * number + half}
            tables["api_calls"].append(
                (at + half * TRAIN // 2, at + half * TRAIN // 2 + 1000, launched)
            )
            start = at + half * TRAIN // 2 + 2000
            tables["kernels"].append((start, start + TRAIN // 2 - 2000, launched))
        at += TRAIN
        if range_text:
            tables["nvtx_ranges"].append((at, at + load_ns, {"text": range_text}))
        at += load_ns
    return draw(**tables)


def test_a_step_is_the_period_where_marks_leave_much_out():
    (phase,) = phases(trained(load_ns=24 * MS))

    assert phase.step_ns == 30 * MS
    assert (len(phase.start_ns), phase.cut_steps) == (11, 1)


def test_marks_that_cover_the_time_are_the_steps():
    (phase,) = phases(trained(load_ns=0))

    assert phase.step_ns == TRAIN
    assert not len(phase.between)
