"""Charts of recordings drawn by hand."""

from gpuprof.show.charts import figure_of, of_recording, picture_of


def figure(chart, profile):
    return figure_of(picture_of(chart, of_recording(profile, chart)))
