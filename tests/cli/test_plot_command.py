import csv
import json

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
    assert second["finding"].startswith("Host to devices: ")


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


def test_a_prediction_is_written_with_a_picture(tmp_path):
    done = gpuprof(
        *("predict", TRACE, "--what", "link[HtoD]=pcie5", "--what", "hide=HtoD"),
        *("--format", "json", "--plot", tmp_path / "paths.png"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["what"] == ["link[HtoD]=pcie5", "hide=HtoD"]
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")
