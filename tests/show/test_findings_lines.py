"""What a report says first of what a finding can win."""

from pathlib import Path

import pytest

from gpuprof.analyses.breakdown import BREAKDOWN
from gpuprof.analyses.peer_matrix import PEER_MATRIX
from gpuprof.analyses.reports import Report
from gpuprof.findings.findings import FINDINGS
from gpuprof.model.origin import Origin
from gpuprof.show import Page, terminal
from gpuprof.show.overview import findings_lines

ROW = {
    "rank": 1, "cause": "local_copies", "family": "copies", "cost_ns": 20, "cost_share": 0.2,
    "win_ns": 20,
    "win_share": 0.2, "win": "at most 20.0 %", "means": "fewer copies", "total_win_ns": 20,
    "finding": "device 0 copies", "suggestion": "copy less", "table": "breakdown",
}  # fmt: skip


WON = {
    "a bound": ({}, "(saves at most 20.0 %; --table breakdown)."),
    "a replay": (
        {"predicted_win_ns": 9, "win": "9 ns (9.0 %) without them", "change": "drop=a|b"},
        (
            "Can save 9 ns (9.0 %) without them (gpuprof predict --what 'drop=a|b'; --table"
            " breakdown)."
        ),
    ),
    "a replay that can be asked for": (
        {"change": "balance"},
        "(saves at most 20.0 %; gpuprof predict --what balance; --table breakdown).",
    ),
    "a change too long for a sentence": (
        {"change": f"drop={'x' * 80}"},
        "(saves at most 20.0 %; --table breakdown).",
    ),
    "nothing": ({"win_ns": 0, "win_share": 0.0}, "(--table breakdown)."),
}


@pytest.mark.parametrize(("columns", "end"), WON.values(), ids=WON)
def test_what_can_be_won_stands_after_what_to_try(columns, end):
    result = Report(
        Origin(Path("t.sqlite"), "drawn", "by hand"),
        {"findings": FINDINGS.table([ROW | columns])},
        (),
    )

    [(line, parts)] = findings_lines(result)
    assert parts == ()
    assert line == f"1. Device 0 copies. Copy less{'.' if end.startswith('Can') else ''} {end}"


def test_findings_are_whole_and_a_line_says_how_many_more_there_are():
    rows = [
        ROW | {"rank": n, "family": f"cause {n}", "cost_share": 0.06 if n == 7 else 0.01}
        for n in range(1, 9)
    ]
    origin = Origin(Path("t.sqlite"), "drawn", "by hand")
    result = Report(origin, {"findings": FINDINGS.table(rows)}, ())

    *lines, more = (line for line, _ in findings_lines(result))

    assert [line.split(". ", 1)[0] for line in lines] == ["1", "2", "3", "4", "5", "6"]
    assert all(
        line.endswith("Device 0 copies. Copy less (saves at most 20.0 %; --table breakdown).")
        for line in lines
    )
    assert more == "2 more findings: --table findings."


def test_tables_yield_to_findings_and_say_how_to_see_them():
    rows = [
        ROW | {"rank": n, "family": f"cause {n}", "suggestion": "copy less, " * 40}
        for n in range(1, 6)
    ]
    origin = Origin(Path("t.sqlite"), "drawn", "by hand")
    breakdown, peers = BREAKDOWN.table([{"span_ns": 5}]), PEER_MATRIX.table([{"src": "host"}])
    tables = {"findings": FINDINGS.table(rows), "breakdown": breakdown, "peer_matrix": peers}

    text = terminal.report(Report(origin, tables, ()), Page())

    assert "\n5. Device 0 copies." in text
    assert "Where each device's time went" in text
    assert "Transfers by source" not in text
    assert "\nWithout room here: --table peer_matrix.\n" in text
