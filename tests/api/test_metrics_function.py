"""`gpuprof.metrics`: a flat dict that experiment trackers take."""

import math

import pytest
from commands import ROOT
from drawing import draw

import gpuprof
from gpuprof.api.metrics import METRICS, PREFIX

STAGED = ROOT / "gpuprof" / "docs" / "recordings" / "staged.gpuprof"
PRINTED = ROOT / "sample_logs" / "nvprof" / "published" / "dual.txt"


def test_figures_of_a_step_are_those_of_the_first_sentence():
    figures = gpuprof.metrics(STAGED)
    (first, *_) = gpuprof.report(STAGED).arrow("bottom_line").to_pylist()

    assert figures["gpuprof/step_ns"] == first["step_ns"] == 4_567_022
    assert figures["gpuprof/compute_share"] == first["compute_share"]
    assert "gpuprof/span_ns" not in figures


def test_totals_are_those_of_the_whole_recording():
    figures = gpuprof.metrics(STAGED)
    totals = gpuprof.report(STAGED)["totals"].set_index("activity_group")

    assert figures["gpuprof/kernel_ns"] == totals.loc["kernels", "total_ns"]
    assert figures["gpuprof/peer_transfer_bytes"] == totals.loc["peer_transfers", "bytes"]


def test_what_is_unknown_is_left_out_and_nothing_is_no_number():
    figures = gpuprof.metrics(PRINTED)

    assert figures["gpuprof/peer_transfer_calls"] == 78_292
    assert not {"gpuprof/step_ns", "gpuprof/span_ns", "gpuprof/compute_share"} & figures.keys()
    assert all(type(value) is float and math.isfinite(value) for value in figures.values())


def test_without_steps_the_span_is_given_in_place_of_a_step():
    figures = gpuprof.metrics(draw(kernels=[(0, 100), (200, 300)]))

    assert figures["gpuprof/span_ns"] == 300
    assert not {"gpuprof/step_ns", "gpuprof/steps"} & figures.keys()


def test_every_key_is_documented_with_its_unit():
    figures = gpuprof.metrics(STAGED)

    assert {key.removeprefix(PREFIX) for key in figures} <= METRICS.keys()
    for name, column in METRICS.items():
        assert column.unit != "ns" or name.endswith("_ns")
        assert column.unit != "B" or "bytes" in name


def test_mlflow_logs_them_all(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions prefer a database
    figures = gpuprof.metrics(STAGED)
    client = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    run = client.create_run(client.create_experiment("gpuprof"))

    for key, value in figures.items():
        client.log_metric(run.info.run_id, key, value)

    assert client.get_run(run.info.run_id).data.metrics == figures
