"""One cause, one line: causes of a family cost together what they cost at once only once."""

import re
from itertools import groupby

import pytest
from collective_jobs import Job
from drawn_steps import DTOD, HTOD, LAYOUT, PEER, REDUCE, US, kernel, launched_ahead, queued
from ranks.joint import job_report, of_rank

from gpuprof.analyses.reports import report
from gpuprof.findings.causes import CAUSES, by_family, family_of
from gpuprof.findings.costs import costs_of_devices
from gpuprof.findings.findings import findings
from gpuprof.model.data_model import NVTX_RANGES
from gpuprof.show import Page, renderer_named
from gpuprof.show.notebook import report_summary, summary_html, summary_text
from gpuprof.show.overview import findings_lines
from gpuprof.show.page.recording_page import recording_page


def rows(profile):
    return {row["cause"]: row for row in findings(profile).to_pylist()}


def lines(profile):
    return findings_lines(report(profile, ["findings"]))


def test_a_collective_cut_in_two_causes_ranks_by_what_both_can_win():
    """15 µs of transfer, and 15 µs that may be waiting, which counts half, before 20 µs."""
    lasts = (lambda n: (50, 80 if n % 4 else 65), REDUCE | {"stream_id": 9})
    profile = launched_ahead(((0, 30), kernel()), ((30, 50), LAYOUT), lasts, ((80, 100), kernel()))
    found = rows(profile)
    transfer, waiting = (found[f"collective_{part}"] for part in ("transfer", "waiting"))

    assert [transfer["cost_ns"], waiting["cost_ns"]] == [15 * US, 15 * US]
    assert transfer["win_ns"] < found["layout_conversions"]["win_ns"] == 20 * US
    assert [*found][:3] == ["collective_transfer", "collective_waiting", "layout_conversions"]
    for row in (transfer, waiting):
        assert (row["family"], row["family_cost_ns"]) == ("collectives", 30 * US)
    (head, parts), (second, none) = lines(profile)[:2]
    assert head == "1. Collectives take 30.0 µs of a step (30.0 %); at most all of that can be won."
    assert parts[0].startswith(
        "Device 0 is in collectives that no compute hides, and not all of their ranks were"
        " recorded: 15.0 µs (15.0 %). Record all ranks"
    )
    assert parts[0].endswith("(saves at most 15.0 %; --table collective_waits).")
    assert parts[1].startswith("Device 0 may wait in collectives for other ranks")
    assert second.startswith("2. Device 0 converts the layout of tensors")
    assert none == ()


@pytest.mark.parametrize(("copied_us", "where"), [(9, None), (10, "host to device 0")])
def test_of_copies_that_cost_less_than_a_sentence_only_the_time_is_told(copied_us, where):
    end = 500 + copied_us
    copying = ((0, 500), kernel()), ((500, end), HTOD), ((end, 1000), kernel())
    [row] = costs_of_devices(launched_ahead(*copying, step_us=1000)).to_pylist()

    assert (row["cost_ns"], row["where"]) == (copied_us * US, where)


@pytest.mark.parametrize(
    ("moving_us", "waiting_us", "places"),
    [
        pytest.param(6, 5, ["reduce", None], id="more-of-it-moves"),
        pytest.param(5, 6, [None, "reduce"], id="more-of-it-waits"),
        pytest.param(4, 5, [None, None], id="too-little"),
        pytest.param(11, 12, ["reduce", "reduce"], id="each-is-enough"),
    ],
)
def test_collectives_tell_their_place_where_both_parts_together_cost_enough(
    moving_us, waiting_us, places
):
    """A job of many files divides their sum anew, and takes the words of the costlier part."""
    reduced = (
        lambda n: (500, 500 + moving_us + (waiting_us if n % 4 else 0)),
        REDUCE | {"stream_id": 9},
    )
    profile = launched_ahead(((0, 500), kernel()), reduced, ((900, 1000), kernel()), step_us=1000)
    marks = profile.table("nvtx_ranges").to_pylist()
    around = [
        mark | {"start_ns": mark["start_ns"] + US, "end_ns": mark["start_ns"] + US + 200}
        for mark in marks
    ]
    ranges = NVTX_RANGES.table([*marks, *(mark | {"text": "reduce"} for mark in around)])
    costs = costs_of_devices(profile.with_table("nvtx_ranges", ranges)).to_pylist()
    where = {row["cause"]: row["where"] for row in costs}

    assert [where["collective_transfer"], where["collective_waiting"]] == places


def test_copies_that_run_at_once_cost_that_time_once():
    peer = PEER | {"bytes": 8, "stream_id": 9}
    at_once = launched_ahead(
        ((0, 60), kernel()), ((60, 80), HTOD), ((60, 80), peer), ((80, 100), kernel())
    )
    found = rows(at_once)

    assert found["exposed_host_copies"]["cost_ns"] == found["exposed_peer_copies"]["cost_ns"]
    assert {row["family_cost_ns"] for row in found.values()} == {20 * US}
    # One after the other they cost the time of both.
    apart = launched_ahead(
        ((0, 60), kernel()), ((60, 80), HTOD), ((80, 99), peer), ((99, 100), kernel())
    )
    assert {row["family_cost_ns"] for row in rows(apart).values()} == {39 * US}


