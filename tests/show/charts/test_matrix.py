from itertools import pairwise

import numpy as np
import pytest
from drawing import draw
from pictures import figure
from ranks.joint import ranks_of

from gpuprof.base.errors import EmptyRecordingError, MissingTableError
from gpuprof.readers.merged_ranks import joined
from gpuprof.show.charts import matrix

_ONE_TO_ZERO = {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0, "bytes": 3_000}
_STAGED = {"path": "staged", "correlation_id": 5, "src_device_id": 1, "dst_device_id": 0}


def _cells(axes):
    return {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}


def test_cells_hold_time_bytes_and_rate_from_row_to_column():
    axes = figure(
        matrix.CHART,
        draw(memcpys=[(0, 2_000, {"bytes": 4_000}), (0, 6_000, _ONE_TO_ZERO)]),
    ).axes[0]

    ends = [text.get_text() for text in axes.get_yticklabels()]
    assert ends == ["host", "device 0", "device 1"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ends
    (image,) = axes.images
    expected = np.full((3, 3), np.nan)
    expected[0, 1], expected[2, 1] = 2, 6
    assert np.array_equal(np.ma.filled(image.get_array(), np.nan), expected, equal_nan=True)
    assert _cells(axes) == {
        (1, 0): "2.00 µs\n4.00 KB\n2.00 GB/s",
        (1, 2): "6.00 µs\n3.00 KB\n500 MB/s",
    }


def test_a_cell_tells_its_paths_apart():
    direct = (0, 6_000, _ONE_TO_ZERO)
    halves = [
        (10_000, 11_000, _STAGED | {"memcpy_kind": "DtoH", "device_id": 1, "bytes": 500}),
        (11_000, 12_000, _STAGED | {"memcpy_kind": "HtoD", "device_id": 0, "bytes": 500}),
    ]

    axes = figure(matrix.CHART, draw(memcpys=[direct, *halves])).axes[0]

    # What is copied within no pair of ends has no cell.
    assert list(_cells(axes).values()) == [
        "8.00 µs\ndirect: 3.00 KB\n500 MB/s\nthrough the host: 500 B\n250 MB/s"
    ]


def test_the_title_names_the_costliest_route():
    shown = figure(matrix.CHART, draw(memcpys=[(0, 2_000), (0, 6_000, _ONE_TO_ZERO)]))

    assert shown.get_suptitle() == "Device 1 to device 0: 75.0 % of the transfer time"


def test_the_title_names_the_way_where_no_route_makes_most_of_it():
    copies = [(0, 1_000 + n, {"device_id": n, "dst_device_id": n}) for n in range(3)]

    shown = figure(matrix.CHART, draw(memcpys=[*copies, (0, 2_000, _ONE_TO_ZERO)]))

    assert shown.get_suptitle() == "Host to devices: 60.0 % of the transfer time"


def test_writing_stays_readable_on_dark_cells():
    axes = figure(matrix.CHART, draw(memcpys=[(0, 100), (0, 6_000, _ONE_TO_ZERO)])).axes[0]

    colours = {tuple(map(int, text.get_position())): text.get_color() for text in axes.texts}
    assert colours[1, 2] == "white"
    assert colours[1, 0] != "white"


def test_no_copies_make_no_matrix():
    with pytest.raises(EmptyRecordingError, match="the recording has no such activity"):
        figure(matrix.CHART, draw(kernels=[(0, 5)]))


def test_a_summary_makes_no_matrix():
    from recordings import DUAL, summary  # noqa: PLC0415 - only here

    with pytest.raises(MissingTableError, match="recording has no peer_matrix"):
        figure(matrix.CHART, summary(*DUAL))


def test_of_many_ends_those_with_the_most_time_are_drawn():
    many = range(matrix.MOST_ENDS + 36)
    copies = [
        (0, 100 + number, {"memcpy_kind": "HtoD", "device_id": number, "bytes": 8})
        for number in many
    ]

    axes = figure(matrix.CHART, draw(memcpys=copies)).axes[0]

    ends = [text.get_text() for text in axes.get_yticklabels()]
    assert ends == ["host", *(f"device {number}" for number in [*many][-63:])]
    assert axes.get_xlabel() == "to (the 64 of 101 ends with the most time of copies)"


@pytest.mark.parametrize("devices", [6, 12, 40])
def test_names_of_columns_do_not_overlap(devices):
    copies = [(0, 2_000, {"device_id": number}) for number in range(devices)]
    job = joined(ranks_of(draw(kernels=[(0, 10, of) for *_, of in copies], memcpys=copies)))
    shown = figure(matrix.CHART, job)

    shown.canvas.draw()
    boxes = [text.get_window_extent() for text in shown.axes[0].get_xticklabels()]
    assert len(boxes) == devices + 1
    assert all(box.x1 < following.x0 for box, following in pairwise(boxes))
