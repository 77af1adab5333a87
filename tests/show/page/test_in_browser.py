"""Pages in a real browser, where there is one."""

import re
from functools import cache

import hostile
import pytest
from commands import ROOT
from drawing import draw
from drawn_jobs import job
from recordings import kernel, row, summary, trace

from gpuprof.comparisons import comparison
from gpuprof.findings.findings import worst_finding
from gpuprof.predict.predict import predict
from gpuprof.readers import read_profile
from gpuprof.show.page.comparison_page import comparison_page
from gpuprof.show.page.prediction_page import prediction_page
from gpuprof.show.page.recording_page import recording_page

pytestmark = pytest.mark.browser
STAGED = ROOT / "gpuprof" / "docs" / "recordings" / "staged.gpuprof"


@cache
def hostile_page():
    return recording_page(hostile.recording())


def open_at(browser, path, html=None, width=1280, scheme="light"):
    """A page, by default one at 1280 pixels, which keeps all that it says and asks for."""
    path.write_text(html or hostile_page(), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    if html is None:
        page.wait_for_function("document.querySelectorAll('.plot canvas').length === 4")
    return page


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page as it is for this test alone."""
    pages = []

    def open_page(*what, **how):
        pages.append(open_at(browser, tmp_path / f"page{len(pages)}.html", *what, **how))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()


@pytest.fixture(scope="module")
def shown(browser, tmp_path_factory):
    """The page at 1280 pixels, for tests that need not find it as it opens; its width stays."""
    page = open_at(browser, tmp_path_factory.mktemp("shown") / "page.html")
    yield page
    page.context.close()


def barriers(page, *rules):
    """What axe finds that keeps people out: its rules, with the elements that break them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    options = {"runOnly": [*rules]} if rules else None
    return [
        (violation["id"], [node["html"][:90] for node in violation["nodes"][:3]])
        for violation in axe.Axe().run(page, options=options).response["violations"]
    ]


def width_needed(page):
    return page.evaluate("document.documentElement.scrollWidth")


def _column(page, table, name):
    place = page.eval_on_selector_all(
        f"#rows-{table} th", "(heads, name) => heads.findIndex((h) => h.textContent === name)", name
    )
    return page.eval_on_selector_all(
        f"#rows-{table} tbody tr:not([hidden])",
        "(rows, place) => rows.map((row) => row.cells[place].textContent)",
        place,
    )


def test_it_opens_without_complaint_or_request(opened):
    page = opened()
    page.wait_for_timeout(200)

    assert page.said == []
    assert page.asked == [page.url]
    assert page.evaluate("window.hacked") is None


def test_it_works_from_the_scripts_that_its_policy_allows_and_no_other(shown):
    shown.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        " document.body.append(s); }"
    )

    assert shown.evaluate("window.hacked") is None
    assert "Content Security Policy" in shown.said[0]


def test_tables_sort_by_number_and_back(opened):
    page = opened()
    page.click("#table-kernel_summary summary")
    head = page.locator("#rows-kernel_summary th", has_text="Total").locator("button")

    head.click()
    falling = _column(page, "kernel_summary", "Total")
    head.click()
    rising = _column(page, "kernel_summary", "Total")

    assert falling[0] == "66 ns"
    assert rising == sorted(rising, key=lambda text: int(text.split()[0]))
    assert head.locator("..").get_attribute("aria-sort") == "ascending"


def test_a_search_keeps_the_rows_that_have_all_words(opened):
    page = opened()
    page.click("#table-kernel_summary summary")

    page.fill("#table-kernel_summary input", "<img 13")

    assert len(_column(page, "kernel_summary", "Name")) == 1
    assert page.text_content("#table-kernel_summary .found") == "1 of 40 rows"


