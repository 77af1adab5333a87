"""Record with Nsight Systems: ``nsys profile``, then ``nsys export`` to SQLite.

Written for 2022.2 and newer; options that a version lacks are left out. Source:
https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "CLI Profile Command Switch Options".
"""

import errno
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from gpuprof.base import nsight
from gpuprof.base.errors import MissingToolError, RecordError
from gpuprof.base.manifest import MARKS, RECORDER_LOG, RUN_DIR_VARIABLE
from gpuprof.base.nsight import scrub
from gpuprof.launch.contract import SIGNAL_BASE, Ended, LaunchedRun, Program, Recorded, Recorder
from gpuprof.launch.run import provenance
from gpuprof.launch.run.gpus import (
    Gpu,
    described_gpus,
    driver_cuda,
    driver_version,
    gpus,
    why_no_gpu,
)
from gpuprof.launch.run.window import DOMAIN, RANGE, in_seconds

REPORT: Final = "nsys.nsys-rep"
RAW: Final = "nsys.qdstrm"
EXPORT: Final = "nsys.sqlite"

# Cheap to trace, and they show what moved: ranges of libraries, and communication.
_TRACED: Final = ("cuda", "nvtx", "cublas", "cusparse", "cudnn", "cusolver", "nccl", "mpi", "ucx")
_ALWAYS: Final = ("cuda", "nvtx", "cublas", "cudnn")
_GPU_TABLES: Final = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)
_PUSH_POP, _START_END = 59, 60
_FULL: Final = "No space left on device"
# Sources: "GPU architectures starting with Pascal" and "any driver from 450 on" of the Nsight
# Systems Installation Guide.
_OLDEST_CAPABILITY: Final = (6, 0)
_OLDEST_DRIVER: Final = 450


def obstacle(_: Program) -> RecordError | None:
    """Not installed; without a GPU it still runs and says that it saw none."""
    if shutil.which("nsys") is not None:
        return None
    return MissingToolError(
        "nsys is not installed or not on PATH",
        "Get NVIDIA Nsight Systems from https://developer.nvidia.com/nsight-systems, or with "
        "`apt-get install nsight-systems-cli` from NVIDIA's repository.",
    )


def doubt() -> str | None:
    """Why it would record nothing here."""
    return incompatibility(gpus(), driver_version(), driver_cuda(), nsight.newest_cuda())


def incompatibility(
    gpus: Sequence[Gpu],
    driver: str | None,
    driver_cuda: tuple[int, int] | None,
    nsys_cuda: tuple[int, int] | None,
) -> str | None:
    """Why this nsys would record nothing, with status 0, in a clause; None where it is compatible.

    An nsys that is older than the driver's CUDA brings no tracer for it (``libcupti.so.*``).
    """
    if driver and int(driver.partition(".")[0]) < _OLDEST_DRIVER:
        return f"nsys needs driver {_OLDEST_DRIVER} or newer; this is {driver}"
    if nsys_cuda and driver_cuda and nsys_cuda[0] < driver_cuda[0]:
        newest, runs = ("{}.{}".format(*cuda) for cuda in (nsys_cuda, driver_cuda))
        return f"this nsys traces CUDA up to {newest}; the driver runs {runs}"
    old = [gpu for gpu in gpus if gpu.compute_capability < _OLDEST_CAPABILITY]
    if old:
        return f"nsys records Pascal and newer GPUs; {old[0].name} is older"
    return None


def command(run: LaunchedRun, arguments: tuple[str, ...]) -> list[str]:
    """``nsys profile`` before the program, with the options that this version has."""
    options = nsight.printed("nsys", "profile", "--help")
    words = ["nsys", "profile", f"--output={run.folder / REPORT}", "--force-overwrite=true"]
    offered = re.search(r"--trace=\s(.*?)Select the API", options, re.DOTALL)
    names = re.findall(r"'([\w-]+)'", offered[1]) if offered else []
    traced = [name for name in _TRACED if name in names] or _ALWAYS
    words.append(f"--trace={','.join(traced)}")
    # Without CPU samples the report takes a second to write, not many.
    words += ["--sample=none", "--cpuctxsw=none"]
    if not options or "--cuda-graph-trace" in options:
        # A graph recorded as a whole hides its kernels and copies.
        words.append("--cuda-graph-trace=node")
    # Only a part; the program itself runs on to its end.
    window = run.window
    captured = window.range_name if window.epochs is None else f"{RANGE}@{DOMAIN}"
    if captured is not None:
        # A range of whatever domain; nvtx of Python does not register its texts.
        name = captured if "@" in captured else f"{captured}@*"
        words += ["--capture-range=nvtx", f"--nvtx-capture={name}", "--capture-range-end=stop"]
    elif window.cuda_profiler:
        words += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    if window.delay_ns is not None:
        words.append(f"--delay={in_seconds(window.delay_ns)}")
    if window.duration_ns is not None:
        words += [f"--duration={in_seconds(window.duration_ns)}", "--kill=none"]
    return [*words, *arguments]


