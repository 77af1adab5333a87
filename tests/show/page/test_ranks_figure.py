"""Ranks x time on the page of a job: what the page's script is given, and what it shows."""

import base64
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from collective_jobs import REDUCE, Job
from drawn_jobs import job
from ranks.joint import ranks_of

from gpuprof.analyses.reports import report
from gpuprof.readers.merged_ranks import joined
from gpuprof.show.page.ranks_figure import ranks_figure
from gpuprof.show.page.recording_page import TABLES_OF_JOB, recording_page, report_page

RANKS, SLICES, PARTS = 6, 400, 3


@pytest.fixture(scope="module")
def late_job():
    """Six ranks, of which rank 2 idles before each collective."""
    return joined(ranks_of(Job(RANKS, 20, seed=3, names=(REDUCE,), late="host").drawn()))


@pytest.fixture(scope="module")
def late_report(late_job):
    return report(late_job, TABLES_OF_JOB)


@pytest.fixture(scope="module")
def late_page(late_job):
    return recording_page(late_job)


@cache
def slow_job():
    """Three ranks, of which the last computes for longer in each of eight steps."""
    return joined(ranks_of(job([300, 300, 400])))


@cache
def slow_page():
    return recording_page(slow_job())


def levels(text):
    return np.frombuffer(base64.b64decode(text), np.uint8)


def many(result, times):
    """The same devices so many times, as ranks of their own."""
    tables = dict(result.tables)
    for name in ("ranks_over_time", "ranks", "steps", "ranks_in_step", "breakdown"):
        table = tables[name]
        place, device = table.column_names.index("device_id"), table["device_id"].to_numpy()
        copies = []
        for number in range(times):
            column = pa.array(device + RANKS * number, pa.int64())
            copy = table.set_column(place, "device_id", column)
            if "rank" in copy.column_names:
                copy = copy.set_column(copy.column_names.index("rank"), "rank", column)
            copies.append(copy)
        tables[name] = pa.concat_tables(copies)
    return replace(result, tables=tables)


def test_cells_are_the_shares_of_the_table(late_report):
    shown = ranks_figure(late_report).shown

    cells = levels(shown["cells"]).reshape(RANKS, shown["count"], PARTS)
    for row in late_report.rows("ranks_over_time"):
        slice_ = (row["start_ns"] - shown["first"]) // shown["slice"]
        parts = [row[name] for name in ("compute_ns", "communication_ns", "copies_ns")]
        expected = np.array(parts) / row["recorded_ns"]
        assert np.abs(cells[row["device_id"], slice_] / 250 - expected).max() <= 0.002
    recorded = len(late_report.rows("ranks_over_time"))
    assert (cells[..., 0] == 255).sum() == RANKS * shown["count"] - recorded


def test_the_rank_that_findings_name_is_marked_and_is_the_latest(late_report):
    shown = ranks_figure(late_report).shown

    marks = {name: late for name, _, late in shown["devices"] if late}
    assert marks == {"rank 2": "the others wait for it"}
    assert shown["late_first"][0] == 2
    ratios = sorted(ratio for _, ratio, _ in shown["devices"])
    assert shown["devices"][shown["median"]][1] == ratios[2]


def test_ranks_have_a_typical_step_and_borders_are_those_of_the_first():
    shown = ranks_figure(report(slow_job(), TABLES_OF_JOB)).shown

    assert shown["steps"] == [50 + 1_000 * step for step in range(8)]
    assert sorted(shown["in_step"]) == [0, 1, 2]
    one = shown["in_step"][2]
    assert one["sums"] == [400, 0, 150, 0, 0, 0, 0, 0]
    assert len(levels(one["slices"])) == 2 * 4 * 96


