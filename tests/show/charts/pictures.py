"""Charts of recordings drawn by hand."""

from gpuprof.base.units import bound
from gpuprof.show.charts.catalogue import of_recording, picture_of
from gpuprof.show.charts.figure import figure_of

MOST_WORDS = 12  # Of a title, a figure with its unit being one.


def figure(chart, profile):
    picture = picture_of(chart, of_recording(profile, chart))
    assert len(bound(picture.finding).split(" ")) <= MOST_WORDS, picture.finding
    return figure_of(picture)
