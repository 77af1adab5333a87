"""Names from a recording steer no terminal, no spreadsheet, no markdown and no page.

Whoever writes a program, or a file, chooses the names of kernels, ranges, tensors and devices, the
command, the tool's version and the name of the file itself.
"""

import csv
import html
import io
import json
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from html_elements import Elements
from recordings import trace

from gpuprof.analyses.reports import report
from gpuprof.comparisons import comparison
from gpuprof.model.origin import Origin
from gpuprof.show import Page, renderer_named
from gpuprof.show.cells import clean
from gpuprof.show.csv import rows_text
from gpuprof.show.page.recording_page import recording_page

NAMES = {
    "formula": '=HYPERLINK("http://x";"y")',
    "plus": "+1+cmd|' /C calc'!A0",
    "minus": "-2+3",
    "at": "@SUM(1,2)",
    "tab": "\t=1+1",
    "return": "\r=1+1",
    "escape": "\x1b]0;title\x07\x1b[31mred",
    "c1": "\x9b31mred\x85next",
    "bidi": "a\u202eb\u2066c\u200fd\u061ce\u2069",
    "lines": "one\u2028two\nthree\rfour",
    "pipe": "a|b`c`*d*_e_[f](g)<b>h</b>",
    "page": "</script><script>alert(1)</script><!-- --> ]]>",
    "links": "@octocat $x$ `$y$` https://example.org/x www.x.org _ftp://x a@b.c #12 ~~d~~",
    "entity": "&lt;b&gt; &amp; \"'",
}
# What steers a terminal, ends a line for it, or turns the direction of the text around it.
STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# What the first character of a cell must not be, or a spreadsheet computes it.
COMPUTES = re.compile(r"[=+\-@\t\r]")


def recording(name):
    """A recording in which every text is this name, but for words of the data model."""
    place = {"device_id": 0, "stream_id": 7, "process_id": 9, "correlation_id": 1}
    copy = {"memcpy_kind": "HtoD", "src_memory_kind": "pageable", "bytes": 1000}
    tensor = {"src_device": name, "dst_device": f"{name}2", "calls": 2, "bytes": 8}
    profile = trace(
        kernels=[{"start_ns": 0, "end_ns": 9, "name": name, **place}],
        memcpys=[{"start_ns": 10, "end_ns": 19, **copy, **place}],
        api_calls=[{"start_ns": 0, "end_ns": 5, "name": name, "api": "runtime", "process_id": 9}],
        nvtx_ranges=[{"start_ns": 0, "end_ns": 20, "text": name, "domain": name, "process_id": 9}],
        devices=[{"device_id": 0, "name": name, "compute_capability": name, "bus_id": name}],
        links=[{"device_id": 0, "link": name, "bytes_per_s": 1}],
        runs=[{"run_id": 0, "process_id": 9, "command": name}],
        tensor_copies=[{"tensor": name, "function": name, "src_operation": name, **tensor}],
        operations=[{"operation": name, "device": name, "requested_device": f"{name}1"}],
        functions=[{"function": name, "executions": 3, "is_step": True}],
        overheads=[{"start_ns": 0, "end_ns": 15, "source": "cuda", "name": name}],
    )
    origin = Origin(Path(f"run{name}".replace("/", "")), name, name, name, name, name, name,
                    variant=name, warnings=(name,))  # fmt: skip
    return replace(profile, origin=origin)


@cache
def reported(name):
    return report(recording(name))


@cache
def compared(name):
    hostile, candidate = recording(name), recording(f"{name}!")
    return comparison({name: hostile, f"b{name}": candidate})


@pytest.fixture(params=[*NAMES])
def name(request):
    return NAMES[request.param]


@pytest.fixture(params=["report", "comparison"])
def render(request, name):
    """What one form makes of a report, or of a comparison, with hostile names."""

    def text(form, tables=None):
        page = Page(width=200, tables=tables)
        if request.param == "comparison":
            return renderer_named(form).comparison(compared(name), page)
        return renderer_named(form).report(reported(name), page)

    return text


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv", "json"])
def test_no_form_steers_a_terminal(render, form):
    text = render(form)

    assert [hex(ord(character)) for character in STEERS.findall(text)] == []


def cells(text):
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_no_cell_of_a_spreadsheet_is_computed(render):
    formulas = [cell for cell in cells(render("csv")) if COMPUTES.match(cell)]

    assert [cell for cell in formulas if not is_number(cell)] == []


@pytest.mark.parametrize("table", ["top_activities", "ranges", "tensor_transfers", "device_map"])
def test_no_cell_of_a_table_of_names_is_computed(name, table):
    text = renderer_named("csv").report(reported(name), Page(tables=(table,)))

    table_cells = cells(text)
    assert any(clean(name) in cell for cell in table_cells)
    assert [cell for cell in table_cells if COMPUTES.match(cell) and not is_number(cell)] == []


def test_numbers_of_a_spreadsheet_stay_numbers():
    rows = [{"a": -5, "b": -0.5, "c": "-5", "d": " =1", "e": "a=1", "f": None, "g": True}]

    assert rows_text([*rows[0]], rows) == "a,b,c,d,e,f,g\n-5,-0.5,'-5,' =1,a=1,,True\n"


def test_json_gives_names_as_they_are(name):
    text = renderer_named("json").report(reported(name), Page())

    assert json.loads(text)["origin"]["command"] == name


def test_markdown_keeps_its_columns_and_shows_names_as_they_are(render):
    columns = None
    for line in render("markdown").split("\n"):
        line = line.replace("<!-- -->", "").replace("<span>$</span>", "")  # noqa: PLW2901 - ours
        if line.startswith("<details>"):  # HTML, up to the next empty line.
            assert html.escape(html.unescape(line[18:-10])) == line[18:-10]
            continue
        bars = len(re.findall(r"(?<!\\)\|", line))
        columns = (columns or bars) if line.startswith("| ") else None
        assert bars in {0, columns}, line
        assert not re.search(r"(?<!\\)`", line), line
        assert not re.search(r"(?<!\\)<(?!/?(?:details|summary)>)", line), line


# What GitHub links, mails to, or sets as a formula, whether escaped or not.
ACTIVE = re.compile(r"@\w|#\d|(?<!<span>)\$|(?<![A-Za-z0-9])(?:(?:https?|ftp):/|www\.)")


@pytest.mark.parametrize(("form", "made"), [("report", reported), ("comparison", compared)])
def test_markdown_links_no_name_of_a_recording(form, made):
    text = getattr(renderer_named("markdown"), form)(made(NAMES["links"]), Page(width=200))

    assert "octocat" in text
    assert ACTIVE.findall(text) == []


@cache
def plain_elements():
    return Elements(recording_page(recording("x" * 60)))


def test_a_page_holds_no_element_of_a_name(name):
    plain, hostile = plain_elements(), Elements(recording_page(recording(name)))
    tags, of_plain = (Counter(tag for tag, _ in page.tags) for page in (hostile, plain))
    attributes, plain_ones = ({*chain(*(a for _, a in page.tags))} for page in (hostile, plain))

    assert tags["script"] == of_plain["script"]
    assert tags.keys() - {"wbr"} <= of_plain.keys()
    assert attributes <= plain_ones
    assert not hostile.comments
