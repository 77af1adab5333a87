import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import accumulate

import hostile
import pyarrow.compute as pc
import pytest
from commands import DUAL, ROOT, SINGLE, gpuprof
from drawing import draw, stepped
from drawn_jobs import job
from html_elements import Elements
from recordings import DUAL as DUAL_ROWS
from recordings import kernel, row, summary, trace
from tensorflow_runs import copy as tensor_copy
from tensorflow_runs import document, written

from gpuprof.analyses.lanes import LANES
from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile
from gpuprof.show.charts.timeline import intervals
from gpuprof.show.notebook import comparison_summary
from gpuprof.show.page.comparison_page import comparison_page, figures
from gpuprof.show.page.figures import used
from gpuprof.show.page.recording_page import recording_page


@pytest.fixture(scope="module")
def page():
    return recording_page(hostile.recording())


def test_only_the_page_s_own_script_and_style_may_run(page):
    elements = Elements(page)

    (policy,) = [a["content"] for t, a in elements.tags if t == "meta" and a.get("http-equiv")]
    ids = [
        (tag, text)
        for tag, attrs, text in elements.scripts
        if attrs.get("type") != "application/json"
    ]
    assert [tag for tag, _ in ids] == ["style", "script"]
    for tag, text in ids:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_a_page_needs_nothing_else(page):
    tags = Elements(page).tags

    assert not [a for _, a in tags if a.keys() & {"src", "action", "data", "style", "srcset"}]
    links = {a["href"] for _, a in tags if "href" in a}
    assert links > {"#content"}
    assert links <= {f"#{a['id']}" for _, a in tags if "id" in a}


def test_data_of_charts_are_json(page):
    data = [t for _, a, t in Elements(page).scripts if a.get("type") == "application/json"]

    assert [sorted(json.loads(text)) for text in data] == [
        ["first", "lanes", "length", "names", "slices", "unit"],
        ["series", "stepped", "x", "y"],
        ["series", "x", "y"],
        [
            "label",
            "labels",
            "levels",
            "mark",
            "names",
            "note",
            "pale",
            "quantity",
            "ranges",
            "series",
        ],
    ]


def test_the_bottom_line_comes_first(page):
    headings = re.findall(r"<h([1-3])[^>]*>(.*?)</h\1>", page)

    assert headings[0][0] == "1"
    assert headings[0][1].startswith("The recording of device 0 spans")
    assert page.index("<h1>") < page.index('<table class="sortable"')


def _headline(page):
    heading = re.search(r"<h1>(.*?)</h1>", page)[1].replace("\N{NO-BREAK SPACE}", " ")
    return re.sub("</?strong>", "", heading)


def test_a_summary_leads_with_what_its_time_goes_to():
    assert _headline(recording_page(summary(*DUAL_ROWS))).startswith(
        "GPU activities take 50.3 s, summed over devices: 74.0 % compute, 20.1 % copies between"
    )


def test_a_trace_of_kernels_alone_leads_with_what_takes_most_of_what_is_listed():
    page = recording_page(trace(kernels=[kernel("conv", 0, 30), kernel("gemm", 40, 50)]))

    assert _headline(page) == "conv takes the most time of the listed activities: 30 ns"


def test_a_recording_without_times_names_no_costliest_activity(tmp_path):
    moved = tensor_copy("gradient_tape/tower/x", 2_000_000, is_gradient=True)

    page = recording_page(read_profile(written(tmp_path, document(moved))))

    assert _headline(page) == (
        "A step copies 2.00 MB between devices in 1 copy (10 steps), 100 % of it for gradients."
    )


def test_what_the_placement_costs_comes_first():
    path = ROOT / "sample_logs" / "tensorflow" / "2.21.0" / "deepconn-dual.json"

    page = recording_page(read_profile(path))

    assert _headline(page).startswith("A step copies 26.6 MB between devices in 16 copies")
    assert page.index("1. Gradients of item_tower run on CPU:0") < page.index("<table")
    assert 'id="table-placement_edges"' in page


