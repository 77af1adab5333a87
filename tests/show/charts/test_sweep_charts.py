import pytest

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts import sweeps
from gpuprof.show.charts.catalogue import of_times, picture_of
from gpuprof.show.charts.figure import figure_of


@pytest.fixture
def figure(tmp_path):
    def draw(chart, text):
        path = tmp_path / "times.csv"
        path.write_text(text)
        return figure_of(picture_of(chart, of_times(path)))

    return draw


def _lines(axes):
    return {
        line.get_label(): [*zip(line.get_xdata(), line.get_ydata(), strict=True)]
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def test_scaling_stands_beside_the_ideal(figure):
    drawn = figure(sweeps.SCALING, "label,devices,seconds\na,1,10\na,2,6.25\na,4,4\nb,1,8\nb,4,4\n")

    speed, efficiency = drawn.axes
    assert _lines(speed) == {
        "a": [(1, 1.0), (2, 1.6), (4, 2.5)],
        "b": [(1, 1.0), (4, 2.0)],
        "ideal": [(1, 1), (2, 2), (4, 4)],
    }
    assert _lines(efficiency)["a"] == [(1, 100), (2, 80), (4, 62.5)]
    assert (speed.get_xlabel(), efficiency.get_ylabel()) == ("devices", "efficiency [%]")
    assert drawn.get_suptitle() == "a on 4 devices: 2.50 times as fast, 62.5 % of the ideal"


def test_the_title_of_scaling_names_the_batch_size_that_it_is_about(figure):
    rows = "a,1,64,3\na,2,64,4\na,1,256,3\na,2,256,2\n"
    drawn = figure(sweeps.SCALING, f"label,devices,batch_size,seconds\n{rows}")

    title = "a, batch size 256 on 2 devices: 1.50 times as fast, 75.0 % of the ideal"
    assert drawn.get_suptitle() == title


def test_break_even_is_marked_and_named(figure):
    drawn = figure(
        sweeps.BATCH,
        "label,batch_size,seconds\nsingle,64,8\nsingle,256,8\ndual,64,16\ndual,256,5.3333333333\n",
    )

    (axes,) = drawn.axes
    assert _lines(axes)["dual"] == [(64, 0.5), (256, pytest.approx(1.5))]
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert star.get_xdata()[0] == pytest.approx(128)
    assert [text.get_text() for text in axes.texts] == ["128"]
    assert drawn.get_suptitle() == "dual is faster than single from about batch size 128 on"
    assert axes.get_ylabel() == "speed-up over single"
    assert "as fast as single" in _lines(axes)


def test_without_break_even_the_title_says_so(figure):
    drawn = figure(sweeps.BATCH, "label,batch_size,seconds\na,64,8\na,128,8\nb,64,10\nb,128,9\n")

    assert drawn.get_suptitle() == "No break-even: at most 0.89 times the speed of a"


def test_one_point_is_no_chart(figure):
    with pytest.raises(EmptyRecordingError):
        figure(sweeps.SCALING, "devices,seconds\n1,10\n")


def test_devices_without_a_label_are_named(figure):
    drawn = figure(sweeps.SCALING, "devices,seconds\n1,10\n2,8\n")

    assert drawn.get_suptitle() == "2 devices: 1.25 times as fast, 62.5 % of the ideal"


def test_twelve_lines_differ_in_grey(figure):
    rows = "".join(f"v{n},{d},{10 + n - d}\n" for n in range(12) for d in (1, 2))

    speed, _ = figure(sweeps.SCALING, f"label,devices,seconds\n{rows}").axes

    assert len({line.get_marker() for line in speed.lines if line.get_label() != "ideal"}) == 12


@pytest.mark.parametrize("sizes", [(100, 150), (64, 4096)])
def test_the_star_of_a_break_even_lies_on_its_line(figure, sizes):
    low, high = sizes
    drawn = figure(
        sweeps.BATCH,
        f"label,batch_size,seconds\na,{low},8\na,{high},8\nb,{low},10\nb,{high},4\n",
    )

    (axes,) = drawn.axes
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    (line,) = [line for line in axes.lines if line.get_label() == "b"]
    (x0, y0), (x1, y1) = axes.transData.transform(line.get_xydata())
    ((x, y),) = axes.transData.transform(star.get_xydata())
    assert (x - x0) / (x1 - x0) == pytest.approx((y - y0) / (y1 - y0))
