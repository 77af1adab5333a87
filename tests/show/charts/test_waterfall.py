import pytest
from drawing import draw

from gpuprof.comparisons import comparison
from gpuprof.show.charts import waterfall
from gpuprof.show.charts.catalogue import of_comparison, picture_of
from gpuprof.show.charts.figure import figure_of

_ENDS = {"PtoP": {"src_device_id": 0, "dst_device_id": 1}, "HtoD": {}, "DtoH": {}, "DtoD": {}}
_PEER = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1}


def _figure(**profiles):
    results = of_comparison(comparison(profiles))
    return figure_of(picture_of(waterfall.CHART, results))


@pytest.fixture
def axes():
    baseline = draw(kernels=[(0, 1_000)], memcpys=[(1_000, 1_500)])
    two = draw(kernels=[(0, 1_000)], memcpys=[(1_000, 1_100), (1_100, 2_100, _PEER)])
    return _figure(one=baseline, two=two).axes[0]


def _bars(axes):
    patches = sorted(axes.patches, key=lambda bar: bar.get_y())
    return [
        (name.get_text(), round(bar.get_x(), 6), round(bar.get_x() + bar.get_width(), 6))
        for name, bar in zip(axes.get_yticklabels(), patches, strict=True)
    ]


def test_bars_lead_from_the_baseline_to_the_candidate(axes):
    assert _bars(axes) == [
        ("one", 0, 1.5),
        ("PtoP", 1.5, 2.5),
        ("HtoD", 2.1, 2.5),
        ("two", 0, 2.1),
    ]
    assert [text.get_text() for text in axes.texts] == [
        "1.50 µs",
        "+1.00 µs",
        "-400 ns",
        "2.10 µs",
    ]


def test_the_largest_part_comes_first():
    baseline = draw(kernels=[(0, 1_000)], memcpys=[(1_000, 1_500)])
    two = draw(kernels=[(0, 1_100)], memcpys=[(1_100, 1_300), (1_300, 1_500, _PEER)])

    names = [name for name, _, _ in _bars(_figure(one=baseline, two=two).axes[0])]
    assert names == ["one", "HtoD", "PtoP", "common kernels", "two"]


def test_what_adds_is_told_from_what_saves_in_grey(axes):
    assert len({bar.get_hatch() for bar in axes.patches}) == 3


def test_totals_that_would_dwarf_the_difference_are_cut_and_say_so():
    baseline = draw(kernels=[(0, 1_000_000)])
    two = draw(kernels=[(0, 1_000_000)], memcpys=[(1_000_000, 1_000_100, _PEER)])

    axes = _figure(one=baseline, two=two).axes[0]

    assert axes.get_xlim()[0] > 0.9
    assert "the axis begins at" in axes.get_xlabel()
    assert [text.get_text() for text in axes.texts if text.get_color() == "white"] == ["//"] * 2


def test_all_panels_have_one_axis():
    baseline = draw(kernels=[(0, 100_000)])
    runs = {
        label: draw(kernels=[(0, 100_000)], memcpys=[(100_000, 100_000 + ns, _PEER)])
        for label, ns in (("little", 1_500), ("more", 9_000))
    }

    little, more = _figure(one=baseline, **runs).axes

    assert little.get_xlim() == more.get_xlim()
    (added,) = [bar for bar in little.patches if bar.get_width() == pytest.approx(1.5)]
    assert added.get_width() / (little.get_xlim()[1] - little.get_xlim()[0]) < 0.15


def test_the_legend_has_one_order():
    baseline = draw(kernels=[(0, 1_000)], memcpys=[(1_000, 1_500)])
    two = draw(kernels=[(0, 1_000)], memcpys=[(1_000, 1_100, _PEER)])

    for profiles in ({"one": baseline, "two": two}, {"two": two, "one": baseline}):
        (legend,) = _figure(**profiles).legends
        names = [text.get_text() for text in legend.get_texts()]
        assert names == ["total", "takes longer", "takes less"]


def test_of_many_candidates_those_that_differ_most_are_drawn():
    lengths = {f"v{n}": draw(kernels=[(0, 1_000 + n * n)]) for n in (9, 1, 8, 2, 7, 3, 6, 5, 4)}

    figure = _figure(base=draw(kernels=[(0, 1_000)]), **lengths)

    assert [_bars(axes)[-1][0] for axes in figure.axes] == ["v9", "v8", "v7", "v6", "v5", "v4"]
    assert figure.axes[-1].get_xlabel().endswith("of 9 candidates the 6 that differ most")


def test_five_candidates_share_the_axis_and_the_order_of_their_parts():
    kinds = ("HtoD", "DtoH", "DtoD", "PtoP")

    def run(number):
        copies = [
            (1_000 * n, 1_000 * n + 100 * n * number, {"memcpy_kind": kind, **(_ENDS[kind])})
            for n, kind in enumerate(kinds, start=1)
        ]
        return draw(kernels=[(0, 1_000)], memcpys=copies)

    shown = _figure(**{f"run{number}": run(number) for number in range(1, 7)})

    names = [[label.get_text() for label in axes.get_yticklabels()] for axes in shown.axes]
    assert {tuple(of_panel[1:-1]) for of_panel in names} == {tuple(names[0][1:-1])}
    assert "everything else" in names[0]
    assert [bool(axes.get_xlabel()) for axes in shown.axes] == [False] * 4 + [True]
    assert shown.get_figheight() < 10
