"""Text that nvprof prints: a summary of kernels, copies and API calls."""

from pathlib import Path

from gpuprof.profile import Profile
from gpuprof.readers.contract import Reader


def read(path: Path) -> Profile:
    """Placeholder until the reader is written."""
    raise NotImplementedError(path)


READER = Reader("nvprof-text", "nvprof's printed summary", "CUDA 5.5 to 12", (), "", read)
