"""The marks that the recorder adds to Keras' ``fit``, without Keras."""

import importlib
import sys
import types

import pytest

import gpuprof
from gpuprof import annotate
from gpuprof.launch.recorders.in_process import INJECT


@pytest.fixture
def fit(monkeypatch):
    """``fit`` as the recorder leaves it, which gives the callbacks that it got."""
    monkeypatch.syspath_prepend(str(INJECT))
    keras = types.ModuleType("keras")
    keras.callbacks = types.SimpleNamespace(Callback=object)
    monkeypatch.setitem(sys.modules, "keras", keras)
    annotate._keras_callback.cache_clear()  # noqa: SLF001 - made anew
    hook = importlib.import_module("gpuprof_tensorflow_fit")

    class Trainer:
        def fit(self, x=None, epochs=1, callbacks=None):
            """Train."""
            return x, epochs, callbacks

    trainer = types.ModuleType("trainer")
    trainer.TensorFlowTrainer = Trainer
    monkeypatch.setitem(sys.modules, "keras.src.backend.tensorflow.trainer", trainer)
    hook.watch()
    yield Trainer().fit
    annotate._keras_callback.cache_clear()  # noqa: SLF001 - made anew


def is_marking(callback):
    return isinstance(callback, gpuprof.KerasCallback)


def test_fit_gets_a_callback_that_marks_behind_the_scripts_own(fit):
    callback = object()

    x, epochs, callbacks = fit(5, callbacks=[callback], epochs=3)

    assert (x, epochs, callbacks[0]) == (5, 3, callback)
    assert [is_marking(c) for c in callbacks] == [False, True]
    assert fit.__doc__ == "Train."
    assert is_marking(fit(5)[2][0])


def test_a_script_that_marks_itself_is_left_alone(fit):
    callbacks = [gpuprof.KerasCallback()]

    assert fit(callbacks=callbacks)[2] is callbacks
    with gpuprof.epoch():
        assert fit()[2] is None
    with pytest.raises(RuntimeError), gpuprof.epoch():
        raise RuntimeError
    assert is_marking(fit()[2][0])


def test_a_list_that_keras_has_already_made_is_added_to(fit):
    class CallbackList:
        def __init__(self):
            self.callbacks = []

        def append(self, callback):
            self.callbacks.append(callback)

    callback_list = CallbackList()

    assert fit(callbacks=callback_list)[2] is callback_list
    assert [is_marking(c) for c in callback_list.callbacks] == [True]


def test_a_call_that_is_wrong_is_kerass_to_refuse(fit):
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        fit(wrong=1)


def test_steps_that_keras_runs_at_once_all_count(fit, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUPROF_RUN_DIR", str(tmp_path))
    [callback] = fit()[2]
    for _ in range(2):  # two calls of fit, whose epochs Keras numbers alike
        callback.on_epoch_begin(0)
        for first in (0, 4):
            callback.on_train_batch_begin(first)
            callback.on_train_batch_end(first + 3)
        callback.on_epoch_end(0)

    marks = "".join(path.read_text() for path in tmp_path.iterdir())
    assert marks.count('"steps": 8') == 2
