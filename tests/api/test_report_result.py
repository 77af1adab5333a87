"""What `gpuprof.report` returns: tables on demand, findings, charts, a page, and its summary."""

import pandas as pd
import pytest
from commands import ROOT
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import gpuprof
from gpuprof.analyses import notes, reports
from gpuprof.base.errors import TableNameError, UsageError

STAGED = ROOT / "gpuprof" / "docs" / "recordings" / "staged.gpuprof"
PRINTED = ROOT / "sample_logs" / "nvprof" / "published" / "dual.txt"


@pytest.fixture(scope="module")
def staged():
    return gpuprof.report(STAGED)


def test_a_table_is_a_frame_of_arrow_columns_equal_to_the_command_s(staged):
    frame = staged["breakdown"]

    expected = reports.report(gpuprof.read_profile(STAGED), ["breakdown"]).tables["breakdown"]
    assert staged.arrow("breakdown").equals(expected)
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
    assert frame.to_dict("records") == expected.to_pylist()


def test_tables_that_are_not_in_the_overview_are_computed_when_asked_for(staged):
    assert "pauses" not in notes.OVERVIEW
    assert len(staged.tables["pauses"]) > 0
    assert staged.tables["pauses"] is not staged.tables["pauses"]


def test_tables_list_what_the_recording_can_give_without_computing_it(staged, monkeypatch):
    printed = gpuprof.report(PRINTED)
    monkeypatch.setattr(reports, "report", None)

    assert {"steps", "totals", "lanes"} <= set(staged.tables)
    assert "gaps" in staged.tables
    assert "totals" in printed.tables
    assert "breakdown" not in printed.tables
    assert len(printed.tables) == len(list(printed.tables)) < len(staged.tables)


def test_a_table_that_the_recording_cannot_give_is_a_missing_key_with_its_reason():
    result = gpuprof.report(PRINTED)

    with pytest.raises(TableNameError) as caught:
        result["breakdown"]

    assert str(caught.value) == "breakdown is n/a: the recording has no kernels and memcpys"
    assert "no timestamps" in caught.value.hint
    assert isinstance(caught.value, KeyError)
    assert result.tables.get("breakdown") is None


def test_a_mistyped_table_is_a_missing_key_with_the_near_name(staged):
    with pytest.raises(KeyError) as caught:
        staged["peer_matrx"]

    assert str(caught.value) == "there is no table peer_matrx"
    assert caught.value.__notes__ == ["Did you mean peer_matrix?"]


def test_a_notebook_completes_the_names_of_tables(staged):
    assert {"totals", "steps"} <= {*staged._ipython_key_completions_()}


def test_a_table_s_name_is_text(staged):
    with pytest.raises(TypeError, match=r"^a table name must be text, not int$"):
        staged[0]


def test_the_bottom_line_and_the_findings_are_those_of_the_command(staged):
    assert staged.bottom_line.startswith(
        "A step takes 4.57 ms, of it 1.38 ms (30.2 %) in copies between devices through the host;"
        " 708 µs (15.5 %) can be won. The step on device 1 (median 4.57 ms of 39 steps) is 67.1 %"
    )
    assert list(staged.findings["cause"]) == ["staged_copies", "exposed_host_copies"]


def test_what_the_bars_show_is_not_repeated_as_a_table(staged):
    assert staged._repr_html_().count("Where each device&#39;s time went") == 1


def test_a_recording_without_timestamps_has_no_findings_and_says_why():
    result = gpuprof.report(PRINTED)

    assert result.bottom_line.startswith("GPU activities take 50.3 s, summed over devices: 20.1 %")
    assert len(result.findings) == 0
    assert "cost_ns" in result.findings.columns
    assert any("n/a" in note for note in result.notes)


