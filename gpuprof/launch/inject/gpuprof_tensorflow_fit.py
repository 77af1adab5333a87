"""Marks the epochs and steps of Keras' ``model.fit``, unless the script marks its own."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from gpuprof_importing import when_imported

_TRAINER = "keras.src.backend.tensorflow.trainer"
_GPUPROF = str(Path(__file__).resolve().parents[3])


def watch() -> None:
    """Mark what ``fit`` trains, as soon as Keras has been imported."""
    when_imported(_TRAINER, _mark)


def _mark(trainer: Any) -> None:
    original = trainer.TensorFlowTrainer.fit
    signature = inspect.signature(original)

    def fit(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
            callbacks = _with_marks(bound.arguments.get("callbacks"))
        except Exception as error:  # noqa: BLE001 - Keras says what is wrong with a call
            del error
            return original(*args, **named)
        bound.arguments["callbacks"] = callbacks
        return original(*bound.args, **bound.kwargs)

    fit.__doc__, fit.__name__ = original.__doc__, original.__name__
    setattr(fit, "__signature__", signature)  # noqa: B010 - Keras looks at it
    trainer.TensorFlowTrainer.fit = fit


def _with_marks(callbacks: Any) -> Any:
    """The callbacks and one that marks; as they are where the script marks epochs itself."""
    try:
        annotate = importlib.import_module("gpuprof.annotate")
    except ImportError:  # the script's Python has no gpuprof: take that beside this file
        sys.path.append(_GPUPROF)
        try:
            annotate = importlib.import_module("gpuprof.annotate")
        finally:
            sys.path.remove(_GPUPROF)
    several = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    listed = getattr(callbacks, "callbacks", None) or [c for c in several if c is not None]
    if annotate.is_in_epoch() or any(isinstance(c, annotate.KerasCallback) for c in listed):
        return callbacks
    marks = annotate.KerasCallback(is_counted=True)
    if hasattr(callbacks, "append") and hasattr(callbacks, "callbacks"):
        callbacks.append(marks)  # a CallbackList, which Keras takes as it is
        return callbacks
    return [*listed, marks]
