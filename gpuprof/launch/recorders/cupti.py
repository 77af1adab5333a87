"""CUDA's own activity records, taken inside the process by NVIDIA's cupti-python.

For machines with a GPU and no nsys. `inject/gpuprof_cupti.py` leaves rows of integers per process;
they become ``cupti-<pid>/<table>.parquet`` here, whole rows only.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from gpuprof.base import json_input
from gpuprof.base.errors import RecordError
from gpuprof.launch.contract import Ended, LaunchedRun, Program, Recorded, Recorder
from gpuprof.launch.recorders import in_process
from gpuprof.launch.run.gpus import driver_cuda, why_no_gpu
from gpuprof.launch.run.provenance import versions

NAME: Final = "cupti"
PROCESS: Final = "process.json"
TEXTS: Final = "texts"
# Rows at a time: some 100 MB.
_ROWS: Final = 1 << 20
_GPU_TABLES: Final = ("kernels", "memcpys", "peer_memcpys", "memsets")


def obstacle(program: Program) -> RecordError | None:
    """No driver, or the package is missing."""
    if driver_cuda() is None:
        return RecordError("CUPTI needs NVIDIA's driver, and there is none here")
    return in_process.obstacle(program, NAME, "cupti-python")


def doubt() -> str | None:
    """CUPTI of a CUDA that the driver does not run records nothing."""
    runs = driver_cuda()
    version = versions("cupti-python").get("cupti-python", "")
    major = version.partition(".")[0]
    if runs is None or not major.isdecimal() or int(major) <= runs[0]:
        return None
    return f"cupti-python {version} needs CUDA {major}, and the driver runs {runs[0]}.{runs[1]}"


def environment(run: LaunchedRun) -> dict[str, str]:
    """What loads the recorder, and CUPTI's library for ranges."""
    # CUPTI takes NVTX ranges where NVTX loads the library that CUPTI's own package brings.
    spec = find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    libraries = (path for place in places for path in Path(place).glob("cu*/lib/libcupti.so.*"))
    library = next(libraries, None)
    ranges = {} if library is None else {"NVTX_INJECTION64_PATH": str(library)}
    return {**in_process.environment(run, NAME), **ranges}


def finish(run: LaunchedRun, _: Ended) -> Recorded:
    """Rewrite what each process left, and say what there is or why there is nothing."""
    folders = sorted(p for p in run.folder.glob(f"{NAME}-*") if p.is_dir())
    rows = {folder.name: _to_parquet(folder) for folder in folders}
    files = {name: any(counts.get(t) for t in _GPU_TABLES) for name, counts in rows.items()}

    def nothing(warnings: Sequence[str]) -> str:
        return f"CUPTI recorded no GPU work: {'; '.join(warnings) or why_no_gpu()}"

    return in_process.recorded(run, NAME, files, nothing)


def _to_parquet(folder: Path) -> dict[str, int]:
    """Rewrite the rows of one process, some at a time; how many each table has."""
    # Only this recorder needs them, and only at its end.
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns: dict[str, list[str]] = in_process.document(folder / PROCESS).get("columns", {})
    counts = {}
    for table, names in columns.items():
        raw, width = folder / f"{table}.rows", len(names)
        # Whole rows: the last may have broken off with its program.
        counts[table] = raw.stat().st_size // (8 * width) if raw.exists() else 0
        schema = pa.schema([(name, pa.uint64()) for name in names])
        with pq.ParquetWriter(folder / f"{table}.parquet", schema, compression="zstd") as writer:
            for first in range(0, counts[table], _ROWS):
                count = min(_ROWS, counts[table] - first)
                values = np.fromfile(raw, np.uint64, count * width, offset=8 * first * width)
                writer.write_table(pa.table([*values.reshape(-1, width).T], schema=schema))
        raw.unlink(missing_ok=True)
    lines = folder / f"{TEXTS}.jsonl"
    texts = pa.array(json_input.lines(lines), pa.string())
    pq.write_table(pa.table({"text": texts}), folder / f"{TEXTS}.parquet")
    lines.unlink(missing_ok=True)
    return counts


RECORDER: Final = Recorder(
    name=NAME,
    title="NVIDIA's CUPTI inside the process: kernels, copies, CUDA calls, NVTX; no nsys needed",
    obstacle=obstacle,
    finish=finish,
    environment=environment,
    versions=lambda: versions("cupti-python"),
    doubt=doubt,
    windows=in_process.WINDOWS,
)
