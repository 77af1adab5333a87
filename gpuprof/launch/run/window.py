"""Which part of a run is recorded: a span of time, of epochs, of a range, or what it asks for."""

from dataclasses import dataclass, fields
from typing import Final

from gpuprof.base.errors import UsageError
from gpuprof.base.manifest import EPOCHS_VARIABLE
from gpuprof.base.units import NS_PER_S, say_ns

# As `gpuprof.annotate` names the range around the epochs that are to be recorded.
RANGE: Final = "gpuprof window"
DOMAIN: Final = "gpuprof"


@dataclass(frozen=True)
class CaptureWindow:
    """The part of a run to record; all of it where nothing is set.

    Args:
        delay_ns: Since the program's start, before which nothing is recorded.
        duration_ns: For how long it is recorded.
        epochs: First epoch and the one after the last, as `gpuprof.epoch` counts them.
        range_name: NVTX range whose first occurrence is recorded.
        cuda_profiler: Whether the program says, by cudaProfilerStart and cudaProfilerStop.
    """

    delay_ns: int | None = None
    duration_ns: int | None = None
    epochs: tuple[int, int] | None = None
    range_name: str | None = None
    cuda_profiler: bool = False

    @property
    def options_set(self) -> tuple[str, ...]:
        """Names of the fields that are set."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) not in (None, False))

    def environment(self) -> dict[str, str]:
        """What the program is to know of it."""
        return {} if self.epochs is None else {EPOCHS_VARIABLE: "{}:{}".format(*self.epochs)}

    def described(self) -> str:
        """In words: ``epochs 2 to 3``, ``1.5 s after 20.000 s``."""
        parts = []
        if self.epochs is not None:
            first, end = self.epochs
            parts.append(f"epoch {first}" if end == first + 1 else f"epochs {first} to {end - 1}")
        if self.duration_ns is not None:
            parts.append(f"{say_ns(self.duration_ns)} of time")
        if self.delay_ns is not None:
            parts.append(f"what came after {say_ns(self.delay_ns)}")
        if self.range_name is not None:
            parts.append(f"the first range {self.range_name}")
        if self.cuda_profiler:
            parts.append("between cudaProfilerStart and cudaProfilerStop")
        return ", ".join(parts)


WHOLE_RUN: Final = CaptureWindow()
_OPTIONS: Final = {
    "delay_ns": "--delay",
    "duration_ns": "--duration",
    "epochs": "--epochs",
    "range_name": "--range",
    "cuda_profiler": "--cuda-profiler",
}


def check_window(window: CaptureWindow, recorder: str, able: frozenset[str]) -> None:
    """Refuse options that the recorder does not support, or that exclude each other.

    Raises:
        UsageError: Names the options, and those that are supported.
    """
    times = {"delay_ns", "duration_ns"}
    if len(window.options_set) > 1 and not set(window.options_set) <= times:
        options = " and ".join(_OPTIONS[name] for name in window.options_set)
        msg = f"{options} cannot be combined"
        raise UsageError(msg, "Only --delay and --duration can be combined.")
    for name in window.options_set:
        if name not in able:
            msg = f"the recorder {recorder} does not support {_OPTIONS[name]}"
            alternatives = ", ".join(_OPTIONS[n] for n in _OPTIONS if n in able)
            raise UsageError(msg, f"It supports {alternatives}." if alternatives else None)


def in_seconds(time_ns: int) -> str:
    """A time as profilers take it."""
    return f"{time_ns / NS_PER_S:g}"
