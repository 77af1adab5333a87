"""Charts of recordings drawn by hand."""

from gpuprof.show.charts import figure_of, picture_of
from gpuprof.show.charts.results import of_recording


def figure(chart, profile):
    return figure_of(chart, picture_of(chart, of_recording(profile, chart)))
