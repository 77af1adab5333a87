"""Charts light on dark."""

import pytest
from commands import gpuprof
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from PIL import Image

from gpuprof.model import data_model
from gpuprof.show.charts.drawing import figure_of
from gpuprof.show.charts.figure import KERNELS, NOTHING, Bars, Part, Picture

PANEL = Bars(
    ["a"], [Part(0, KERNELS, 0, 5, "", "x"), Part(0, NOTHING, 5, 9)], [KERNELS, NOTHING], ["9 ns"]
)
PICTURE = Picture("A step takes 9 ns", data_model.KERNELS.empty(), [PANEL])


def brightness(colour):
    return sum(to_rgb(colour)) / 3


def colours(figure):
    """How bright the paper is, a name, what stands behind a bar, and idle time."""
    (axes,) = figure.axes
    behind = next(text for text in axes.texts if text.get_text() == "9 ns")
    idle = axes.patches[1].get_facecolor()[:3]
    name = axes.get_yticklabels()[0]
    written = figure.get_facecolor()[:3], name.get_color(), behind.get_color(), idle
    return [*map(brightness, written)]


@pytest.mark.parametrize("is_dark", [False, True])
def test_writing_stands_out_from_the_paper_and_idle_time_does_not(is_dark):
    paper, name, figure, idle = colours(figure_of(PICTURE, is_dark=is_dark))

    assert (paper < 0.2) == is_dark
    assert abs(paper - name) > 0.6
    assert abs(paper - figure) > 0.6
    assert abs(paper - idle) < 0.25


def test_what_is_drawn_has_the_style_of_its_user():
    with plt.style.context("dark_background"):
        paper, name, *_ = colours(figure_of(PICTURE))

    assert (paper, name) == (0, 1)


def test_the_option_draws_on_a_dark_paper(tmp_path):
    picture = tmp_path / "x.png"

    done = gpuprof(
        "plot", "steps", "gpuprof/docs/recordings/staged.gpuprof", "--dark", "-o", picture
    )

    assert done.returncode == 0
    assert max(Image.open(picture).convert("RGB").getpixel((0, 0))) < 50