def environment(run: LaunchedRun) -> dict[str, str]:
    """What lets nsys see ranges whose texts are not registered, where it waits for one."""
    by_range = run.window.epochs is not None or run.window.range_name is not None
    unregistered = {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"} if by_range else {}
    return {**run.window.environment(), **unregistered}


def finish(run: LaunchedRun, ended: Ended) -> Recorded:
    """Export the report, and see whether it holds any GPU work.

    A report whose export has no room is kept, and read as it is.

    Raises:
        OSError: The disk is full, and there is no report.
    """
    if not (run.folder / REPORT).is_file() and not _import(run.folder):
        if _FULL in _log(run):
            raise OSError(errno.ENOSPC, _FULL)
        if run.window.options_set:
            reason = f"the part to record never came: {run.window.described()}"
            return Recorded(nothing_recorded=reason)
        return Recorded(nothing_recorded=_failure("nsys wrote no report", run))
    warnings = ["The run was stopped before its end."] if ended.interrupted else []
    # Nsys takes events over in pieces; Ctrl-C lets a Python program hand over the last one.
    number = ended.exit_status - SIGNAL_BASE
    if number > 0 and number != signal.SIGINT:
        lost = "events that nsys had not yet saved are lost."
        warnings.append(f"Signal {number} ended the program; {lost}")
    try:
        is_exported = _export(run.folder)
    except OSError as error:
        (run.folder / EXPORT).unlink(missing_ok=True)
        missing = f"{EXPORT} is missing ({error.strerror}); gpuprof reads {REPORT}."
        return Recorded((REPORT,), warnings=(missing, *warnings), devices=described_gpus())
    if not is_exported:
        reason = _failure("nsys could not export its report", run)
        return Recorded(nothing_recorded=f"{reason}; {REPORT} is kept")
    activities, ranges = _rows(run.folder / EXPORT)
    version = provenance.versions("nvtx").get("nvtx")
    if not ranges and (run.folder / MARKS).is_file() and version is not None:
        # Seen with nvtx 0.2.12 and newer under nsys 2023.4.4.
        warnings.append(
            "nsys recorded no NVTX range although the script marked epochs: nvtx"
            f" {version} may be too new for it (nvtx<0.2.12 works with nsys 2023.4)."
        )
    nothing = None if activities else f"nsys recorded no GPU work: {why_no_gpu()}"
    return Recorded(
        (EXPORT,), nothing_recorded=nothing, warnings=tuple(warnings), devices=described_gpus()
    )


def failed_to_start(run: LaunchedRun, ended: Ended) -> bool:
    """Nsys sometimes loses its own agent before the program runs, and says so."""
    lost = "Connection to Agent lost" in _log(run)
    return lost and not ended.output_bytes and not (run.folder / REPORT).exists()


def _import(folder: Path) -> bool:
    """Whether a report could be made of what nsys left raw: its own import sometimes fails."""
    raw, importer = folder / RAW, nsight.importer()
    if not raw.is_file() or importer is None:
        return False
    words = [importer, f"--input-file={raw}", f"--output-file={folder / REPORT}"]
    subprocess.run(
        words, capture_output=True, start_new_session=True, check=False, env=_of_run(folder)
    )
    if not (folder / REPORT).is_file():
        return False
    raw.unlink()
    return True


def _export(folder: Path) -> bool:
    """Whether the export is there and whole: nsys ends with 0 even where the disk was full.

    Raises:
        OSError: The disk is full.
    """
    report, export = str(folder / REPORT), folder / EXPORT
    words = ["nsys", "export", "--type=sqlite", "--force-overwrite=true", f"--output={export}"]
    # In a session of its own: a second Ctrl-C must not leave half an export.
    export_process = subprocess.run(
        [*words, report],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        check=False,
        env=_of_run(folder),
    )
    is_full = b"disk is full" in export_process.stdout
    if is_full:
        export.unlink(missing_ok=True)
    with suppress(OSError), (folder / RECORDER_LOG).open("ab") as log:
        log.write(export_process.stdout)
    if is_full:
        raise OSError(errno.ENOSPC, _FULL)
    if export_process.returncode == 0 and export.is_file() and export.stat().st_size:
        scrub(export)
        return True
    export.unlink(missing_ok=True)
    return False


def _of_run(folder: Path) -> dict[str, str]:
    """The environment of a process of the run, by which it is known where it must be ended."""
    return {**os.environ, RUN_DIR_VARIABLE: str(folder)}


def _rows(export: Path) -> tuple[int, int]:
    """Rows of GPU activities, and whole NVTX ranges; a table without rows is left out by nsys."""
    with closing(sqlite3.connect(f"{export.as_uri()}?mode=ro", uri=True)) as connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        activities = sum(
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in there.intersection(_GPU_TABLES)
        )
        ranges = 0
        if "NVTX_EVENTS" in there:
            query = "SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (?, ?)"
            ranges = connection.execute(query, (_PUSH_POP, _START_END)).fetchone()[0]
    return activities, ranges


def _failure(problem: str, run: LaunchedRun) -> str:
    """What went wrong, with the first complaint of nsys."""
    lines = _log(run).replace("\r", "\n").splitlines()
    errors = [line.strip() for line in lines if re.search("fail|error", line, re.IGNORECASE)]
    return f"{problem}: {errors[0]}" if errors else problem


def _log(run: LaunchedRun) -> str:
    path = run.folder / RECORDER_LOG
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


RECORDER: Final = Recorder(
    name="nsys",
    title="NVIDIA Nsight Systems: every kernel and copy of the GPUs, NVTX ranges, CUDA calls",
    obstacle=obstacle,
    finish=finish,
    command=command,
    versions=lambda: {"nsys": nsight.version("nsys") or "unknown"},
    environment=environment,
    retry=failed_to_start,
    doubt=doubt,
    windows=frozenset(("delay_ns", "duration_ns", "epochs", "range_name", "cuda_profiler")),
)
