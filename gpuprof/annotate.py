"""Mark epochs and steps from a training script: ``gpuprof.epoch()`` and ``gpuprof.step()``.

Under ``gpuprof record`` every finished epoch is written to the run's folder at once, so that a
crash loses none. Where a profiler listens they are NVTX ranges too, if the ``nvtx`` package is
installed. Without either they only count, and the script runs as it would without them.
"""

import ctypes
import json
import operator
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, SupportsIndex

from gpuprof.base.manifest import EPOCHS_VARIABLE, MARKS, RUN_DIR_VARIABLE

# Set by Nsight Systems and by nvprof for the programs that they run.
_LISTENERS = ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", RUN_DIR_VARIABLE)


# As `gpuprof_window.py` in `launch/inject` has them, which works without gpuprof.
_RANKS = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
    "HOROVOD_RANK", "SLURM_PROCID",
)  # fmt: skip


class _Counters:
    """How many epochs this process has begun, and the steps of the one that runs."""

    epochs = 0
    steps = 0
    open_epochs = 0


class _EpochWindow:
    """The epochs to record: recorders are notified when they begin and end."""

    range: Any = None

    @classmethod
    def before(cls, number: int) -> None:
        """An epoch begins."""
        span = _recorded_epochs()
        if span and span[0] <= number < span[1] and cls.range is None:
            cls.range = _started_window()

    @classmethod
    def after(cls, number: int) -> None:
        """An epoch has ended."""
        span = _recorded_epochs()
        if span and number + 1 >= span[1] and cls.range is not None:
            cls.range()
            cls.range = None


@cache
def _recorded_epochs() -> tuple[int, int] | None:
    first, _, end = os.environ.get(EPOCHS_VARIABLE, "").partition(":")
    return (int(first), int(end)) if first.isdecimal() and end.isdecimal() else None


def _started_window() -> Callable[[], object]:
    """Open the window for every active recorder; returns the function that closes it."""
    nvtx, driver = _nvtx(), _driver()
    # The recorder inside the program, if there is one.
    inside = getattr(sys.modules.get("gpuprof_window"), "WINDOW", None)
    handle = None if nvtx is None else nvtx.start_range("gpuprof window", domain="gpuprof")
    if driver is not None:
        driver.cuProfilerStart()
    if inside is not None:
        inside.set_in_epochs(True)

    def close() -> None:
        if inside is not None:
            inside.set_in_epochs(False)
        if driver is not None:
            driver.cuProfilerStop()
        if nvtx is not None:
            nvtx.end_range(handle)

    return close


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


@contextmanager
def epoch(number: SupportsIndex | None = None) -> Iterator[None]:
    """Mark one epoch; it counts when it ends without an exception.

    Args:
        number: 0 for the first; by default the epochs of the process are counted.

    Example:
        >>> with gpuprof.epoch():
        ...     loader = iter(batches)
        ...     for _ in range(len(batches)):
        ...         with gpuprof.step():
        ...             train(next(loader))
    """
    number = _Counters.epochs if number is None else _integer(number)
    _Counters.epochs = number + 1
    _Counters.steps = 0
    _EpochWindow.before(number)
    started_ns, started = time.time_ns(), time.perf_counter()
    _Counters.open_epochs += 1
    try:
        with _range(f"epoch {number}"):
            yield
    finally:
        _Counters.open_epochs -= 1
    seconds = time.perf_counter() - started
    _EpochWindow.after(number)
    _append({
        "mark": "epoch",
        "epoch": number,
        "seconds": seconds,
        "steps": _Counters.steps or None,
        "started_at_unix_ns": started_ns,
        "process_id": os.getpid(),
        "rank": _rank(),
    })  # fmt: skip


@contextmanager
def step(number: SupportsIndex | None = None) -> Iterator[None]:
    """Mark one step of training, the loading of its batch included; it counts for its epoch.

    Args:
        number: 0 for the first of the epoch; by default they are counted.
    """
    number = _Counters.steps if number is None else _integer(number)
    with _range(f"step {number}"):
        yield
    _Counters.steps += 1


def is_in_epoch() -> bool:
    """Whether an epoch is marked that has not ended."""
    return _Counters.open_epochs > 0


def _integer(number: SupportsIndex) -> int:
    """A whole number, as of NumPy, as Python's own: only this goes into the run's marks."""
    try:
        return operator.index(number)
    except TypeError as error:
        kind = type(number).__name__
        msg = f"the number of an epoch or step must be an integer, not {kind}"
        raise TypeError(msg) from error


def _range(text: str) -> Any:
    nvtx = _nvtx()
    return nullcontext() if nvtx is None else nvtx.annotate(text, domain="gpuprof")


@cache
def _nvtx() -> Any:
    if not any(name in os.environ for name in _LISTENERS):
        return None
    try:
        import nvtx  # noqa: PLC0415 - optional, and only where a profiler listens
    except ImportError:
        return None
    return nvtx


def _rank() -> int | None:
    """This process's place in its job, as launchers tell it."""
    ranks = (os.environ.get(name, "") for name in _RANKS)
    return next((int(text) for text in ranks if text.isdecimal()), None)


def _append(mark: dict[str, Any]) -> None:
    """One line to the run's marks, in one write; a full disk must not end the training."""
    folder = os.environ.get(RUN_DIR_VARIABLE)
    if folder is None:
        return
    try:
        with (Path(folder) / MARKS).open("ab", buffering=0) as file:
            file.write(json.dumps(mark).encode() + b"\n")
    except OSError:
        return


@cache
def _keras_callback() -> type:
    import keras  # 2 s that only Keras scripts have paid already

    class KerasCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        """Marks the epochs and training steps of ``model.fit``.

        An epoch includes its validation, as Keras counts it. `gpuprof record --recorder
        tensorflow` does this by itself.

        Args:
            is_counted: Whether epochs go on from those of the process, as several calls of
                ``fit`` want it, instead of Keras' own numbers.

        Example:
            >>> model.fit(x, y, epochs=5, callbacks=[gpuprof.KerasCallback()])
        """

        def __init__(self, *, is_counted: bool = False) -> None:
            super().__init__()
            self.is_counted = is_counted

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            self._epoch = _opened(globals()["epoch"](None if self.is_counted else epoch))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            self._epoch.__exit__(None, None, None)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            self._step = _opened(step(batch))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            self._step.__exit__(None, None, None)
            _Counters.steps = batch + 1  # where Keras runs several steps at once

    return KerasCallback


def _opened(manager: Any) -> Any:
    manager.__enter__()
    return manager


def __getattr__(name: str) -> Any:
    """Make `KerasCallback` on first use (PEP 562), so that others do not import Keras."""
    if name == "KerasCallback":
        return _keras_callback()
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
