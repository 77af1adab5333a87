import json

from commands import ROOT, gpuprof

TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"


def test_a_prediction_is_written_with_a_picture(tmp_path):
    done = gpuprof(
        *("predict", TRACE, "--what", "link[HtoD]=pcie5", "--what", "hide=HtoD"),
        *("--format", "json", "--plot", tmp_path / "paths.png"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["what"] == ["link[HtoD]=pcie5", "hide=HtoD"]
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")
