"""No profiler: the program runs as it is, and only its time and its marked epochs are kept."""

from typing import Final

from gpuprof.errors import RecordError
from gpuprof.launch.contract import Ended, Program, Recorded, Recorder, Run
from gpuprof.manifest import UNRECORDED


def _obstacle(_: Program) -> RecordError | None:
    """Nothing can be in the way of no profiler."""
    return None


def _finish(_run: Run, _ended: Ended) -> Recorded:
    return Recorded(nothing_recorded="it was only timed, as asked for with --recorder none")


RECORDER: Final = Recorder(
    name=UNRECORDED,
    title="No profiler: only the program's time and the epochs that it marks",
    obstacle=_obstacle,
    finish=_finish,
)