def test_bytes_per_step_are_drawn_where_no_time_is_known(tmp_path):
    profiles = {}
    for label, copies in {
        "one": [],
        "two": [tensor_copy("a/x", 2_000_000, is_gradient=True)],
    }.items():
        (tmp_path / label).mkdir()
        profiles[label] = read_profile(written(tmp_path / label, document(*copies)))

    page = comparison_page(comparison(profiles))

    assert re.findall(r'<section class="figure" id="([^"]*)"', page) == ["bytes"]
    assert "two: for gradients 2.00 MB (100 %)" in page


def test_what_is_not_known_and_where_it_comes_from_are_said():
    page = recording_page(summary(*DUAL_ROWS, source="logs/dual.txt"))

    assert "findings, breakdown, phases, " in page
    assert "lane" not in page[page.index('id="notes-title"') : page.index('id="provenance-title"')]
    assert "<dt>File</dt><dd>logs/dual.txt</dd>" in page
    assert 'data-chart="' not in page[: page.index("<script>")]


def _ids(page):
    return {attrs["id"] for _, attrs in Elements(page).tags if "id" in attrs}


def _links(page):
    return {attrs["href"] for tag, attrs in Elements(page).tags if tag == "a"}


def test_findings_link_to_the_tables_that_they_name():
    names = ["cudaMalloc", "cudaStreamSynchronize"]
    kernels, calls = [(0, 100_000, {"name": "first"})], []
    for number, name in enumerate(names, start=1):
        at, launch = number * 300_000, {"correlation_id": number}
        kernels.append((at, at + 100_000, {"name": name} | launch))
        calls.append((at - 190_000, at - 30_000, {"name": name}))
        calls.append((at - 10_000, at - 9_000, launch))

    page = recording_page(draw(kernels=kernels, api_calls=calls))

    verdict = page[page.index('aria-label="Verdict"') : page.index('<section class="figure"')]
    named = re.findall(r'<a href="#(table-\w+)">', verdict)
    assert named
    assert {*named} <= _ids(page)
    # A table that pages of recordings without such a finding do not have.
    assert "table-pauses" in named
    assert "--table" not in verdict


def test_a_link_that_a_recording_makes_up_is_text():
    named = draw(kernels=[(0, 10, {"name": "--table nothing --table totals <b>"})])

    page = recording_page(named)

    assert _links(page) <= {f"#{name}" for name in _ids(page)}
    assert "<b>" not in page


def test_tables_have_a_title_in_words_with_the_key_beside_it(page):
    heading = re.search(
        r'<details[^>]*id="table-kernel_summary"[^>]*>\s*<summary>(.*?)</summary>', page
    )

    assert "<h3>Kernels by name</h3>" in heading[1]
    assert '<code class="table-name">kernel_summary</code>' in heading[1]


def test_columns_say_their_unit_in_words(page):
    titles = re.findall(r'<th scope="col"[^>]*title="([^"]*)"', page)

    assert "How often. In CSV and JSON: calls." in titles
    assert any(title.endswith("In CSV and JSON: total_ns, in nanoseconds.") for title in titles)
    assert not any("[ns]" in title or "[B" in title for title in titles)


def _headings(page):
    return {*re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)}


def test_rates_are_per_second_and_steps_stay_steps(page):
    placed = read_profile(ROOT / "sample_logs/tensorflow/2.21.0/deepconn-dual.json")

    assert "Bytes per second" in _headings(page)
    assert {"Bytes per step", "Calls per step"} <= _headings(recording_page(placed))


def _figures(page):
    return re.findall(r'<section class="figure" id="([^"]*)"', page)


def test_transfers_below_one_percent_of_the_time_have_a_sentence_and_no_chart():
    page = recording_page(draw(kernels=[(0, 10_000)], memcpys=[(0, 50, {"bytes": 8})]))

    assert "Device 0 transfers 0.5\N{NO-BREAK SPACE}% of the time, more than any other" in page
    assert 'class="matrix"' not in page
    assert "copy-sizes" not in _figures(page)
    much = recording_page(draw(kernels=[(0, 10_000)], memcpys=[(0, 200, {"bytes": 8})]))
    assert 'class="matrix"' in much
    assert "copy-sizes" in _figures(much)


