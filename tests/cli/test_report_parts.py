"""``gpuprof report`` of a part of a recording."""

import json

import pytest
from click.testing import CliRunner
from drawing import draw

from gpuprof.cli import cli
from gpuprof.readers.gpuprof.write_gpuprof_file import write

TWO_STEPS = draw(
    kernels=[(0, 40, {"correlation_id": 1}), (100, 150, {"correlation_id": 2, "device_id": 1})],
    memcpys=[(40, 60, {"correlation_id": 3})],
    api_calls=[(n, n + 1, {"correlation_id": n}) for n in (1, 2, 3)],
    nvtx_ranges=[(0, 2, {"text": "step 0"}), (2, 3, {"text": "step 1"})],
)


@pytest.fixture
def recording(tmp_path):
    write(TWO_STEPS, tmp_path / "x.gpuprof")
    return str(tmp_path / "x.gpuprof")


def tables(recording, *options):
    result = CliRunner().invoke(
        cli, ["report", recording, "--format", "json", *options], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["tables"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            ["--from", "0.02us", "--to", "110ns"], [(0, 40, 20), (1, 10, 10)], id="window"
        ),
        pytest.param(["--from", "-1.5s", "--to=50ns"], [(0, 50, 40)], id="negative"),
        pytest.param(["--device", "1"], [(1, 50, 50)], id="device"),
        pytest.param(["--range", "step*", "--occurrence", "1"], [(1, 50, 50)], id="occurrence"),
    ],
)
def test_a_part_is_broken_down_alone(recording, options, expected):
    rows = tables(recording, "--table", "breakdown", *options)["breakdown"]

    assert [(r["device_id"], r["span_ns"], r["compute_ns"]) for r in rows] == expected


def test_per_step_is_the_table_of_steps(recording):
    rows = tables(recording, "--per-step")["steps"]

    assert {row["text"] for row in rows} == {"step #"}


def test_json_has_every_table_that_the_recording_can_fill(recording):
    assert {"breakdown", "transfers", "peer_matrix", "ranges", "gaps", "placement_estimate"} <= {
        name for name, table in tables(recording).items() if table is not None
    }
