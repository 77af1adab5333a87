"""What moving data between devices costs a training run.

The names below are imported when they are first used, so that a training script that only
marks its epochs pays for nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprof.annotate import KerasCallback, epoch, step
    from gpuprof.api.compare import ComparisonResult, compare
    from gpuprof.api.metrics import metrics
    from gpuprof.api.plot import plot
    from gpuprof.api.record import RecordedRun, record
    from gpuprof.api.report import ReportResult, report
    from gpuprof.api.sweep import SweepResult, sweep
    from gpuprof.base.errors import GpuprofError, QueryError
    from gpuprof.model.origin import Origin
    from gpuprof.model.profile import Profile
    from gpuprof.readers import read_profile

__version__ = "0.1.0"

_HOME = {
    "ComparisonResult": "gpuprof.api.compare",
    "GpuprofError": "gpuprof.base.errors",
    "KerasCallback": "gpuprof.annotate",
    "Origin": "gpuprof.model.origin",
    "Profile": "gpuprof.model.profile",
    "QueryError": "gpuprof.base.errors",
    "RecordedRun": "gpuprof.api.record",
    "ReportResult": "gpuprof.api.report",
    "SweepResult": "gpuprof.api.sweep",
    "compare": "gpuprof.api.compare",
    "epoch": "gpuprof.annotate",
    "metrics": "gpuprof.api.metrics",
    "plot": "gpuprof.api.plot",
    "read_profile": "gpuprof.readers",
    "record": "gpuprof.api.record",
    "report": "gpuprof.api.report",
    "step": "gpuprof.annotate",
    "sweep": "gpuprof.api.sweep",
}

__all__ = [
    "ComparisonResult",
    "GpuprofError",
    "KerasCallback",
    "Origin",
    "Profile",
    "QueryError",
    "RecordedRun",
    "ReportResult",
    "SweepResult",
    "compare",
    "epoch",
    "metrics",
    "plot",
    "read_profile",
    "record",
    "report",
    "step",
    "sweep",
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
