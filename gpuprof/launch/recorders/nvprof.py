"""Record with nvprof, for GPUs up to compute capability 7.5: a database, and its summary.

The database (``nvprof-<pid>.nvvp``, one per process that used a GPU) holds the whole trace; the
summary is printed from it afterwards into ``nvprof-<pid>.txt``, as ``-o`` leaves it out.
Source: https://docs.nvidia.com/cuda/profiler-users-guide/index.html, chapter "nvprof".
"""

import re
import shutil
import subprocess
from typing import Final

from gpuprof.base import nsight
from gpuprof.base.errors import MissingToolError, RecordError
from gpuprof.launch.contract import SIGNAL_BASE, Ended, LaunchedRun, Program, Recorded, Recorder
from gpuprof.launch.run.gpus import described_gpus, gpus, why_no_gpu

NEWEST_COMPUTE_CAPABILITY: Final = (7, 5)

# nvprof's own exit statuses where the program failed or was killed by a signal.
_RETURNED: Final = re.compile(r"Application returned non-zero code (\d+)")
_KILLED: Final = re.compile(r"Application received signal (\d+)")
_NO_DRIVER: Final = "unable to locate cuda driver library"


def obstacle(_: Program) -> RecordError | None:
    """Not installed, or the GPUs are too new for it."""
    if shutil.which("nvprof") is None:
        return MissingToolError(
            "nvprof is not installed or not on PATH",
            "It comes with the CUDA toolkit up to 12.x (on Debian and Ubuntu: `apt-get install "
            "nvidia-profiler`).",
        )
    new = [gpu for gpu in gpus() if gpu.compute_capability > NEWEST_COMPUTE_CAPABILITY]
    if new and len(new) == len(gpus()):
        major, minor = new[0].compute_capability
        return RecordError(
            f"nvprof cannot profile {new[0].name} (compute capability {major}.{minor}); it "
            "supports up to 7.5",
            "Use --recorder nsys.",
        )
    return None


def command(run: LaunchedRun, arguments: tuple[str, ...]) -> list[str]:
    """Nvprof before the program; all that it says goes to files of the run's folder."""
    stem = str(run.folder).replace("%", "%%")
    files = ["--export-profile", f"{stem}/nvprof-%p.nvvp", "--log-file", f"{stem}/nvprof-%p.log"]
    # The program says when, by cudaProfilerStart; gpuprof.epoch does so for the epochs asked for.
    start = ["--profile-from-start", "off"] if run.window.options_set else []
    return ["nvprof", "--profile-child-processes", *start, *files, *arguments]


def finish(run: LaunchedRun, ended: Ended) -> Recorded:
    """Print the summaries, and recover the exit status that nvprof keeps for itself."""
    logs = sorted(run.folder.glob("nvprof-*.log"))
    log = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)
    databases = sorted(run.folder.glob("nvprof-*.nvvp"))
    for database in databases:
        text = str(database.with_suffix(".txt")).replace("%", "%%")
        words = ["nvprof", "--import-profile", str(database), "--print-summary", "--log-file", text]
        subprocess.run(words, capture_output=True, start_new_session=True, check=False)
    why = "no NVIDIA driver here" if _NO_DRIVER in log else why_no_gpu()
    # nvprof ends with 9 or 15 of its own; the program's status is in its words.
    returned, killed = _RETURNED.findall(log), _KILLED.findall(log)
    status = ended.exit_status if not killed else SIGNAL_BASE + int(killed[-1])
    # gpuprof reports a missing driver itself.
    warned = re.findall(r"^==.*?Warning: (.*)$", log, re.MULTILINE)
    expected = (_NO_DRIVER, "No profile data collected")
    new = dict.fromkeys(line.strip() for line in warned if not line.startswith(expected))
    return Recorded(
        recordings=tuple(database.name for database in databases),
        exit_status=int(returned[-1]) if returned else status,
        nothing_recorded=None if databases else f"nvprof recorded no GPU work: {why}",
        warnings=tuple(f'nvprof warned: "{line}"' for line in new),
        devices=described_gpus(),
    )


RECORDER: Final = Recorder(
    name="nvprof",
    title="nvprof: every kernel and copy of GPUs up to compute capability 7.5",
    obstacle=obstacle,
    finish=finish,
    command=command,
    environment=lambda run: run.window.environment(),
    versions=lambda: {"nvprof": nsight.version("nvprof") or "unknown"},
    windows=frozenset(("epochs", "cuda_profiler")),
)
