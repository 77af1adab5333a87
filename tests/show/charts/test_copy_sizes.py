import pytest
from drawing import draw
from pictures import figure

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts import copy_sizes

_SIZES = (1_024, 4_096, 65_536, 1_048_576)


def _copies(**columns):
    """Copies that take 1 µs and 1 ns per 10 bytes."""
    return [
        (n * 1_000_000, n * 1_000_000 + 1_000 + size // 10, {"bytes": size} | columns)
        for n, size in enumerate(_SIZES)
    ]


def test_bars_are_the_time_of_each_size_with_its_copies_over_them():
    costs, _ = figure(copy_sizes.CHART, draw(memcpys=_copies(src_memory_kind="pageable"))).axes

    (bars,) = costs.containers
    assert [bar.get_x() for bar in bars] == list(_SIZES)
    assert [bar.get_height() for bar in bars] == pytest.approx([1.102, 1.409, 7.553, 105.857])
    assert costs.get_ylabel() == "total time [µs]"
    assert costs.get_title(loc="left") == "number of copies of each size, over their time"
    assert [text.get_text() for text in costs.texts] == ["1", "1", "1", "1"]
    assert [text.xy[1] for text in costs.texts] == [bar.get_height() for bar in bars]


def test_the_line_is_latency_and_bandwidth_as_fitted():
    _, durations = figure(copy_sizes.CHART, draw(memcpys=_copies())).axes

    points, line = durations.lines
    assert list(points.get_ydata()) == [1_102, 1_409, 7_553, 105_857]
    assert line.get_ydata()[0] == pytest.approx(1_102, rel=0.01)
    assert line.get_ydata()[-1] == pytest.approx(105_857, rel=0.01)


def test_the_legend_tells_the_fit_of_each_group_beside_its_bar_and_marker():
    few = [(10**7, 10**7 + 900, {"memcpy_kind": "DtoH", "bytes": 64})]
    shown = figure(copy_sizes.CHART, draw(memcpys=[*_copies(), *few]))

    (legend,) = shown.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "device to host",
        "host to device: line of 1.00 µs + bytes / (10.0 GB/s)",
    ]


def test_ten_thousand_copies_are_ten_thousand():
    many = [(n * 10, n * 10 + 5, {"bytes": 64}) for n in range(12_000)]

    costs, _ = figure(copy_sizes.CHART, draw(memcpys=many)).axes

    assert [text.get_text() for text in costs.texts] == ["12k"]


def test_one_size_leaves_room_on_both_sides():
    costs, durations = figure(copy_sizes.CHART, draw(memcpys=[(0, 1_000, {"bytes": 12})])).axes

    assert costs.get_xlim() == (4, 32)
    durations.figure.draw_without_rendering()
    assert "16 B" in [text.get_text() for text in durations.get_xticklabels()]
    assert "1 µs" in [text.get_text() for text in durations.get_yticklabels()]


def test_next_to_nothing_is_no_finding():
    small = [(n * 100, n * 100 + 50, {"bytes": 64 << n}) for n in range(4)]
    shown = figure(copy_sizes.CHART, draw(memcpys=[*small, *_copies(bytes=1 << 30)]))

    assert "too small for their link" not in shown.get_suptitle()


def test_directions_differ_in_colour_and_marker():
    profile = draw(memcpys=[*_copies(), *_copies(memcpy_kind="DtoH")])

    costs, durations = figure(copy_sizes.CHART, profile).axes

    assert len({bars[0].get_facecolor() for bars in costs.containers}) == 2
    assert len({bars[0].get_hatch() for bars in costs.containers}) == 2
    markers = {line.get_marker() for line in durations.lines} - {"None", ""}
    assert len(markers) == 2


def test_the_title_says_what_small_copies_cost():
    title = figure(copy_sizes.CHART, draw(memcpys=_copies())).get_suptitle()

    assert title == "Copies too small for their link take 2.2 % of the transfer time"


def test_no_copies_have_no_sizes():
    with pytest.raises(EmptyRecordingError):
        figure(copy_sizes.CHART, draw(kernels=[(0, 1)]))