def test_a_timeline_finds_kernels_by_their_names_and_sums_what_is_in_sight(opened):
    kernels = [kernel("gemm", n * 1_000, n * 1_000 + 100, device_id=0) for n in range(100)]
    kernels[40] = kernel("Softmax_kernel", 40_000, 40_500, device_id=0)
    kernels[70] = kernel("softmax_backward", 70_000, 70_250, device_id=0)
    page = opened(recording_page(trace(kernels=kernels, memcpys=[])))
    find, said = page.locator(".find input"), page.locator(".find .found")

    def in_sight():
        page.wait_for_timeout(100)
        rows = page.eval_on_selector_all(
            ".sums tbody tr", "(rows) => rows.map((r) => [...r.cells].map((c) => c.textContent))"
        )
        return page.text_content(".sums summary"), rows

    assert in_sight()[1] == [
        ["device 0", "compute", "10.6 µs", "10.6 %", "10.6 µs", "gemm (9.80 µs)"]
    ]
    find.fill("softmax")
    assert said.text_content() == "2, 750 ns in sum; Enter shows each"
    find.press("Enter")
    assert said.text_content() == "1 of 2, 500 ns"
    summary, [row] = in_sight()
    assert summary == "In sight: 10.0 µs, from 35.3 µs on"
    assert row[2:] == ["1.40 µs", "14.0 %", "1.40 µs", "gemm (900 ns)"]
    find.press("Enter")
    find.press("Enter")
    find.press("Shift+Enter")
    assert said.text_content() == "2 of 2, 250 ns"
    # What is typed works no chart.
    find.fill("-")
    find.press("-")
    assert in_sight()[0] == "In sight: 5.00 µs, from 67.63 µs on"
    assert said.text_content() == "none"


def test_a_typical_step_of_a_large_recording_can_be_seen_kernel_by_kernel(opened):
    # With fewer rows than 120,000 a page shows all kernels.
    count, per_step = 126_000, 1_500
    ids = [{"correlation_id": n} for n in range(count)]
    profile = draw(
        kernels=[(10 * n, 10 * n + 5, ids[n] | {"name": f"k{n % 7}"}) for n in range(count)],
        api_calls=[(10 * n, 10 * n + 1, ids[n]) for n in range(count)],
        nvtx_ranges=[
            (10 * n, 10 * (n + per_step), {"text": f"step {n // per_step}"})
            for n in range(0, count, per_step)
        ],
    )
    page = opened(recording_page(profile))

    page.click("[data-do=step]")
    page.wait_for_timeout(100)

    assert page.text_content(".sums summary").startswith("In sight: 15.0 µs, from ")
    cells = page.eval_on_selector_all(
        ".sums tbody td", "(cells) => cells.map((c) => c.textContent)"
    )
    # 215 of its 1,500 kernels, or 214, have each name.
    assert cells[:3] == ["device 0", "compute", "7.50 µs"]
    assert re.fullmatch(r"k\d \(1.07 µs\)|k\d \(1.08 µs\)", cells[5])


@pytest.mark.parametrize(
    ("key", "button"), [("+", "in"), ("-", "out"), ("ArrowRight", "right"), ("0", "all")]
)
def test_charts_move_by_key_and_by_button_alike(shown, key, button):
    chart = shown.locator("[data-chart=timeline]")
    canvas = chart.locator("canvas")

    def after(action):
        shown.wait_for_timeout(80)
        action()
        shown.wait_for_timeout(80)
        return canvas.evaluate("(c) => c.toDataURL()")

    chart.locator("[data-do=all]").click()
    chart.focus()
    before = after(lambda: shown.keyboard.press("+"))
    by_key = after(lambda: shown.keyboard.press(key))
    chart.locator("[data-do=all]").click()
    again = after(lambda: chart.locator("[data-do=in]").click())
    by_button = after(lambda: chart.locator(f"[data-do={button}]").click())

    assert before == again
    assert by_key == by_button
    assert by_key != before


def test_dragging_over_a_chart_zooms_into_it(shown):
    over = shown.locator("[data-chart=timeline] .u-over")
    canvas = shown.locator("[data-chart=timeline] canvas")
    shown.locator("[data-chart=timeline] [data-do=all]").click()
    shown.wait_for_timeout(80)
    before = canvas.evaluate("(c) => c.toDataURL()")
    box = over.bounding_box()

    shown.mouse.move(box["x"] + 100, box["y"] + 20)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 300, box["y"] + 20, steps=5)
    shown.mouse.up()
    shown.wait_for_timeout(80)

    assert canvas.evaluate("(c) => c.toDataURL()") != before


def test_pointing_at_the_timeline_says_what_runs_there(shown):
    shown.locator("[data-chart=timeline] [data-do=all]").click()

    shown.locator("[data-chart=timeline] .u-over").hover(position={"x": 3, "y": 5})

    readout = shown.text_content("[data-chart=timeline] .readout")
    assert readout.startswith("device 0, compute at ")
    assert "exposed for 60 ns" in readout
    assert readout.endswith("; true<0> (60 ns)")


