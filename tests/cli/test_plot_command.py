import csv
import json

import pytest
from commands import DUAL, ROOT, SINGLE, gpuprof

DIRECT, STAGED = (
    ROOT / "gpuprof" / "docs" / "recordings" / f"{name}.gpuprof" for name in ("direct", "staged")
)
TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"


def test_charts_are_listed():
    done = gpuprof("plot", "--list")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("timeline")
    assert "Of a comparison: variants" in done.stdout


def test_a_chart_is_drawn_with_its_data_beside_it(tmp_path):
    done = gpuprof("plot", "matrix", TRACE, "-o", tmp_path / "matrix.svg", "--chart-data", "csv")

    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in (tmp_path / "matrix.svg").read_text()
    rows = list(csv.DictReader((tmp_path / "matrix.csv").read_text().splitlines()))
    assert rows[0].keys() == {"src", "dst", "path", "calls", "total_ns", "bytes", "bytes_per_s"}


def test_variants_are_plotted_from_their_recordings(tmp_path):
    done = gpuprof("plot", "variants", SINGLE, DUAL, "-o", tmp_path / "a.pdf")

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_variants_are_plotted_under_labels_against_a_baseline(tmp_path):
    done = gpuprof(
        *("plot", "waterfall", "--label", f"one={DIRECT}", "--label", f"two={STAGED}"),
        *("--baseline", "two", "--skip-steps", "3", "-o", tmp_path / "a.svg"),
        *("--chart-data", "json"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    drawn = json.loads((tmp_path / "a.json").read_text())
    assert {(row["baseline"], row["variant"]) for row in drawn["rows"]} == {("two", "one")}
    assert drawn["finding"].startswith("one takes ")


def test_steps_are_plotted_without_those_that_are_skipped(tmp_path):
    done = gpuprof(
        *("plot", "steps", STAGED, "--skip-steps", "5", "-o", tmp_path / "a.svg"),
        *("--chart-data", "csv"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [row["status"] for row in rows][:6] == ["warm_up"] * 5 + ["sample"]


def test_a_report_draws_charts_by_name(tmp_path):
    done = gpuprof(
        *("report", TRACE, "--chart", tmp_path / "a.png", "--chart-data", "json"),
        *("--chart", f"matrix={tmp_path / 'b.svg'}"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert (first["chart"], second["chart"]) == ("timeline", "matrix")
    assert first["rows"][0].keys() >= {"device_id", "lane", "exposed_ns"}
    assert second["finding"].startswith("Copies from ")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        pytest.param(["matrix", "x.txt"], 2, "plot needs a CHART, a FILE and -o", id="no-output"),
        pytest.param(["matrx", DUAL, "-o", "a.png"], 2, "there is no chart matrx", id="name"),
        pytest.param(["matrix", DUAL, "-o", "a.gif"], 2, "does not end in .png", id="suffix"),
        pytest.param(["matrix", DUAL, "-o", "-"], 2, "- does not end in .png", id="stdout"),
        pytest.param(
            ["matrix", DUAL, "-o", "a.png"], 1, "recording has no peer_matrix", id="summary"
        ),
        pytest.param(["variants", DUAL, "-o", "a.png"], 2, "needs two", id="one-variant"),
        pytest.param(
            ["matrix", "--label", f"a={DUAL}", "-o", "a.png"],
            2,
            "--label does not apply to matrix, a chart of a recording",
            id="label-of-a-recording",
        ),
        pytest.param(
            ["variants", DUAL, SINGLE, "--device", "0", "-o", "a.png"],
            2,
            "--device does not apply to variants, a chart of a comparison",
            id="device-of-a-comparison",
        ),
        pytest.param(
            ["batch", DUAL, "--skip-steps", "0", "-o", "a.png"],
            2,
            "--skip-steps does not apply to batch, a chart of a sweep",
            id="steps-of-a-sweep",
        ),
        pytest.param(
            ["variants", DUAL, SINGLE, "--baseline", "other", "-o", "a.png"],
            2,
            "no recording has the label other",
            id="baseline",
        ),
    ],
)
def test_what_cannot_be_plotted_is_said(tmp_path, arguments, status, message):
    done = gpuprof("plot", *arguments, cwd=tmp_path)

    assert done.returncode == status
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


def test_a_chart_of_another_subject_is_refused(tmp_path):
    done = gpuprof("report", DUAL, "--chart", f"variants={tmp_path / 'a.png'}")

    assert done.returncode == 2
    assert "chart variants shows a comparison, not a recording" in done.stderr


def test_data_that_exist_are_not_replaced(tmp_path):
    (tmp_path / "a.csv").write_text("mine")

    done = gpuprof("plot", "matrix", TRACE, "-o", tmp_path / "a.svg", "--chart-data", "csv")

    assert done.returncode == 1
    assert "a.csv exists already" in done.stderr
    assert not (tmp_path / "a.svg").exists()


def test_a_saved_baseline_is_plotted_against(tmp_path):
    saved = gpuprof("baseline", "save", "main", STAGED, cwd=tmp_path)
    assert saved.returncode == 0, saved.stderr

    done = gpuprof(
        *("plot", "waterfall", DIRECT, "--baseline", "main", "-o", tmp_path / "a.svg"),
        *("--chart-data", "json"),
        cwd=tmp_path,
    )

    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert {(row["baseline"], row["variant"]) for row in rows} == {("main", "direct")}
