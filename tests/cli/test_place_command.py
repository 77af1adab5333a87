"""`gpuprof place` on recordings made by hand: what it says, writes and refuses."""

import json
import re

import pytest
from commands import gpuprof
from tensorflow_runs import copy, document, graphs, operation, taken, written

FAR = "CPU:1"
GRADIENT = "gradient_tape/item/dense/MatMul"


def two_towers(size=1000, **changes):
    """An item tower on the second device whose gradient takes what it made on the first."""
    operations = [
        operation("user/dense/MatMul", flops=10**9),
        operation("user/dense/Relu", operation_type="Relu"),
        operation("item/dense/MatMul", FAR, FAR, flops=10**9),
        operation("item/dense/Relu", FAR, FAR, operation_type="Relu"),
        operation("head", operation_type="ConcatV2"),
        operation(GRADIENT, flops=10**9),
        operation(f"{GRADIENT}/update", operation_type="Mul"),
    ]
    inputs = [
        taken("words:0", "user/dense/MatMul", size=8),
        taken("words:0", "item/dense/MatMul", FAR, size=8),
        taken("user/dense/MatMul:0", "user/dense/Relu", size=size),
        taken("user/dense/Relu:0", "head", size=4),
        taken("item/dense/MatMul:0", "item/dense/Relu", FAR, FAR, size=size),
        taken("item/dense/Relu:0", "head", src_device=FAR, size=4),
        taken("item/dense/MatMul:0", GRADIENT, src_device=FAR, size=size),
        taken("head:0", GRADIENT, size=4),
        taken(f"{GRADIENT}:0", f"{GRADIENT}/update", size=size),
    ]
    return document(operations=operations, graphs=graphs(inputs)) | changes


@pytest.fixture
def run(tmp_path):
    return written(tmp_path, two_towers())


def place(*words):
    done = gpuprof("place", *map(str, words))
    return done.returncode, done.stdout, done.stderr


class TestText:
    def test_it_says_what_is_copied_what_would_do_and_the_scopes_to_write(self, run):
        status, said, complained = place(run)

        assert (status, complained) == (0, "")
        assert (
            " A step copies 1.01 KB in 3 copies; 16 B in 3 copies would suffice, 98.4 % less."
            in " ".join(said.split())
        )
        assert 'with tf.device("/CPU:1"):  # gradients of item: 2 operations' in said
        assert re.search(r"gradients and updates +16 B +3", said)

    def test_forward_and_variables_stay_where_they_are_to_be_kept(self, run):
        said = place(run, "--keep", "forward", "--keep", "variables")[1]

        assert "gradients and updates" in said
        assert "variables  " not in said
        assert "lookups" not in said

    def test_unknown_sizes_are_counted(self, tmp_path):
        status, said, _ = place(written(tmp_path, two_towers(None)))

        assert status == 0
        assert "The sizes of 3 of 7 tensors are unknown" in said
        assert "1 of unknown size" in said

    def test_a_placement_that_is_best_is_said_to_be(self, tmp_path):
        made = two_towers()
        made["graphs"][0]["devices"] = ["CPU:0"] * len(made["graphs"][0]["names"])
        for row in made["operations"]:
            row["device"] = "CPU:0"
        said = " ".join(place(written(tmp_path, made))[1].split())

        assert "A step copies nothing between devices." in said


class TestTime:
    def test_estimates_are_ranges_that_promise_no_seconds(self, run):
        status, said, _ = place(run, "--gpus", "2xK80", "--link", "nvlink2")
        flat = " ".join(said.split())

        assert status == 0
        assert "On 2 x K80 over nvlink2 a step is estimated to take" in flat
        assert "\ntoday  " in said
        assert "Estimates rank placements; they do not predict times." in flat
        assert "395 µs for a copy of our dual; the log has 129 µs" in flat

    def test_one_gpu_where_a_second_would_not_pay(self, run):
        said = " ".join(place(run, "--gpus", "2xK80", "--link", "1s,1GB/s")[1].split())

        assert "(all on one K80, kernels at 30% to 70% of the peaks)" in said
        assert "A second GPU would not pay off." in said

    def test_fewer_gpus_than_the_recording_has_devices(self, run):
        status, said, _ = place(run, "--gpus", "K80", "--format", "json")

        assert status == 0
        assert [row["placement"] for row in json.loads(said)["estimates"]] == ["all on one K80"]

    def test_the_step_is_drawn_as_it_is_and_as_proposed(self, run, tmp_path):
        chart = tmp_path / "step.svg"
        status, _, _ = place(run, "--gpus", "2xK80", "--link", "nvlink2", "--chart", chart)

        assert status == 0
        drawn = chart.read_text()
        assert all(f"<!-- {text} -->" in drawn for text in ("GPU 0", "GPU 1", "today"))

    def test_loops_have_no_times(self, tmp_path):
        made = two_towers()
        names = made["graphs"][0]["names"]
        made["graphs"][0]["inputs"].append(
            [names.index("item/dense/Relu"), 0, names.index("item/dense/MatMul"), 4]
        )
        status, _, complained = place(written(tmp_path, made), "--gpus", "2xK80")

        assert (status, complained.splitlines()[0]) == (
            1,
            "Error: the step has loops of unknown iteration counts: its time cannot be estimated",
        )


def test_what_a_loop_runs_stays_where_it_is(tmp_path):
    made = two_towers()
    for row in made["operations"]:
        if row["operation"] == GRADIENT:
            row["operation_type"] = "Enter"
    said = place(written(tmp_path, made))[1]

    assert "Write:" not in said
    assert "2 operations are within loops and stay" in " ".join(said.split())


def test_json_holds_the_figures_in_base_units(run):
    found = json.loads(place(run, "--format", "json")[1])

    assert found["today"]["bytes_per_step"] == 1012
    assert found["least"]["bytes_per_step"] == found["bytes_per_step"] == 16
    assert found["scopes"] == {"gradient_tape": "CPU:1"}
    assert found["layers"] == {"item/dense": "CPU:1", "user/dense": "CPU:0"}
    assert found["moves"] == [
        {"device": "CPU:1", "role": "gradient", "part": "item", "operations": 2}
    ]


def test_the_placement_is_written_where_it_is_asked_for_and_never_over_a_file(run, tmp_path):
    target = tmp_path / "found.json"
    statuses = [place(run, "--output", target)[0] for _ in range(2)]

    assert statuses == [0, 1]
    assert json.loads(target.read_text())["scopes"] == {"gradient_tape": "CPU:1"}


def test_a_run_without_a_step_gets_one_line(tmp_path):
    rows = [{"function": "step", "executions": 0, "is_step": True}]
    run = written(tmp_path, document(copy("a", 1), functions=rows, operations=[], graphs=[]))
    status, said, complained = place(run)

    assert (status, said) == (1, "")
    assert complained.startswith(f"Error: {run}: no training step was recorded completely\n")