def test_steps_are_drawn_as_columns_of_the_busiest_device():
    page = recording_page(job([300, 400], steps=6))

    assert "steps" in _figures(page)
    assert 'id="table-steps"' not in page
    data = json.loads(re.search(r'id="data-steps">(.*?)</script>', page)[1])
    assert data["labels"] == [str(n) for n in range(6)]
    assert {part["label"] for part in data["series"]} >= {"compute", "exposed communication"}
    assert "steps" not in _figures(recording_page(draw(kernels=[(0, 10)])))


def test_copies_are_points_beside_the_line_of_their_fit():
    sizes = 1_024, 4_096, 65_536, 1_048_576
    copies = [
        (n * 10**6, n * 10**6 + 1_000 + size // 10, {"bytes": size}) for n, size in enumerate(sizes)
    ]

    page = recording_page(draw(memcpys=copies))

    data = json.loads(re.search(r'id="data-copy-sizes">(.*?)</script>', page)[1])
    assert [series.get("has_points") for series in data["series"]] == [True, None]


def test_a_part_that_only_some_steps_have_is_drawn():
    page = recording_page(stepped(*[100_000] * 6, idle_ns=50_000, memcpys=[(60_000, 80_000)]))

    data = json.loads(re.search(r'id="data-steps">(.*?)</script>', page)[1])
    heights = {part["label"]: part["values"] for part in data["series"]}
    assert heights["exposed transfers"] == [20_000, 0, 0, 0, 0, 0]
    assert heights.keys() == {"compute", "exposed transfers", "idle"}


def test_kernels_are_drawn_as_bars_with_share_and_calls():
    page = recording_page(draw(kernels=[(0, 30), (40, 50, {"name": "void relu(float*)"})]))

    assert "matmul takes 75.0\N{NO-BREAK SPACE}% of the kernel time" in page
    assert "<li>matmul: 30 ns, 75.0 %, 1 call</li>" in page
    assert "<li>relu: 10 ns, 25.0 %, 1 call</li>" in page


def test_a_summary_has_bars_of_its_kernels():
    assert _figures(recording_page(summary(*DUAL_ROWS))) == ["kernels"]


def test_a_tensorflow_page_shows_the_placement():
    page = recording_page(read_profile(ROOT / "sample_logs/tensorflow/2.21.0/deepconn-dual.json"))

    assert _figures(page) == ["placement"]
    drawn = page[page.index('<svg class="placement"') : page.index("copies for gradients</span>")]
    assert '<text class="name-device" x="7.0" y="17.0">CPU:0</text>' in drawn
    assert "user_convolution</text>" in drawn
    assert drawn.count('class="copy copy-') == 10
    assert drawn.count('class="copy copy-forward"') == 2
    assert "13.1 MB</text>" in drawn
    assert 'id="table-placement_edges" open' in page


def _many_names(count, first=0):
    names = (f"kernel_{n}" for n in range(first, count))
    return draw(kernels=[(10 * n, 10 * n + 5, {"name": name}) for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("page", "command"),
    [
        pytest.param(
            lambda: recording_page(_many_names(1_000)),
            "gpuprof report FILE --table kernel_summary --format csv",
            id="recording",
        ),
        pytest.param(
            lambda: comparison_page(
                comparison({"a": _many_names(1_000), "b": _many_names(1_000, first=1)})
            ),
            "gpuprof compare FILES --kernels --format csv",
            id="comparison",
        ),
    ],
)
def test_a_long_table_names_the_command_that_gives_it_whole(page, command):
    text = page()

    assert "1,000 rows" in text
    assert f"600 more rows are not on this page; <code>{command}</code> has them all" in text


def test_eight_devices_and_many_events_stay_below_3_mb():
    kernels = [
        (n * 50 + device, n * 50 + 37 + device, {"device_id": device, "name": f"k{n % 300}" * 20})
        for device in range(8)
        for n in range(12_000)
    ]

    assert len(recording_page(draw(kernels=kernels)).encode()) < 3_000_000


def _lanes(*times, slice_ns):
    rows = [
        {"device_id": 0, "lane": "compute", "is_exposed": True, "start_ns": start, "end_ns": end,
         "busy_ns": busy, "slice_ns": slice_ns}
        for start, end, busy in times
    ]  # fmt: skip
    return intervals(LANES.table(rows))


def test_lanes_are_packed_without_loss():
    assert _lanes((1_000, 1_010, 10), (1_064, 1_100, 20), slice_ns=64) == {
        "first": 1_000,
        "length": 100,
        "slices": [64, 64],
        "unit": 1,
        "names": [],
        "lanes": [
            {
                "device": 0,
                "owner": "device 0",
                "kind": "compute",
                "lane": "compute",
                "name": "compute",
                "exposed": [0, 10, 0, 54, 36, 16],
                "hidden": [],
            }
        ],
    }


def test_each_lane_has_its_own_parts():
    rows = [
        {"device_id": 0, "lane": lane, "is_exposed": is_exposed, "start_ns": start,
         "end_ns": start + 10, "busy_ns": 5, "slice_ns": 64}
        for lane, is_exposed, starts in (
            ("compute", True, (0, 20)), ("HtoD", False, (40, 60)), ("HtoD", True, (80,)),
        )
        for start in starts
    ]  # fmt: skip

    lanes = intervals(LANES.table(rows))["lanes"]

    assert [(lane["lane"], lane["exposed"], lane["hidden"]) for lane in lanes] == [
        ("compute", [0, 10, 5, 10, 10, 5], []),
        ("HtoD", [80, 10, 5], [40, 10, 5, 10, 10, 5]),
    ]


def test_kernels_and_ranges_are_named_by_their_places():
    lane = {"device_id": 0, "lane": "compute"}
    table = LANES.table(
        [lane | {"is_exposed": True, "start_ns": 100, "end_ns": 160, "busy_ns": 60, "slice_ns": 1}]
    )
    kernels = [
        lane | {"start_ns": 100, "end_ns": 130, "name": "gemm", "kernels": 1},
        lane | {"start_ns": 120, "end_ns": 160, "name": "relu" * 80, "kernels": 3},
    ]
    ranges = [
        {"device_id": 0, "level": 0, "start_ns": 100, "end_ns": 160, "text": "step 0"},
        {"device_id": 0, "level": 1, "start_ns": 110, "end_ns": 150, "text": "gemm"},
    ]

    data = intervals(table, kernels, ranges)

    steps, named, compute = data["lanes"]
    assert (steps["name"], steps["marks"]) == ("steps", [0, 60, 2])
    assert (named["name"], named["marks"]) == ("NVTX ranges", [10, 40, 0])
    assert compute["kernels"] == [0, 30, 0, 1, 20, 40, 1, 3]
    assert data["names"][::2] == ["gemm", "step 0"]
    assert data["names"][1] == "relu" * 39 + "re.."


def test_what_is_rounded_does_not_drift():
    times = [(n * 1_001, n * 1_001 + 400, 100) for n in range(1_000)]

    lanes = _lanes(*times, slice_ns=1_280)

    flat = lanes["lanes"][0]["exposed"]
    place = sum(flat[0::3]) + sum(flat[1::3])
    assert lanes["unit"] == 10
    assert place * 10 == pytest.approx(times[-1][1], abs=10)
    assert min(flat) >= 0


def test_a_comparison_shows_its_verdict_and_what_the_difference_is_made_of():
    slow = [(0, 100), (200, 300, {"name": hostile.SCRIPT})]
    result = comparison({"one": draw(kernels=[(0, 100)]), hostile.IMAGE: draw(kernels=slow)})

    page = comparison_page(result)

    assert "<img" not in page
    assert page.index("<h1>") < page.index("From one to ") < page.index("Where each variant")
    assert "&lt;img src=x" in re.search(r"<h1>(.*?)</h1>", page)[1]


def test_a_comparison_shows_labels_without_what_they_have_in_common():
    page = comparison_page(
        comparison({f"runs/{n}.sqlite": draw(kernels=[(0, ns)]) for n, ns in (("a", 9), ("b", 5))})
    )

    assert re.findall(r'<span class="bar-name">(.*?)</span>', page)[:2] == ["a", "b"]
    assert _cells(page, "overview")[0] == ["Figure", "a", "b", "Change"]
    assert '<h2 id="waterfall-0-title">From a to b</h2>' in page
    # In full where each recording comes from.
    assert "<dt>runs/<wbr>b.sqlite</dt>" in page or "<dt>runs/b.sqlite</dt>" in page


@pytest.mark.parametrize(("other_ns", "is_drawn"), [(10_050, False), (10_200, True)])
def test_differences_below_one_percent_have_a_sentence_and_no_chart(other_ns, is_drawn):
    one, two = (draw(kernels=[(0, ns)], memcpys=[]) for ns in (10_000, other_ns))

    page = comparison_page(comparison({"one": one, "two": two}))

    waterfall = page[page.index('id="waterfall-0"') : page.index('id="variants"')]
    assert ("no part differs by 1" in waterfall) is not is_drawn
    assert ("bar-track" in waterfall) is is_drawn
    assert 'href="#table-split"' in waterfall


@pytest.mark.parametrize(
    ("verdict", "parts"),
    [
        ("b takes 5 ms more: idle, time grew.", "Idle, time grew."),
        ("b does more work than a: flash_fwd runs 60 times.", "flash_fwd runs 60 times."),
    ],
)
def test_parts_of_a_verdict_begin_with_a_capital_unless_a_name_does(verdict, parts):
    result = comparison({name: draw(kernels=[(0, 9)], memcpys=[]) for name in "ab"})

    assert f">{parts}<" in comparison_page(replace(result, verdict=verdict))


def test_the_page_of_a_run_that_was_only_timed_shows_its_epochs():
    page = recording_page(summary(epochs=[{"epoch": 0, "seconds": 1.5, "steps": 3}]))

    assert _cells(page, "marked_epochs")[1][:2] == ["0", "1.500 s"]
    assert "marked_epochs" not in recording_page(draw(kernels=[(0, 9)], memcpys=[]))


def _cells(page, table):
    """Texts of a table's cells, row by row."""
    block = re.search(rf'<table class="sortable" id="rows-{table}">(.*?)</table>', page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", block[1], re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


@pytest.fixture(scope="module")
def compared():
    copy = (0, 1_000, {"bytes": 4_000})
    two = draw(kernels=[(1_000, 3_000)] * 3, memcpys=[copy, copy])
    recording = draw(kernels=[(1_000, 2_000, {"name": "other"})], memcpys=[copy])
    return comparison_page(comparison({"one": recording, "two": two}))


def test_figures_of_any_metric_stand_in_its_unit(compared):
    figures = {row[1]: row[2:6] for row in _cells(compared, "differences")}

    assert figures["kernel_ns"] == ["1.000 µs", "6.000 µs", "5.000 µs", "+500.0 %"]
    assert figures["transfer_bytes"] == ["4.000 KB", "8.000 KB", "4.000 KB", "+100.0 %"]
    assert figures["kernel_calls"] == ["1", "3", "2", "+200.0 %"]
    (of_kernels,) = [row for row in _cells(compared, "figures") if row[:2] == ["two", "kernel_ns"]]
    assert of_kernels[3:] == ["6.000 µs"] * 3
    (outcome,) = _cells(compared, "outcomes")[1:]
    assert outcome[2:7] == ["span_ns", "2.000 µs", "3.000 µs", "1.000 µs", "+50.0 %"]


def test_calls_are_counts_and_no_shares(compared):
    cells = {cell for row in _cells(compared, "kernels")[1:] for cell in row}

    assert {"1", "3"} <= cells
    assert "300.00 %" not in cells


def test_the_time_by_the_clock_comes_first_and_adds_up(compared):
    figures = re.findall(r'<section class="figure" id="([^"]*)"', compared)
    clock = compared[compared.index('id="clock"') : compared.index('id="side-by-side"')]

    assert figures == ["clock", "side-by-side", "waterfall-0", "variants"]
    assert re.findall(r"<li>(.*?)</li>", clock) == [
        "one: compute 1.00 µs (50.0 %)",
        "one: exposed copies and memsets 1.00 µs (50.0 %)",
        "two: compute 2.00 µs (66.7 %)",
        "two: exposed copies and memsets 1.00 µs (33.3 %)",
    ]


def test_the_time_by_the_clock_is_that_of_the_verdict():
    """The steps of one side are uneven: their mean is longer than their median."""

    def steps(*lengths):
        copies = [(end - 100, end - 50) for end in accumulate(lengths)]
        return stepped(*lengths, idle_ns=100, memcpys=copies)

    result = comparison({"even": steps(*[1_000] * 9), "uneven": steps(*[800, 800, 800, 1_200] * 5)})
    page = comparison_page(result)

    clock = page[page.index('id="clock"') : page.index('id="waterfall-0"')]
    assert "uneven takes 200 ns (20.0 %) less per step" in result.verdict
    assert re.findall(r'<span class="bar-figure">(.*?)</span>', clock) == ["1.00 µs", "800 ns"]
    parts = {
        (row["part"], side): row[f"{side}_ns"]
        for row in result.split.to_pylist()
        for side in ("baseline", "candidate")
        if row["basis"] == "exposed"
    }
    assert re.findall(r"<li>uneven: (.*?) ns", clock) == [
        f"compute {parts['kernels_common', 'candidate']}",
        f"exposed copies and memsets {parts['HtoD', 'candidate']}",
        f"idle {parts['idle', 'candidate']}",
    ]
    summary = comparison_summary(result)
    assert summary.figures[0].shown.figures == ["1.00 µs", "800 ns"]


def test_a_variant_without_parts_has_no_idle_time():
    """A summary beside traces has no clock; a trace that lacks kernels has no parts."""
    one, two = (draw(kernels=[(0, ns)], memcpys=[]) for ns in (1_000, 1_500))
    result = comparison({"one": one, "two": two, "log": summary(row("conv", 1, 500, 1.0))})

    (clock, *_) = figures(result)

    assert clock.shown.figures == ["1.00 µs", "1.50 µs", "n/a"]
    assert [part.bar for part in clock.shown.parts] == [0, 1]
    split = result.split.filter(pc.not_equal(result.split["variant"], "two"))
    (clock, *_) = figures(replace(result, split=split))
    assert [(part.bar, part.look.kind) for part in clock.shown.parts] == [
        (0, "unknown"),
        (1, "unknown"),
    ]
    assert [look.name for look in used(clock.shown)] == ["of unknown parts"]


def test_waterfalls_of_a_page_have_one_axis_and_show_where_it_is_broken():
    baseline = draw(kernels=[(0, 100_000)])
    runs = {
        label: draw(kernels=[(0, 100_000)], memcpys=[(100_000, 100_000 + ns)])
        for label, ns in (("little", 1_500), ("more", 9_000))
    }
    result = comparison({"one": baseline, **runs})
    first, second = [figure for figure in figures(result) if figure.name.startswith("waterfall")]

    assert first.shown.parts[0] == second.shown.parts[0]
    assert (first.shown.first, first.shown.end) == (second.shown.first, second.shown.end)
    assert [part.start < first.shown.first for part in first.shown.parts] == [True, False, True]
    assert "; the axis begins at 95.5 µs. Totals are cut at the strokes." in first.caption
    assert comparison_page(result).count('class="cut"') == 4
    fast = comparison({"one": baseline, "fast": draw(kernels=[(0, 10_000)])})
    assert 'class="cut"' not in comparison_page(fast)


def test_changes_stand_in_a_column_of_their_own(compared):
    rows = _cells(compared, "overview")

    assert rows[0] == ["Figure", "one", "two", "Change"]
    assert ["Kernels", "1.000 µs", "6.000 µs", "+500.0 %"] in rows


def test_long_names_break_where_their_words_do():
    labels = ["dual-colocated_v2", "x" * 2_000]
    page = comparison_page(comparison({n: draw(kernels=[(0, len(n))]) for n in labels}))

    names = re.findall(r'<span class="bar-name">(.*?)</span>', page)
    assert names[0] == "dual-<wbr>colocated_<wbr>v2"
    assert max(map(len, names)) < 200


def test_comparisons_of_excerpts_have_no_waterfall(tmp_path):
    completed = gpuprof("compare", SINGLE, DUAL, "--html", tmp_path / "a.html")

    text = (tmp_path / "a.html").read_text()
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "From single to dual" not in text
    assert completed.stdout.startswith("By the totals")


def test_a_page_that_exists_is_kept(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("mine")

    refused = gpuprof("report", DUAL, "--html", page)

    assert refused.returncode == 1
    assert "exists already" in refused.stderr
    assert page.read_text() == "mine"


def _of_devices(count):
    kernels = [(0, 100 + device, {"device_id": device}) for device in range(count)]
    return draw(kernels=kernels, memcpys=[(190, 200, {"device_id": d}) for d in range(count)])


def test_of_many_devices_sixteen_are_drawn_and_the_tables_have_all():
    page = recording_page(_of_devices(40), ("breakdown",))

    drawn = re.search('<section class="figure" id="breakdown".*?</section>', page, re.DOTALL)[0]
    assert re.findall('bar-name">device <wbr>(\\d+)', drawn) == [
        *map(str, (*range(8), *range(32, 40)))
    ]
    lanes = json.loads(re.search('id="data-timeline">(.*?)</script>', page)[1])["lanes"]
    assert {lane["device"] for lane in lanes} == {*range(8), *range(32, 40)}
    words = "Shown: the 8 busiest and the 8 least busy of 40 devices."
    words = f"{words} gpuprof report --device N --html shows device N alone."
    captions = re.findall('<p class="caption">([^<]*)', page)
    assert [words in caption for caption in captions].count(True) == 3
    table = re.search('id="rows-breakdown".*?</table>', page, re.DOTALL)[0]
    assert table.count("<tr>") == 1 + 40


def test_of_few_devices_all_are_drawn():
    page = recording_page(_of_devices(16))

    assert "busiest" not in page
    assert len(re.findall('bar-name">device', page)) == 16


def test_tables_of_pages_have_labels_in_place_of_keys():
    page = recording_page(read_profile(ROOT / "gpuprof/docs/recordings/staged.gpuprof"))
    totals = re.search('id="rows-totals".*?</table>', page, re.DOTALL)[0]

    assert ">PtoP through the host<" in totals
    assert ">peer transfers<" in totals
    assert ">PtoP_staged<" not in totals


def test_parts_of_a_difference_have_labels_in_place_of_keys():
    names = {"a": "PtoP", "b": "HtoD"}
    page = comparison_page(
        comparison(
            {
                label: draw(kernels=[(0, 10)], memcpys=[(10, 20, {"memcpy_kind": kind})])
                for label, kind in names.items()
            }
        )
    )

    split = re.search('id="rows-split".*?</table>', page, re.DOTALL)[0]
    assert ">common kernels<" in split
    assert ">kernels_common<" not in split


def _many_steps(count):
    return job([300], steps=count)


def _many_devices(count):
    return job([300 + n % 7 for n in range(count)], steps=4)


@pytest.mark.parametrize(
    ("drawn", "many", "more"),
    [
        pytest.param(_many_names, 8_000, 16_000, id="names"),
        pytest.param(_many_devices, 150, 300, id="devices"),
        pytest.param(_many_steps, 16_000, 32_000, id="steps"),
    ],
)
def test_twice_as_much_makes_a_large_page_hardly_larger(drawn, many, more):
    large, larger = (len(recording_page(drawn(count)).encode()) for count in (many, more))

    # Lanes are cut at powers of two, hence not evenly.
    assert larger < 1.7 * large
    assert larger < 3_000_000
