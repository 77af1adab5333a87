import json

from commands import DUAL, ROOT, gpuprof

TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"


def test_a_prediction_is_written_with_a_picture(tmp_path):
    done = gpuprof(
        *("predict", TRACE, "--what", "link[HtoD]=pcie5", "--what", "hide=HtoD"),
        *("--format", "json", "--plot", tmp_path / "paths.png"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["what"] == ["link[HtoD]=pcie5", "hide=HtoD"]
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")


def test_a_summary_has_nothing_to_replay():
    done = gpuprof("predict", DUAL, "--what", "link=nvlink2")

    assert done.returncode == 1
    assert "has no times of kernels and copies: nothing can be replayed" in done.stderr
    assert "Hint: Record with" in done.stderr


def test_a_change_that_is_none_is_refused_with_a_hint():
    done = gpuprof("predict", TRACE, "--what", "faster")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: there is no change faster\n"
        "Hint: See `gpuprof predict --help` for the list of changes.\n"
    )
