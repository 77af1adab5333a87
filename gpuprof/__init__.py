"""What moving data between devices costs a training run.

The names below are imported when they are first used, so that a training script that only
marks its epochs pays for nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprof.annotate import KerasCallback, epoch, step
    from gpuprof.comparisons import compare
    from gpuprof.errors import GpuprofError
    from gpuprof.profile import Origin, Profile
    from gpuprof.readers import read_profile
    from gpuprof.reports import report

__version__ = "0.1.0"

_HOME = {
    "GpuprofError": "gpuprof.errors",
    "KerasCallback": "gpuprof.annotate",
    "Origin": "gpuprof.profile",
    "Profile": "gpuprof.profile",
    "compare": "gpuprof.comparisons",
    "epoch": "gpuprof.annotate",
    "read_profile": "gpuprof.readers",
    "report": "gpuprof.reports",
    "step": "gpuprof.annotate",
}

__all__ = [
    "GpuprofError",
    "KerasCallback",
    "Origin",
    "Profile",
    "compare",
    "epoch",
    "read_profile",
    "report",
    "step",
]


if not TYPE_CHECKING:  # which would take any name for a public one, of any type

    def __getattr__(name: str) -> object:
        """Import a public name from its home on first use (PEP 562)."""
        if name not in _HOME:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
