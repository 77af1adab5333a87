import numpy as np
import pytest
from drawing import draw
from pictures import figure

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.model.table import Selection
from gpuprof.show.charts import timeline, utilisation

_ONE_TO_ZERO = {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0}


def _heights(axes, lane):
    """Share that each part of a lane fills by time: a list per layer, exposed first."""
    layers_of = []
    for patch in axes.patches:
        if patch.get_gid() == lane:
            values, edges, baseline = patch.get_data()
            shares = (np.broadcast_to(baseline, values.shape) - values) / 0.85
            layers_of.append((edges[:-1], edges[1:], shares))
    return layers_of


def _covered(layers):
    return [round(float(((end - start) * share).sum()), 6) for start, end, share in layers]


def test_lanes_stand_by_device_and_kind():
    profile = draw(
        kernels=[(0, 1_000), (0, 500, {"device_id": 1, "name": "ncclDevKernel_AllReduce"})],
        memcpys=[(1_000, 2_000), (0, 2_000, _ONE_TO_ZERO), (0, 9, {"memcpy_kind": "DtoD"})],
    )

    axes = figure(timeline.CHART, profile).axes[0]

    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "device 0   compute",
        "HtoD",
        "PtoP",
        "local copies",
        "device 1   communication",
        "PtoP",
    ]
    assert axes.get_xlabel().startswith("time since the recording's origin [µs]")


def test_times_are_those_that_a_part_is_chosen_by():
    profile = draw(kernels=[(5_000_000_100, 5_000_000_400)])

    for axes in (figure(c, profile).axes[0] for c in (timeline.CHART, utilisation.CHART)):
        assert axes.get_xlim() == (5.0000001, 5.0000004)
        assert "[s]" in axes.get_xlabel()
        axes.figure.canvas.draw()
        assert axes.xaxis.get_major_formatter().get_offset() == ""


def test_ways_between_devices_are_named_for_people():
    halves = {"path": "staged", "correlation_id": 5, "src_device_id": 1, "dst_device_id": 0}
    profile = draw(
        kernels=[(0, 100)],
        memcpys=[
            (0, 50, halves | {"memcpy_kind": "DtoH", "device_id": 1}),
            (50, 100, halves | {"memcpy_kind": "HtoD", "device_id": 0}),
        ],
    )

    axes = figure(timeline.CHART, profile).axes[0]

    assert axes.get_yticklabels()[1].get_text() == "PtoP through the host"


def test_exposed_parts_are_told_from_hidden_ones():
    profile = draw(kernels=[(0, 1_000)], memcpys=[(400, 2_000)])

    axes = figure(timeline.CHART, profile).axes[0]

    assert _covered(_heights(axes, "0 compute")) == [1.0]
    # 1.0 µs of the copy is exposed, 0.6 µs is hidden behind the kernel.
    assert _covered(_heights(axes, "0 HtoD")) == [1.0, 0.6]


def test_what_is_short_still_shows():
    axes = figure(timeline.CHART, draw(kernels=[(0, 10), (9_999_990, 10_000_000)])).axes[0]

    ((_, _, shares),) = _heights(axes, "0 compute")
    assert set(shares.round(3)) == {0, 0.15}


def test_the_title_is_what_takes_most_of_the_time_beside_compute():
    shown = figure(timeline.CHART, draw(kernels=[(0, 100_000), (200_000, 400_000)]))

    assert shown.get_suptitle() == "Device 0: 25.0 % of the recorded 400 µs is idle"


@pytest.mark.parametrize(
    ("memcpys", "title"),
    [
        ([(900, 2_000)], "Device 0: 50.0 % of the recorded 2.00 µs is exposed copies"),
        ([(900, 1_040)], "Device 0: 96.2 % of the recorded 1.04 µs is compute"),
        (
            [(900, 2_000, {"memcpy_kind": "DtoD"})],
            "Device 0: 50.0 % of the recorded 2.00 µs is exposed local copies",
        ),
    ],
)
def test_a_title_names_compute_only_where_nothing_else_takes_as_much(memcpys, title):
    shown = figure(timeline.CHART, draw(kernels=[(0, 1_000)], memcpys=memcpys))

    assert shown.get_suptitle() == title


def _steps(lengths):
    """Steps of four kernels, a pause of a quarter and a copy at their end."""
    kernels, memcpys, start = [], [], 10_000
    for length in lengths:
        quarter = length // 4
        names = ("first", "second", "third", "fourth")
        kernels += [
            (start + at * quarter // 2, start + (at + 1) * quarter // 2, {"name": name})
            for at, name in enumerate(names)
        ]
        memcpys.append((start + 3 * quarter, start + length))
        start += length
    return draw(kernels=kernels, memcpys=memcpys)


def test_a_typical_step_is_shown_below_the_whole():
    shown = figure(timeline.CHART, _steps([4_000] * 5 + [4_400] + [4_000] * 6))

    strip, step = shown.axes
    assert shown.get_suptitle() == "Device 0: 25.0 % of a 4.00 µs step is idle"
    assert strip.get_yticklabels()[0].get_text() == "whole recording"
    assert strip.get_xlim() == (10, 58.4)
    assert [text.get_text() for text in strip.texts] == ["step 0, shown below"]
    assert step.get_xlim() == (0, 4)
    assert step.get_xlabel() == (
        "time since the start of step 0, 10.000 µs after the recording's origin [µs]"
    )
    assert _covered(_heights(step, "0 compute")) == [2.0]
    assert _covered(_heights(step, "0 HtoD")) == [1.0]


def test_a_chosen_part_is_shown_as_it_is():
    part = Selection(windows=((10_000, 22_000),))

    shown = figure(timeline.CHART, _steps([4_000] * 12).restricted(part))

    assert [axes.get_xlim() for axes in shown.axes] == [(10, 22)]


def test_an_idle_recording_has_no_timeline():
    with pytest.raises(EmptyRecordingError, match="timeline cannot be drawn"):
        figure(timeline.CHART, draw())
