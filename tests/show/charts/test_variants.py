from itertools import pairwise

import pytest
from drawing import draw, stepped
from recordings import DUAL, EXAGGERATED, PUBLISHED_DUAL, PUBLISHED_SINGLE, SINGLE, summary
from tensorflow_runs import copy as tensor_copy
from tensorflow_runs import document, written

from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile
from gpuprof.show.charts import variants
from gpuprof.show.charts.catalogue import of_comparison, picture_of
from gpuprof.show.charts.figure import figure_of
from gpuprof.show.charts.variants import TIME_LAYERS


def _drawn(profiles, epoch_seconds=None):
    results = of_comparison(comparison(profiles, epoch_seconds=epoch_seconds))
    return figure_of(picture_of(variants.CHART, results))


def _figure(epoch_seconds=None, **recorded):
    return _drawn({label: summary(*rows) for label, rows in recorded.items()}, epoch_seconds)


def _layers(axes):
    """Legend name of each layer to the widths of its bars, top to bottom."""
    count = len(axes.get_yticks())
    layers = {}
    for bars in axes.containers:
        widths = {
            round(bar.get_y() + bar.get_height() / 2): round(float(bar.get_width()), 3)
            for bar in bars
        }
        layers[bars.get_label()] = [widths.get(place, 0) for place in range(count)]
    return layers


def test_bars_are_the_times_by_kind_in_seconds():
    axes = _figure(single=SINGLE, dual=DUAL, exaggerated=EXAGGERATED).axes[0]

    assert _layers(axes) == {
        "compute kernels": [36.499, 37.23, 37.232],
        "PtoP": [0, 10.098, 13.07],
        "HtoD": [0.41, 0.43, 0.436],
        "DtoH": [0.118, 0.12, 0.121],
        "local copies": [2.327, 2.32, 2.32],
        "memsets": [0.098, 0.096, 0.096],
    }
    assert axes.get_xlabel() == "GPU time, summed over devices [s]"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["single", "dual", "exaggerated"]


def test_kernels_of_communication_stand_apart_from_those_that_compute():
    all_reduce = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}
    two = draw(kernels=[(0, 600), (600, 700, all_reduce)], memcpys=[(0, 50)])

    figure = _drawn({"deep-one": draw(kernels=[(0, 1_000)]), "deep-two": two})

    assert _layers(figure.axes[0]) == {
        "compute kernels": [1.0, 0.6],
        "communication kernels": [0, 0.1],
        "HtoD": [0, 0.05],
    }
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["one", "two"]


def test_bars_are_of_one_step_where_steps_are_compared():
    few = stepped(*[100] * 4, idle_ns=40)
    axes = _drawn({"few": few, "many": stepped(*[100] * 8, idle_ns=50)}).axes[0]

    assert _layers(axes) == {"compute kernels": [60, 50]}
    assert axes.get_xlabel() == "GPU time of one step, summed over devices [ns]"
    span_axes = _drawn({"few": few, "one": draw(kernels=[(0, 10)])}).axes[0]
    assert _layers(span_axes) == {"compute kernels": [240, 10]}
    assert span_axes.get_xlabel() == "GPU time, summed over devices [ns]"


def test_the_bars_are_the_figures_of_the_title():
    # By the mean, "uneven" takes longer.
    figure = _drawn(
        {
            "even": stepped(*[1_000] * 9),
            "uneven": stepped(*[900, 900, 900, 1_400] * 5),
        }
    )

    assert figure.get_suptitle().startswith("By the clock, uneven takes 100 ns (10.0 %) less per")
    assert [text.get_text() for text in figure.axes[1].texts] == ["1.00 µs", "900 ns"]
    assert figure.axes[1].get_xlabel() == "by the clock: median step on\nthe busiest device [µs]"


def test_of_two_runs_the_bars_are_the_figures_of_the_title():
    runs = [stepped(*[ns] * 9, memsets=[]) for ns in (1_000, 2_000)]
    result = comparison({"a": runs, "b": stepped(*[500] * 9, memsets=[])})
    figure = figure_of(picture_of(variants.CHART, of_comparison(result)))

    assert figure.get_suptitle().startswith("By the clock, b takes 1.00 µs (66.7 %) less per")
    work, clock = figure.axes
    assert [text.get_text() for text in clock.texts] == ["1.50 µs", "500 ns"]
    assert [text.get_text() for text in work.texts] == ["1.49 µs", "490 ns"]
    assert _layers(work) == {"compute kernels": [1.49, 0.49]}


def test_layers_of_several_runs_end_at_the_total():
    """Three runs whose medians of kernels and copies add up to less than the median total."""
    runs = [
        draw(kernels=[(0, kernel)], memcpys=[(0, copy)], memsets=[])
        for kernel, copy in ((10, 90), (50, 60), (95, 10))
    ]
    result = comparison({"a": runs, "b": draw(kernels=[(0, 100)], memcpys=[], memsets=[])})
    rows = picture_of(variants.CHART, of_comparison(result)).rows.to_pylist()

    assert rows[0]["gpu_activity_ns"] == 105
    assert sum(rows[0][name] or 0 for name in TIME_LAYERS) == 105