def test_the_timeline_counts_from_the_recording_s_origin(opened):
    page = opened(recording_page(draw(kernels=[(5_000_000_100, 5_000_000_400)])))

    page.locator("[data-chart=timeline] .u-over").hover(position={"x": 0, "y": 5})

    readout = page.text_content("[data-chart=timeline] .readout")
    assert readout.startswith("device 0, compute at 5.000000100 s: exposed for 300 ns")


def test_pointing_at_steps_and_ranges_says_their_names(opened):
    page = opened(recording_page(job([300, 300], steps=4)))
    over = page.locator("[data-chart=timeline] .u-over")

    over.hover(position={"x": over.bounding_box()["width"] / 2, "y": 5})

    readout = page.text_content("[data-chart=timeline] .readout")
    assert readout.startswith("device 0, steps at ")
    assert readout.endswith("step 1, 1.00 µs")
    page.locator("[data-chart=columns] .u-over").hover(position={"x": 5, "y": 50})
    page.wait_for_timeout(80)
    legend = page.locator("[data-chart=columns] .u-legend").inner_text()
    assert "step 0" in legend
    assert "300 ns" in legend


def test_a_link_to_a_table_unfolds_it(opened):
    page = opened()
    assert not page.evaluate("document.getElementById('table-breakdown').open")

    page.click(".caption a[href='#table-breakdown']")

    assert page.evaluate("document.getElementById('table-breakdown').open")
    page.click("#table-breakdown summary")
    page.click(".caption a[href='#table-breakdown']")
    assert page.evaluate("document.getElementById('table-breakdown').open")


def test_a_finding_leads_to_its_place_in_the_timeline(opened):
    page = opened(recording_page(read_profile(STAGED)))
    row = worst_finding(read_profile(STAGED))
    copies = page.locator(".part").first

    assert copies.locator(".cost").inner_text() == "1.38\N{NO-BREAK SPACE}ms"
    copies.get_by_role("button", name="Show in the timeline").click()
    page.wait_for_timeout(100)

    length_ms = 4 * (row["end_ns"] - row["start_ns"]) / 1e6
    assert page.text_content(".sums summary").startswith(f"In sight: {length_ms:.2f} ms, from 1")
    assert page.evaluate("document.activeElement.dataset.chart") == "timeline"


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_a_page_of_a_placement_fits_and_has_no_barrier(opened, width, scheme):
    recorded = ROOT / "sample_logs" / "tensorflow" / "2.21.0" / "deepconn-dual.json"
    page = opened(recording_page(read_profile(recorded)), width, scheme)

    assert width_needed(page) <= width
    assert barriers(page) == []


def test_what_the_timeline_says_stays_in_sight_below_its_beginning(opened):
    page = opened()
    page.set_viewport_size({"width": 1280, "height": 60})

    page.evaluate(
        "() => { const plot = document.querySelector('[data-chart=timeline] .plot');"
        " window.scrollTo(0, plot.getBoundingClientRect().top + window.scrollY + 20); }"
    )

    assert page.locator("[data-chart=timeline] .readout").bounding_box()["y"] >= 0