def test_a_page_of_a_thousand_ranks_takes_less_than_three_megabytes(late_report):
    result = many(late_report, 167)
    shown, fewer = ranks_figure(result).shown, ranks_figure(late_report).shown
    huge = ranks_figure(many(late_report, 250)).shown

    assert len(shown["devices"]) == 1_002
    assert fewer["slice"] < shown["slice"] <= 3 * fewer["slice"]
    assert huge["slice"] > shown["slice"]
    assert len(report_page(result)) < 3 * 2**20
    steps = joined(ranks_of(job([300] * RANKS)))
    assert len(ranks_figure(many(report(steps, TABLES_OF_JOB), 167)).shown["in_step"]) == 128


def test_the_page_of_one_file_has_no_ranks(late_job, late_page):
    assert 'id="ranks-over-time"' in late_page
    assert 'id="ranks-over-time"' not in recording_page(late_job.parts[0].profile)


@pytest.fixture
def opened(browser, tmp_path):
    def open_page(html, width=1280, scheme="light"):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_function("document.querySelector('[data-chart=ranks] canvas')")
        page.chart = page.locator("[data-chart=ranks]")
        return page

    yield open_page
    for context in browser.contexts:
        context.close()


def picture(page):
    page.wait_for_timeout(80)
    return page.chart.locator(".plot canvas").evaluate("(c) => c.toDataURL()")


@pytest.mark.browser
def test_keys_choose_a_rank_which_is_shown_beside_the_median_one(opened):
    page = opened(slow_page())
    readout, step = page.chart.locator(".readout"), page.locator(".rank-step")
    page.chart.focus()
    assert step.is_hidden()

    for _ in range(5):
        page.keyboard.press("ArrowDown")

    # Of 7,550 ns it computes 8 * 400, and is in collectives 8 * 150; a step is 1,000 ns.
    assert readout.text_content() == (
        "rank 2, the others wait for it; in all compute 42.4 %, communication 15.9 %, copies 0.0 %,"
        " idle 41.7 %; own time 1.133 of the median"
    )
    assert step.locator("h3").text_content() == "rank 2 in step 0, 1.00 µs"
    cells = step.locator("table").evaluate(
        "(table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert cells[:3] == [
        ["Lane", "rank 2", "of it exposed", "rank 1", "of it exposed"],
        ["compute", "400 ns", "400 ns", "300 ns", "300 ns"],
        ["communication", "150 ns", "150 ns", "250 ns", "250 ns"],
    ]
    page.keyboard.press("ArrowUp")
    assert readout.text_content().startswith("rank 1; ")
    assert page.said == []


@pytest.mark.browser
def test_rows_are_ordered_sought_and_shown_by_kind(opened, late_page):
    page = opened(late_page)
    over, readout = page.chart.locator(".u-over"), page.chart.locator(".readout")
    seen = [picture(page)]

    page.chart.locator("[name=order]").select_option("late")
    seen.append(picture(page))
    over.hover(position={"x": 300, "y": 5})
    assert readout.text_content().startswith("rank 2, the others wait for it at ")
    for part in range(4):
        page.chart.locator("[name=show]").select_option(str(part))
        seen.append(picture(page))
    assert len({*seen}) == 6

    page.chart.locator("input").fill("4")
    assert page.chart.locator(".found").text_content() == "1 of 6"
    assert page.locator(".rank-step h3").text_content().startswith("rank 4 ")
    page.chart.locator("input").fill("no such rank")
    assert page.chart.locator(".found").text_content() == "0 of 6"
    over.hover(position={"x": 300, "y": 1}, force=True)
    page.chart.locator("input").fill("wait")
    assert page.chart.locator(".found").text_content() == "1 of 6"
    assert page.said == []


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_ranks_fit_the_page_and_have_no_barrier(opened, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    page = opened(slow_page(), width, scheme)
    page.chart.locator(".u-over").click(position={"x": 60, "y": 5})
    before = picture(page)
    page.chart.locator("[data-do=in]").click()

    assert picture(page) != before
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    violations = axe.Axe().run(page).response["violations"]
    assert [violation["id"] for violation in violations] == []
