"""Charts of recordings drawn by hand."""

from gpuprof.render.charts import figure_of, picture_of
from gpuprof.render.charts.results import of_recording


def figure(chart, profile):
    return figure_of(chart, picture_of(chart, of_recording(profile, chart)))