def test_a_family_costs_what_the_device_pays_that_pays_most_of_it():
    """Copies from the host cost most on device 0, and all copies on device 1."""
    on_1 = {"device_id": 1}
    profile = launched_ahead(
        *(((0, 60), kernel()), ((60, 82), HTOD), ((82, 100), kernel())),
        *(((0, 60), kernel(**on_1)), ((60, 80), HTOD | on_1 | {"dst_device_id": 1})),
        *(((80, 99), DTOD | on_1), ((99, 100), kernel(**on_1))),
    )
    copies = [row for row in findings(profile).to_pylist() if row["family"] == "copies"]

    assert [(row["device_id"], row["cost_ns"]) for row in copies] == [(0, 22 * US), (1, 19 * US)]
    assert {row["family_cost_ns"] for row in copies} == {39 * US}


def test_changes_of_a_family_are_replayed_together():
    profile = queued((60, kernel()), (20, HTOD), (20, DTOD))
    found = rows(profile)

    assert {row["predicted_win_ns"] for row in found.values()} == {20 * US}
    assert {row["family_predicted_win_ns"] for row in found.values()} == {40 * US}
    ((head, parts),) = lines(profile)
    assert head == "1. Copies take 40.0 µs of a step (40.0 %); all of that can be won."
    assert len(parts) == 2


@pytest.mark.parametrize(
    ("late_win_ns", "won"),
    [
        pytest.param(None, "at most all of that can be won", id="a-part-is-replayed"),
        pytest.param(5 * US, "10.0 µs (10.0 %) can be won", id="all-are-replayed"),
    ],
)
def test_what_a_replay_of_a_part_wins_is_not_said_of_the_family(late_win_ns, won):
    row = {
        "family": "launching", "steps": 8, "step_ns": 100 * US, "phase": "relax",
        "family_cost_ns": 30 * US, "family_win_ns": 30 * US, "family_predicted_win_ns": 10 * US,
    }  # fmt: skip
    late = row | {
        "finding": 'no work: 20.0 µs of a step of "relax" (20.0 %)',
        "predicted_win_ns": late_win_ns,
    }
    small = row | {"finding": "waits: 10.0 µs of a step (10.0 %)", "predicted_win_ns": 5 * US}
    ((head, parts),) = by_family([late, small])

    assert head == f'launching takes 30.0 µs of a step of "relax" (30.0 %); {won}'
    assert [part["finding"] for part in parts] == [late["finding"], "waits: 10.0 µs (10.0 %)"]


def test_causes_of_different_families_have_lines_of_their_own():
    profile = queued((70, kernel()), (10, LAYOUT), (20, HTOD))
    single = findings(profile).to_pylist()

    assert [row["family"] for row in single] == ["copies", "compute"]
    assert [*by_family(single)] == [("", [row]) for row in single]
    for row in single:
        assert row["family_cost_ns"] == row["cost_ns"]
        assert row["family_predicted_win_ns"] == row["predicted_win_ns"]


def test_causes_of_a_family_follow_one_another_in_jobs_too():
    job = Job(4, 20, seed=7, late="kernels").drawn()
    ranks = [*map(of_rank, [job] * 4, range(4))]
    found = job_report(ranks, ["findings"]).rows("findings")
    families = [row["family"] for row in found]

    assert [name for name, _ in groupby(families)] == [*dict.fromkeys(families)]
    of_collectives = [row for row in found if row["family"] == "collectives"]
    assert {row["cause"] for row in of_collectives} == {"collective_waiting", "collective_transfer"}
    for row in found:
        assert row["family_cost_ns"] >= row["cost_ns"]
        assert row["family_win_ns"] <= row["family_cost_ns"]


def test_every_family_has_two_causes_or_more():
    families = [cause.family for cause in CAUSES.values() if cause.family]

    assert all(families.count(family) > 1 for family in families)
    assert family_of("mpi") == "mpi"


@pytest.mark.parametrize(
    ("shown", "below"),
    [
        pytest.param("terminal", ".\n   - Device 0 waits for copies from", id="terminal"),
        pytest.param("markdown", ".  \n   - Device 0 waits for copies from", id="markdown"),
        pytest.param("page", ".</h2> <h3>Device 0 waits for copies from", id="page"),
    ],
)
def test_causes_stand_below_their_family(shown, below):
    """A part of several lines is indented as a whole."""
    profile = queued((60, kernel()), (20, HTOD), (20, DTOD))
    if shown == "page":
        page = re.sub(r"(?s)<div class=\"costs\">.*?</div>", "", recording_page(profile))
        text = re.sub(r'\s*(?:<div class="(?:part|words)">\s*)+', " ", page)
    else:
        text = renderer_named(shown).report(report(profile), Page())

    assert f"can be won{below}" in text.replace("\N{NO-BREAK SPACE}", " ")
    if shown == "terminal":
        part = text[text.index("   - Device") : text.index("   - Device", text.index("- Device"))]
        assert all(line.startswith("     ") for line in part.splitlines()[1:])


def test_notebooks_show_causes_below_their_family():
    summary = report_summary(report(queued((60, kernel()), (20, HTOD), (20, DTOD))), ())
    ((head, parts),) = summary.points

    assert head.startswith("Copies take 40.0 µs of a step")
    assert len(parts) == 2
    assert f"<li>{head}<ul><li>{parts[0][0]}" in summary_html(summary).replace("\xa0", " ")
    assert f"1. {head}\n   - {parts[0][0]}" in summary_text(summary, 1000)
    assert "\n     " in summary_text(summary, 80)