def test_a_part_of_a_recording_is_named_in_the_command_s_words(staged):
    span_ns = staged["breakdown"]["span_ns"].max()

    by_text = gpuprof.report(staged, from_="0s", to="50ms", device=1)
    by_number = gpuprof.report(STAGED, from_=0, to=50_000_000, device=1)

    assert by_text["breakdown"].equals(by_number["breakdown"])
    assert list(by_text["breakdown"]["device_id"]) == [1]
    assert by_text["breakdown"]["span_ns"].max() < span_ns
    assert by_text.notes[0].startswith("A part of staged.gpuprof: device 1, from 0 ns to 50.000 ms")


def test_steps_at_the_start_are_left_out_where_asked(staged):
    skipped = gpuprof.report(STAGED, skip_steps=10)

    assert skipped["phases"]["steps"].max() == staged["phases"]["steps"].max() - 10


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"from_": 1.5}, TypeError, 'from_ must be text with a unit, as "1.5s", or integer'),
        ({"to": "5 parsecs"}, UsageError, 'to: unknown unit "parsecs"'),
        ({"occurrence": 1}, UsageError, "--occurrence says which --range is meant"),
        ({"device": 9}, UsageError, "no device 9 is in"),
        ({"skip_steps": -1}, UsageError, "skip_steps must be at least 0, not -1"),
        ({"tables": ["totls"]}, UsageError, "there is no table totls"),
    ],
    ids=["float", "unit", "occurrence", "device", "steps", "table"],
)
def test_options_that_do_not_fit_are_refused(options, error, message):
    with pytest.raises(error) as caught:
        gpuprof.report(STAGED, **options)

    assert str(caught.value).startswith(message)


def test_requested_tables_take_the_place_of_the_overview():
    result = gpuprof.report(STAGED, ["kernel_summary"])

    assert "Kernels by name" in result._repr_html_()
    assert "Totals, summed" not in result._repr_html_()
    assert "A step takes" not in repr(result)
    assert result.bottom_line.startswith("A step takes")


def test_a_chart_is_a_figure_that_a_notebook_shows_and_pyplot_does_not_know(staged):
    figure = staged.plot("matrix")
    picture, metadata = figure._repr_png_()

    assert isinstance(figure, Figure)
    assert picture.startswith(b"\x89PNG")
    assert metadata == {"width": 960}
    assert plt.get_fignums() == []


CHARTS_OF_A_RECORDING = (
    "timeline, steps, kernels, roofline, matrix, copy_sizes, utilisation, gpu_metrics, memory,"
    " ranks, ranks_over_time"
)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("timelin", "there is no chart timelin", "Did you mean timeline?"),
        (
            "waterfall",
            "chart waterfall shows a comparison, not a recording",
            f"Charts of a recording: {CHARTS_OF_A_RECORDING}, placement.",
        ),
    ],
)
def test_a_chart_of_another_name_or_subject_is_refused(staged, name, message, hint):
    with pytest.raises(UsageError) as caught:
        staged.plot(name)

    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_page_is_text_or_a_file_and_never_replaces_the_recording(tmp_path):
    page, recording = tmp_path / "report.html", tmp_path / "copy.gpuprof"
    page.write_text("old")
    recording.write_bytes(STAGED.read_bytes())
    result = gpuprof.report(recording)

    result.to_html(page)

    assert page.read_text(encoding="utf-8") == result.to_html()
    assert "What each device did when" in result.to_html()
    with pytest.raises(gpuprof.GpuprofError, match="is an input of this command"):
        result.to_html(recording)


def test_the_text_names_tables_and_charts_and_keeps_figures_with_their_units(staged, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    text = repr(staged)

    assert "1. Copies take 1.47 ms of a step" in text
    assert "Device 0 waits for copies between devices through the host" in text
    assert '["peer_matrix"]' in text
    assert max(map(len, text.splitlines())) <= max(80, len(str(STAGED)) + 1)
    assert not [line for line in text.splitlines() if line.startswith(("% ", "ms "))]
    assert "\nCharts: timeline, steps, kernels, roofline, matrix" in text