def test_dark_is_asked_for_by_the_system_or_by_a_button(opened):
    light, dark = opened(), opened(scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"

    assert light.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.evaluate(paper) == "rgb(22, 24, 27)"
    light.click("#theme")
    assert light.evaluate(paper) == dark.evaluate(paper)
    assert light.get_attribute("#theme", "aria-pressed") == "true"


def _needs_no_scrolling(page, width):
    assert width_needed(page) <= width
    assert page.locator("[data-chart=timeline] canvas").bounding_box()["width"] <= width


def test_a_wide_page_needs_no_sideways_scrolling(shown):
    _needs_no_scrolling(shown, 1280)


def test_a_narrow_page_needs_no_sideways_scrolling_and_names_stand_nearer_to_their_bars(opened):
    page = opened(width=400)

    _needs_no_scrolling(page, 400)
    gaps = page.evaluate("""() => {
      const places = (what) => [...document.querySelectorAll(`.bar ${what}`)]
        .map((one) => one.getBoundingClientRect());
      const [names, tracks] = [places(".bar-name"), places(".bar-track")];
      return names.slice(1).map((name, n) => [tracks[n + 1].top - name.bottom,
        name.top - tracks[n].bottom]);
    }""")
    assert gaps
    assert all(gap < gap_between for gap, gap_between in gaps)


def test_fifty_variants_and_names_of_any_length_need_no_sideways_scrolling(opened):
    labels = ["base", *(f"variant {number}" for number in range(48)), "l" * 2_000]
    result = comparison(
        {x: summary(row("k" * 2_000, 1, 1_000 + n, 1.0)) for n, x in enumerate(labels)}
    )

    page = opened(comparison_page(result), width=400)

    verdict = page.locator("h1").inner_text()
    assert verdict.startswith("Against base, variant 46 takes 47\N{NO-BREAK SPACE}ns")
    assert width_needed(page) <= 400


def test_everything_is_reached_by_keyboard_alone(opened):
    page = opened()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "() => { const e = document.activeElement;"
                " return e.id || e.dataset.chart || e.dataset.do || e.tagName; }"
            )
        )

    assert reached[0] == "A"
    assert {"theme", "names", "timeline", "lines", "in", "all", "SUMMARY", "BUTTON"} <= {*reached}


def test_paper_gets_all_tables_in_light(opened):
    page = opened(scheme="dark")

    pdf = page.pdf()

    assert pdf.startswith(b"%PDF")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_paper_cuts_no_chart_and_breaks_no_number(shown):
    width = shown.evaluate("document.querySelector('.plot canvas').clientWidth")

    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    shown.emulate_media(media="print")

    canvases = shown.eval_on_selector_all(
        ".plot canvas", "(all) => all.map((one) => one.getBoundingClientRect().width)"
    )
    assert max(canvases) <= 718  # pixels of A4 between its margins
    breaks = shown.eval_on_selector_all(
        "td.number", "(all) => all.map((one) => getComputedStyle(one).whiteSpace)"
    )
    assert {*breaks} == {"pre"}
    shown.emulate_media(media="screen")
    shown.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert shown.evaluate("document.querySelector('.plot canvas').clientWidth") == width


def test_sizes_of_copies_are_ticked_in_powers_of_two(shown):
    ticks = shown.evaluate("[1, 1000, 4096, 3 * 2 ** 20].map(FORMATS.binary)")

    assert ticks == ["1 B", "1000 B", "4 KiB", "3 MiB"]


def test_ticks_tell_the_next_one_from_the_last_however_deep_one_looks(shown):
    assert shown.evaluate("instants([0, 1e9, 2e9], 1e9)") == ["0 s", "1 s", "2 s"]
    assert shown.evaluate("instants([3.42200e9, 3.422005e9], 5e3)") == ["3.422000 s", "3.422005 s"]
    assert shown.evaluate("instant(1500, 1)") == "1.500 µs"


def test_lines_of_eight_devices_differ_in_colour_or_dash(shown):
    looks = shown.evaluate("[...Array(8).keys()].map((n) => JSON.stringify(lineLook(n)))")

    assert len({*looks}) == 8


def test_axe_finds_no_barrier(opened):
    page = opened()
    # All tables are made alike.
    few = "[...document.querySelectorAll('details')].slice(0, 4)"
    page.evaluate(f"{few}.forEach((d) => {{ d.open = true; }})")

    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert barriers(page, "color-contrast") == []


def _trained(factor):
    """Six steps of 40 kernels, of which one takes longer."""
    steps, kernels, calls = range(0, 6_000_000, 1_000_000), [], []
    for start, place in ((at + place * 20_000, place) for at in steps for place in range(40)):
        length = 10_000 * (factor if place == 30 else 1) - 1_000
        name, call = f"kernel_{place}", {"correlation_id": len(kernels)}
        called = call | {"name": "slow_kernel" if place == 30 else name}
        kernels.append((start, start + length, called))
        calls.append((start, start + 1, call))
    ranges = [(at, at + 999_000, {"text": f"step {at}"}) for at in steps]
    return draw(kernels=kernels, api_calls=calls, nvtx_ranges=ranges)


@cache
def page_of_compared():
    recordings = {"base": _trained(1), "same": _trained(1), "slow": _trained(2)}
    return comparison_page(comparison(recordings, skip_steps=0))


