"""Marks of epochs and steps: written at once under a recorder, and nothing without one."""

# ruff: noqa: SLF001 - what a process counted and looked up once is forgotten between tests

import json
import os
import subprocess
import sys
import types

import pytest
from commands import PYTHONPATH

import gpuprof
from gpuprof import annotate
from gpuprof.base.manifest import MARKS, RUN_DIR_VARIABLE
from gpuprof.launch.run.marks import marked, mean_seconds


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(annotate._Counters, "epochs", 0)
    monkeypatch.setattr(annotate._Counters, "steps", 0)
    for name in annotate._LISTENERS:
        monkeypatch.delenv(name, raising=False)
    annotate._nvtx.cache_clear()
    yield
    annotate._nvtx.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    return tmp_path


def marks(folder):
    return [json.loads(line) for line in (folder / MARKS).read_text().splitlines()]


def run(code):
    """A program in a process of its own, which finds the package."""
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=False, timeout=120
    )


def test_nothing_is_written_without_a_recorder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with gpuprof.epoch(), gpuprof.step():
        pass

    assert list(tmp_path.iterdir()) == []


def test_epochs_are_numbered_and_count_their_steps(folder):
    with gpuprof.epoch():
        for _ in range(3):
            with gpuprof.step():
                pass
    with gpuprof.epoch():
        pass
    with gpuprof.epoch(7):
        pass
    with gpuprof.epoch():
        pass

    assert [(m["epoch"], m["steps"]) for m in marks(folder)] == [
        (0, 3),
        (1, None),
        (7, None),
        (8, None),
    ]
    assert {m["process_id"] for m in marks(folder)} == {os.getpid()}


def test_epoch_that_fails_is_no_epoch(folder):
    with pytest.raises(ValueError, match="7"), gpuprof.epoch():
        raise ValueError(7)

    assert not (folder / MARKS).exists()


def test_marks_outlive_a_crash(folder):
    code = (
        "import gpuprof, os\n"
        "with gpuprof.epoch():\n    pass\n"
        "with gpuprof.epoch():\n    os.kill(os.getpid(), 9)\n"
    )
    run(code)

    assert [m["epoch"] for m in marks(folder)] == [0]


def test_full_disk_does_not_end_the_training(tmp_path, monkeypatch):
    (tmp_path / MARKS).symlink_to("/dev/full")
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    with gpuprof.epoch():
        pass


def test_nvtx_ranges_are_opened_where_a_profiler_listens(monkeypatch):
    opened = []

    class Range:
        def __init__(self, text, domain):
            self.text = (text, domain)

        def __enter__(self):
            opened.append(self.text)

        def __exit__(self, *_):
            opened.append("closed")

    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/injection.so")
    monkeypatch.setitem(sys.modules, "nvtx", types.SimpleNamespace(annotate=Range))
    with gpuprof.epoch(), gpuprof.step():
        pass

    assert opened == [("epoch 0", "gpuprof"), ("step 0", "gpuprof"), "closed", "closed"]


def test_nvtx_that_is_not_installed_changes_nothing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with gpuprof.epoch(), gpuprof.step():
        pass

    assert len(marks(folder)) == 1


def test_mean_is_over_the_marked_epochs(tmp_path):
    lines = [
        {"mark": "epoch", "epoch": i, "seconds": s, "steps": 16, "process_id": 1}
        for i, s in enumerate([3.0, 1.0, 2.0])
    ]
    (tmp_path / MARKS).write_text("\n".join(map(json.dumps, lines)))
    epochs, _, warnings = marked(tmp_path)

    assert epochs[0] == {"epoch": 0, "seconds": 3.0, "steps": 16}
    assert mean_seconds(epochs) == 2.0
    assert warnings == ()


def test_no_marks_are_no_epochs_and_no_mean(tmp_path):
    assert marked(tmp_path) == ((), (), ())
    assert mean_seconds(()) is None


def test_line_that_was_cut_off_is_left_out(tmp_path):
    line = '{"epoch": 0, "seconds": 1.0, "steps": null, "process_id": 1}\n'
    (tmp_path / MARKS).write_text(line + line[:20])

    epochs, _, _ = marked(tmp_path)

    assert len(epochs) == 1


def test_workers_epochs_are_not_added_up(tmp_path):
    line = '{{"epoch": {}, "seconds": 1.0, "steps": null, "process_id": {}}}\n'
    text = "".join(line.format(e, p) for e in range(2) for p in (8, 9))
    (tmp_path / MARKS).write_text(text)
    epochs, _, warnings = marked(tmp_path)

    assert [e["epoch"] for e in epochs] == [0, 1]
    assert warnings == ("2 processes marked epochs; those of the first to end one are kept.",)


def test_epochs_of_the_lowest_rank_are_kept_and_every_rank_is_listed(tmp_path):
    lines = [
        {"epoch": 0, "seconds": float(s), "steps": None, "process_id": 7 + r, "rank": r}
        for r, s in ((2, 2), (0, 3), (1, 4))
    ]
    (tmp_path / MARKS).write_text("\n".join(map(json.dumps, lines)))
    epochs, processes, doubts = marked(tmp_path)

    assert epochs == ({"epoch": 0, "seconds": 3.0, "steps": None},)
    assert [(p["rank"], p["seconds_per_epoch"]) for p in processes] == [
        (0, 3.0), (1, 4.0), (2, 2.0),
    ]  # fmt: skip
    assert doubts == ("3 processes marked epochs; those of rank 0 are kept.",)


def test_keras_callback_marks_what_fit_does(folder, monkeypatch):
    keras = types.ModuleType("keras")
    keras.callbacks = types.SimpleNamespace(Callback=object)
    monkeypatch.setitem(sys.modules, "keras", keras)
    annotate._keras_callback.cache_clear()
    callback = gpuprof.KerasCallback()
    annotate._keras_callback.cache_clear()
    for epoch in range(2):
        callback.on_epoch_begin(epoch)
        for batch in range(4):
            callback.on_train_batch_begin(batch)
            callback.on_train_batch_end(batch)
        callback.on_epoch_end(epoch)

    assert [(m["epoch"], m["steps"]) for m in marks(folder)] == [(0, 4), (1, 4)]


def test_marking_imports_nothing_heavy():
    code = (
        "import sys, gpuprof\nwith gpuprof.epoch(): pass\n"
        "print({'keras', 'tensorflow', 'numpy', 'pyarrow', 'nvtx', 'click'} & sys.modules.keys())"
    )

    assert run(code).stdout.strip() == b"set()"


@pytest.mark.tensorflow
def test_keras_callback_marks_a_real_fit(folder):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    code = (
        "import keras, numpy as np, gpuprof\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile(loss='mse')\n"
        "x = np.zeros((8, 2)); y = np.zeros((8, 1))\n"
        "model.fit(x, y, batch_size=2, epochs=3, verbose=0, callbacks=[gpuprof.KerasCallback()])\n"
    )
    run(code).check_returncode()

    assert [(m["epoch"], m["steps"]) for m in marks(folder)] == [(0, 4), (1, 4), (2, 4)]
