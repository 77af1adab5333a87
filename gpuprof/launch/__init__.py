"""Run a program under a profiler: each recorder is one file and one line in `RECORDERS`.

Recording and analysing share only a file on disk.
"""

from typing import Final

from gpuprof.launch.contract import Recorder
from gpuprof.launch.recorders import cupti, jax, nsys, nvprof, tensorflow, torch, unrecorded

RECORDERS: Final[tuple[Recorder, ...]] = (
    nsys.RECORDER,
    cupti.RECORDER,
    nvprof.RECORDER,
    tensorflow.RECORDER,
    torch.RECORDER,
    jax.RECORDER,
    unrecorded.RECORDER,
)
