"""No profiler: the program runs unchanged, and only its time and its marked epochs are kept."""

from typing import Final

from gpuprof.base.labels import TIMING_ONLY
from gpuprof.launch.contract import Recorded, Recorder

RECORDER: Final = Recorder(
    name=TIMING_ONLY,
    title="No profiler: only the program's time and the epochs that it marks",
    obstacle=lambda _: None,
    finish=lambda *_: Recorded(
        nothing_recorded="it was only timed, as asked for with --recorder none"
    ),
)