@pytest.fixture
def compared(opened):
    page = opened(page_of_compared())
    page.wait_for_selector("#side-by-side canvas")
    return page


def _in_sight(page):
    """From when to when the steps are shown, by the ticks."""
    return page.evaluate("""() => {
      const chart = document.querySelector("#side-by-side .uplot");
      return [chart.clientHeight, document.querySelector("#side-by-side canvas").toDataURL()];
    }""")


def test_one_chooses_what_is_set_against_the_baseline(compared):
    shown = compared.locator("#side-by-side .largest:not([hidden])")

    assert shown.inner_text() == "No kernel, copy or pause differs by more than it varies."
    compared.select_option("#side-by-side select", label="slow")
    assert shown.locator("li").first.inner_text() == "slow_kernel longer: +10.0 µs in 1 call"
    assert compared.locator("#side-by-side .largest:not([hidden])").count() == 1


def test_a_difference_leads_to_its_place_and_the_pointer_says_both_times(compared):
    compared.select_option("#side-by-side select", label="slow")
    before = _in_sight(compared)

    compared.click("#side-by-side .largest:not([hidden]) li:first-child button")
    compared.wait_for_timeout(100)

    assert _in_sight(compared) != before
    over = compared.locator("#side-by-side .u-over").bounding_box()
    compared.mouse.move(over["x"] + over["width"] / 2, over["y"] + over["height"] * 0.75)
    said = compared.text_content("#side-by-side .readout")
    assert said.startswith("slow, device 0 at 6")
    assert said.endswith("slow_kernel for 19.0 µs; 9.00 µs in base (longer)")


def test_both_steps_zoom_together_by_key_and_names_are_found_in_both(compared):
    compared.focus("#side-by-side .chart")
    before = _in_sight(compared)

    compared.keyboard.press("+")
    compared.wait_for_timeout(100)
    nearer = _in_sight(compared)
    compared.keyboard.press("0")
    compared.wait_for_timeout(100)

    assert before != nearer
    assert _in_sight(compared) == before
    compared.fill("#side-by-side .find input", "slow_k")
    assert compared.text_content("#side-by-side .find .found").startswith("2, 18.0 µs in sum")


def test_axe_finds_no_barrier_in_a_comparison(compared):
    assert barriers(compared) == []
    compared.emulate_media(color_scheme="dark")
    assert barriers(compared, "color-contrast") == []


def test_the_critical_path_is_shown_on_demand_with_its_sums(opened):
    page = opened(recording_page(_trained(1)))
    words, button = page.locator(".path-words"), page.locator("button.path")

    assert not words.is_visible()
    before = page.locator("#timeline .uplot").bounding_box()["height"]
    button.click()
    page.wait_for_timeout(100)

    assert button.get_attribute("aria-pressed") == "true"
    assert words.inner_text().startswith("Critical path per step, ")
    # A lane for the host and its waits comes on top.
    assert page.locator("#timeline .uplot").bounding_box()["height"] == before + 22
    over = page.locator("#timeline .u-over").bounding_box()
    page.mouse.move(over["x"] + over["width"] / 2, over["y"] + 11)
    assert page.text_content("#timeline .readout").startswith("critical path, host, waits at ")
    assert ", on the critical path" in page.text_content("#timeline .readout")
    button.click()
    assert not words.is_visible()


@cache
def page_of_a_prediction():
    recording = _trained(1)
    return prediction_page(predict(recording, ["scale=slow:0.5"]), recording)


def test_a_prediction_is_above_what_it_changes_and_complains_of_nothing(opened):
    page = opened(page_of_a_prediction(), width=400)
    page.wait_for_selector("#step-path canvas")

    page.click("#step-path .largest li:first-child button")

    assert width_needed(page) <= 400
    assert page.said == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_a_page_of_a_prediction_has_no_barrier_and_is_moved_by_keys(opened, width, scheme):
    page = opened(page_of_a_prediction(), width, scheme)
    page.wait_for_selector("#step-path canvas")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")

    assert barriers(page) == []
    drawn = "document.querySelector('#step-path canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.focus("#step-path [tabindex='0']")
    page.keyboard.press("+")
    page.wait_for_timeout(100)
    assert page.evaluate(drawn) != before
