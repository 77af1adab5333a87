"""Devices that files of a job number alike are called what their own files call them."""

import json
import re
from dataclasses import replace

import pytest
from drawn_jobs import job as stepping_job
from matplotlib.text import Text
from ranks.joint import job_report, ranks_of

from gpuprof.analyses.reports import report
from gpuprof.ranks.partial import is_mergeable
from gpuprof.readers.merged_ranks import joined
from gpuprof.show import Page, renderer_named
from gpuprof.show.charts.catalogue import chart_named, drawn, of_recording, of_report
from gpuprof.show.page.recording_page import TABLES_OF_JOB, recording_page, report_page

# No file of these jobs has a device 1.
_RENUMBERED = re.compile(r"[Dd]evice [1-9]")
_NAMES = ("first_gpu", "second", "last.one")


def files_of_ranks():
    copies = [
        (at, at + 40, {"device_id": device, "bytes": 64})
        for device in range(3)
        for at in range(700, 8_000, 1_000)
    ]
    drawn_job = stepping_job([100, 120, 300], late_from={2: (4, 1.5)}, memcpys=copies)
    return ranks_of(drawn_job)


def files_without_ranks():
    return [
        replace(file, origin=replace(file.origin, source=file.origin.source.with_name(name)))
        for file, name in zip(files_of_ranks(), _NAMES, strict=True)
    ]


JOBS = pytest.mark.parametrize(
    ("files", "called"),
    [
        pytest.param(files_of_ranks, "rank {}'s device 0".format, id="ranks"),
        pytest.param(
            files_without_ranks, lambda n: f"device 0 of {_NAMES[n]}", id="files-without-ranks"
        ),
    ],
)


@JOBS
@pytest.mark.parametrize("chart", ["timeline", "utilisation", "matrix", "ranks", "steps"])
def test_charts_call_devices_what_their_files_call_them(files, called, chart):
    figure = drawn(chart_named(chart), of_recording(joined(files()), chart_named(chart)))

    figure.canvas.draw()
    texts = [text.get_text().replace("\n", " ") for text in figure.findobj(Text)]
    assert not [text for text in texts if _RENUMBERED.search(text)]
    names = re.findall(
        "|".join(re.escape(called(n)) for n in range(3)), " ".join(texts), re.IGNORECASE
    )
    assert len({*names}) >= (1 if chart == "steps" else 3)


@pytest.mark.parametrize("files", [files_of_ranks, files_without_ranks])
def test_the_heat_maps_of_a_job_call_devices_what_their_files_call_them(files):
    chart = chart_named("ranks_over_time")
    figure = drawn(chart, of_report(job_report(files(), [*chart.tables])))

    figure.canvas.draw()
    texts = [text.get_text().replace("\n", " ") for text in figure.findobj(Text)]
    assert not [text for text in texts if _RENUMBERED.search(text)]


@JOBS
def test_tables_call_devices_what_their_files_call_them(files, called):
    result = report(joined(files()), ["breakdown", "peer_matrix", "steps", "ranks"])

    for name in ("terminal", "markdown"):
        shown = renderer_named(name).report(result, Page(tables=("breakdown", "peer_matrix")))
        shown = " ".join(shown.split())
        assert not _RENUMBERED.search(shown)
        assert called(2).rpartition(" ")[0] in shown.replace("\\", "")
    document = json.loads(renderer_named("json").report(result, Page()))
    rows = document["tables"]["breakdown"]
    assert {row["device_id"] for row in rows} == {0, 1, 2}


@JOBS
def test_pages_call_devices_what_their_files_call_them(files, called):
    names = [name for name in TABLES_OF_JOB if is_mergeable(name)]
    pages = recording_page(joined(files())), report_page(job_report(files(), names))

    for page in pages:
        text = page.replace("&#39;", "'").replace("\\u0027", "'")
        assert not _RENUMBERED.search(text)
        assert called(2) in text
