"""The fragment that a notebook shows: self-contained, escaped, cut where it is long."""

from html.parser import HTMLParser

import pytest
from drawing import draw

import gpuprof
from gpuprof.show.notebook import Summary, summary_html, summary_text
from gpuprof.show.overview import Grid

HOSTILE = '<script>alert("x")</script>\x1b[31m\u202e & <b>'
VOID = {"br", "img", "hr", "meta", "input"}


class _Reader(HTMLParser):
    """The elements and the text of a fragment; fails where an element is not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


def read(fragment):
    reader = _Reader()
    reader.feed(fragment)
    assert reader.open == []
    return reader


def test_names_of_a_recording_are_text_and_nothing_is_run_or_loaded():
    grid = Grid(HOSTILE, (HOSTILE, "Total"), ((HOSTILE, "1 ms"),))
    summary = Summary(
        HOSTILE,
        HOSTILE,
        ((HOSTILE, ((HOSTILE, HOSTILE, HOSTILE),)),),
        (),
        (grid,),
        (HOSTILE,),
        (HOSTILE,),
    )

    page = read(summary_html(summary))

    names = {name for name, _ in page.elements}
    attributes = {name for _, attributes in page.elements for name in attributes}
    assert not names & {"script", "img", "link", "iframe", "b"}
    assert not {name for name in attributes if name.startswith("on") or name in {"src", "href"}}
    assert page.text.count('<script>alert("x")</script>') == 11
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_a_kernel_s_name_is_escaped_in_a_report_s_fragment():
    result = gpuprof.report(draw(kernels=[(0, 100, {"name": "<img src=x onerror=alert(1)>"})]))

    assert not [name for name, _ in read(result._repr_html_()).elements if name == "img"]


def test_long_tables_are_cut_and_say_so():
    rows = tuple((f"kernel {number}", "1 ms") for number in range(30))

    page = read(summary_html(Summary("x", grids=(Grid("Kernels", ("Name", "Total"), rows),))))

    assert sum(name == "tr" for name, _ in page.elements) == 1 + 12
    assert "12 of 30 rows are shown." in page.text


def test_of_many_devices_those_are_shown_that_the_sentences_name():
    # The last device computes most, which the first sentence says.
    kernels = [(0, 100 + 10 * n, {"device_id": n, "name": "matmul"}) for n in range(20)]
    result = gpuprof.report(draw(kernels=kernels))

    text = read(result._repr_html_()).text

    assert "device 19" in result.bottom_line
    assert "8 of 20 bars are shown." in text
    assert text.index("device 19", text.index("Where each device's time went")) < text.index(
        "device 0", text.index("Where each device's time went")
    )


def test_the_first_sentence_stands_out_and_the_first_table_is_open():
    grids = tuple(Grid(title, ("Name",), (("x",),)) for title in ("One", "Two"))

    page = read(summary_html(Summary("x", "First one. Second one. Third.", grids=grids)))

    details = [attributes for name, attributes in page.elements if name == "details"]
    assert [("open" in attributes) for attributes in details] == [True, False]
    assert "First one." in page.text
    assert "First one. Second" not in page.text


def test_colours_come_from_the_notebook_around_it():
    style = summary_html(Summary("x")).partition("</style>")[0]

    assert "color: inherit" in style
    assert "prefers-color-scheme" not in style
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("width", [40, 80, 200])
def test_text_fits_its_width_and_keeps_figures_with_their_units(width):
    sentence = "A step takes 4.567 ms on device 1: 67.1 % compute, 16.7 % waits. " * 3

    text = summary_text(Summary("source", sentence, (("", ((sentence, "Do.", "totals"),)),)), width)

    assert max(map(len, text.splitlines())) <= width
    assert not [line for line in text.splitlines() if line.startswith(("%", "ms"))]
    assert text.endswith('Do. ["totals"]')
