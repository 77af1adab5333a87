"""The recordings that a file of `nsys stats` holds: sums and traces, as tables."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.units import counted
from gpuprof.model import schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, Section
from gpuprof.readers.nsys_stats.numerals import styles
from gpuprof.readers.nsys_stats.printed_trace import api_calls, gpu_tables, has_no_clock, sums
from gpuprof.readers.nsys_stats.rows import Row, summary_rows
from gpuprof.readers.nsys_stats.runs import Run, jobs, kind
from gpuprof.readers.nsys_stats.scan import Scan

_RECORD: Final = "Record with `gpuprof record`, or with `nsys profile --trace=cuda`."
_OF_CUDA: Final = ("CUDA trace data", "CUDA kernel data", "GPU memory data", "GPU trace data")
_GPU_KINDS: Final = ("kernel", "memcpy", "memset")


def profile(path: Path, scan: Scan) -> Profile:
    """The recording of a file, with its sections where it holds several.

    Raises:
        EmptyRecordingError: nsys found nothing of CUDA to print.
        CorruptFileError: No report of nsys is in it.
        FaultError: A cell that must hold a number does not.
    """
    parts = [
        replace(block, kind=name, style=style)
        for block, style in zip(scan.blocks, styles(scan.blocks), strict=True)
        if (name := kind(block)) is not None and block.num_rows
    ]
    if not parts:
        raise _nothing(path, scan)
    recordings, of_gpus = [], []
    for job in jobs(parts):
        note = (
            f"Sums are over {len(job)} processes of one job. Their reports have no labels and are "
            "matched by their order."
        )
        recording = _recording(path, scan, job, [note] if len(job) > 1 else [])
        # The file that the reports of the job sum up, where they say.
        sources = {
            block.report.source for run in job for of_kind in run.values() for block in of_kind
        }
        name = next((source for source in sources if source), "")
        recordings.append((job, Section(name, None, recording)))
        if recording.has("activity_summary"):
            kinds = recording.table("activity_summary")["activity_kind"].to_pylist()
            has_gpu_work = not {*_GPU_KINDS}.isdisjoint(kinds)
        else:
            has_gpu_work = recording.has("kernels")
        of_gpus += recordings[-1:] if has_gpu_work else []
    chosen = of_gpus or recordings
    if len(chosen) == 1:
        return chosen[0][1].profile
    together = _recording(path, scan, [run for job, _ in chosen for run in job])
    return replace(together, sections=tuple(section for _, section in chosen))


def _recording(
    path: Path, scan: Scan, recorded: Sequence[Run], notes: Sequence[str] = ()
) -> Profile:
    """The recording of some runs of a file."""
    tables, warnings = _traces(recorded)
    has_several = len(recorded) > 1
    # All sums, where not every one of them follows from the traces.
    rows: list[Row] = []
    for number, run in enumerate(recorded):
        run_rows = summary_rows(run)
        is_missing = not any(row["activity_kind"] in _GPU_KINDS for row in run_rows)
        if run.get("gpu_trace") and is_missing and (run_rows or not tables):
            run_rows += sums(gpu_tables(run["gpu_trace"][0]))
        rows += [{**row, "run_id": number if has_several else None} for row in run_rows]
    if rows:
        tables["activity_summary"] = schema.ACTIVITY_SUMMARY.table(rows)
    if has_several:
        tables["runs"] = schema.RUNS.table([{"run_id": n} for n in range(len(recorded))])
    warnings = [*scan.doubts, *warnings, *notes]
    if any(block.is_cut for block in scan.blocks):
        warnings.append("The file ends in the middle of a row, which is left out.")
    if cut := sum(row["name"].endswith("…") for row in rows):
        names = counted(cut, "name was", "names were")
        warnings.append(f"{names} cut to the width of the table; two may be of one kernel.")
    origin = Origin(
        source=path,
        reader="nsys-stats",
        tool="nsys",
        warnings=tuple(warnings),
        exporter_version=scan.version,
    )
    return Profile(origin, tables)


def _traces(recorded: Sequence[Run]) -> tuple[dict[str, pa.Table], list[str]]:
    """The trace tables of a file of one recording, and why they are left out of another's."""
    tables: dict[str, pa.Table] = {}
    warnings = []
    gpu = [part for run in recorded for part in run.get("gpu_trace", ())]
    api = [part for run in recorded for part in run.get("api_trace", ())]
    if len(gpu) > 1 or len(api) > 1:
        return {}, ["Traces of several recordings share no clock; only their sums are read."]
    if gpu:
        tables = gpu_tables(gpu[0])
    if has_no_clock(tables):
        tables = {}
        warnings.append("The trace has starts in whole seconds only; only its sums are read.")
    if api:
        tables["api_calls"] = api_calls(api[0])
    return tables, warnings


def _nothing(path: Path, scan: Scan) -> Exception:
    if scan.skipped:
        of_cuda = [report for report in scan.skipped if report in _OF_CUDA]
        reports = ", ".join(dict.fromkeys(of_cuda or scan.skipped))
        return EmptyRecordingError(f"{path}: nsys found no {reports}", _RECORD)
    if any(kind(block) for block in scan.blocks):
        return EmptyRecordingError(f"{path}: the report of nsys has no rows", _RECORD)
    if scan.blocks or scan.report.name:
        return EmptyRecordingError(f"{path}: has no report on CUDA", _RECORD)
    return CorruptFileError(
        f"{path}: has no report of nsys", "`gpuprof formats` lists the formats."
    )