def test_an_unknown_total_stands_behind_what_is_known():
    work = _drawn({n: draw(kernels=[(0, ns)]) for n, ns in (("a", 1_000), ("b", 900))}).axes[0]

    assert work.get_xlabel().endswith("[µs]")
    assert [(text.get_text(), text.xy) for text in work.texts] == [
        ("n/a", (1.0, 0)),
        ("n/a", (0.9, 1)),
    ]


def test_time_by_the_clock_stands_beside_the_work_of_all_devices():
    two = draw(kernels=[(0, 600), (0, 600, {"device_id": 1})])

    figure = _drawn({"one": draw(kernels=[(0, 1_000)]), "two": two})

    work, clock = figure.axes
    assert _layers(work) == {"compute kernels": [1.0, 1.2]}
    assert [bar.get_width() for bar in clock.patches] == [1.0, 0.6]
    assert [text.get_text() for text in clock.texts] == ["1.00 µs", "600 ns"]
    assert clock.get_xlabel() == "by the clock: span of\nthe busiest device [µs]"
    assert figure.get_suptitle().startswith("By the clock, two takes 400 ns (40.0 %) less than one")


def test_sums_alone_have_no_clock():
    figure = _figure(single=SINGLE, dual=DUAL)

    assert len(figure.axes) == 1
    assert figure.get_suptitle() == "dual takes 10.8 s (27.5 %) more GPU time than single"


def test_bars_begin_where_the_last_one_ended():
    axes = _figure(single=SINGLE, dual=DUAL).axes[0]

    ends = {0: 0.0, 1: 0.0}
    for bar in (bar for bars in axes.containers for bar in bars):
        place = round(bar.get_y() + bar.get_height() / 2)
        assert bar.get_x() == pytest.approx(ends[place])
        ends[place] = bar.get_x() + bar.get_width()
    assert [*ends.values()] == pytest.approx([39.452, 50.294])


def test_epochs_stand_beside_where_they_are_known():
    figure = _figure({"single": 20.455, "dual": 22.5}, single=SINGLE, dual=DUAL)

    epochs = figure.axes[1]
    assert [bar.get_width() for bar in epochs.patches] == [20.455, 22.5]
    assert epochs.get_xlabel() == "seconds per epoch [s]"


def test_an_unknown_epoch_is_said_to_be_unknown():
    epochs = _figure({"dual": 22.5}, single=SINGLE, dual=DUAL).axes[1]

    assert [text.get_text() for text in epochs.texts] == ["n/a", "22.5 s"]


def test_what_an_excerpt_does_not_list_is_a_part_of_its_own():
    axes = _figure(single=PUBLISHED_SINGLE, dual=PUBLISHED_DUAL).axes[0]

    assert _layers(axes) == {"PtoP": [0, 10.098], "not listed (implied)": [39.459, 40.19]}


def test_recordings_of_tensors_are_drawn_by_bytes_per_step(tmp_path):
    copies = [tensor_copy("a/x", 2_000_000, is_gradient=True), tensor_copy("a/y", 500_000)]
    profiles = {}
    for label, memcpys in {"single": [], "dual": copies}.items():
        (tmp_path / label).mkdir()
        profiles[label] = read_profile(written(tmp_path / label, document(*memcpys)))

    (axes,) = _drawn(profiles).axes

    assert _layers(axes) == {"for gradients": [0, 2.0], "for the forward pass": [0, 0.5]}
    assert axes.get_xlabel() == "copied between devices per step [MB]"


def test_layers_differ_in_grey_too():
    looks = TIME_LAYERS.values()
    shown = [look for look in looks if look.hatch]

    assert len({look.hatch for look in shown}) == len(shown)
    assert len({look.colour for look in looks}) == len(looks)


def test_a_dollar_in_a_label_is_no_formula():
    figure = _figure(**{"cost $a_1": SINGLE, "cost $b": DUAL})

    figure.draw_without_rendering()
    assert figure.axes[0].get_yticklabels()[0].get_text() == "cost $a_1"


def test_a_name_of_any_length_leaves_room_for_the_bars():
    figure = _drawn({"base": summary(*SINGLE), "l" * 2_000: summary(*DUAL)})

    figure.draw_without_rendering()  # a warning, which fails, where nothing is left

    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert max(name.count("\n") for name in names) < 3
    assert figure.get_suptitle().count("\n") < 6


def test_names_of_many_variants_do_not_overlap():
    long = "some-long_name.of/a variant with-many_parts.in/it "
    figure = _drawn({f"{long * 3}{n}": draw(kernels=[(0, 1_000 + n)]) for n in range(12)})

    figure.draw_without_rendering()

    places = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(places))


def test_a_title_is_never_wider_than_its_figure():
    figure = _drawn({"W" * 150: draw(kernels=[(0, 1_000)]), "M": draw(kernels=[(0, 1_500)])})

    figure.draw_without_rendering()

    (title,) = figure.texts
    assert title.get_window_extent().x1 <= figure.bbox.x1
