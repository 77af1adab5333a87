"""What a report says first of what a finding can win."""

from pathlib import Path

import pytest

from gpuprof.analyses.findings.findings import FINDINGS
from gpuprof.profile import Origin
from gpuprof.render.overview import findings_lines
from gpuprof.reports import Report

ROW = {
    "rank": 1, "cause": "local_copies", "cost_ns": 20, "cost_share": 0.2, "win_ns": 20,
    "win_share": 0.2, "win": "at most 20.0 %", "means": "fewer copies", "total_win_ns": 20,
    "finding": "device 0 copies", "suggestion": "copy less", "table": "breakdown",
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        pytest.param({}, "(saves at most 20.0 %; --table breakdown).", id="a bound"),
        pytest.param(
            {"predicted_win_ns": 9, "win": "9 ns (9.0 %) without them", "change": "drop=a|b"},
            "Can save 9 ns (9.0 %) without them (gpuprof predict --what 'drop=a|b'; --table"
            " breakdown).",
            id="a replay",
        ),
        pytest.param(
            {"change": "balance"},
            "(saves at most 20.0 %; gpuprof predict --what balance; --table breakdown).",
            id="a replay that can be asked for",
        ),
        pytest.param(
            {"change": f"drop={'x' * 80}"},
            "(saves at most 20.0 %; --table breakdown).",
            id="a change too long for a sentence",
        ),
        pytest.param({"win_ns": 0, "win_share": 0.0}, "(--table breakdown).", id="nothing"),
    ],
)
def test_what_can_be_won_stands_after_what_to_try(columns, end):
    result = Report(
        Origin(Path("t.sqlite"), "drawn", "by hand"),
        {"findings": FINDINGS.table([ROW | columns])},
        (),
    )

    [line] = findings_lines(result)
    assert line == f"1. Device 0 copies. Copy less{'.' if end.startswith('Can') else ''} {end}"


def test_where_there_is_no_room_changes_are_left_out():
    row = ROW | {"predicted_win_ns": 9, "win": "9 ns without them", "change": "balance"}
    origin = Origin(Path("t.sqlite"), "drawn", "by hand")
    result = Report(origin, {"findings": FINDINGS.table([row])}, ())

    [line] = findings_lines(result, has_changes=False)
    assert line.endswith("Can save 9 ns without them (--table breakdown).")
