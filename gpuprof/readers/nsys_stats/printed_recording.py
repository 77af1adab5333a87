"""The recordings that a file of `nsys stats` holds: sums and traces, as tables."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base import cuda
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.kernel_names import CUT_END
from gpuprof.base.units import NS_PER_S, counted
from gpuprof.model import data_model, schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, Section
from gpuprof.readers.nsys_stats.blocks import (
    Block,
    FaultError,
    PrintedColumn,
    Run,
    Style,
    jobs,
    kind,
)
from gpuprof.readers.nsys_stats.numerals import durations, numbers, scaled, sizes, styles, times
from gpuprof.readers.nsys_stats.report_text import Scan
from gpuprof.readers.nsys_stats.rows import Row, summary_rows

# A device's label, "A100-SXM4-40GB (0)".
_DEVICE: Final = re.compile(r"^(.*?) ?\(([0-9]{1,18})\)$")
_COUNTS: Final = {
    "correlation_id": "CorrId",
    "context_id": "Ctx",
    "stream_id": "Strm",
    **{
        f"{size}_{axis.lower()}": f"{printed}{axis}"
        for size, printed in (("grid", "Grd"), ("block", "Blk"))
        for axis in "XYZ"
    },
    "registers_per_thread": "Reg/Trd",
}
_SIZES: Final = {
    "bytes": "Bytes",
    "static_shared_memory_bytes": "StcSMem",
    "dynamic_shared_memory_bytes": "DymSMem",
}
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
        tables["activity_summary"] = data_model.ACTIVITY_SUMMARY.table(rows)
    if has_several:
        tables["runs"] = data_model.RUNS.table([{"run_id": n} for n in range(len(recorded))])
    warnings = [*scan.doubts, *warnings, *notes]
    if any(block.is_cut for block in scan.blocks):
        warnings.append("The file ends in the middle of a row, which is left out.")
    if cut := sum(row["name"].endswith(CUT_END) for row in rows):
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
    elif gpu and (named := devices(gpu[0])):
        tables["devices"] = data_model.DEVICES.table(named)
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


def gpu_tables(block: Block) -> dict[str, pa.Table]:
    """Kernels, memcpys and memsets of a trace.

    The trace does not say between which devices a copy went.

    Raises:
        FaultError: A cell that must hold a number does not.
    """
    names = block.column("Name").cells
    kinds = _meanings(names, cuda.memcpy_kind, pa.string())
    is_memset = _meanings(names, cuda.is_memset, pa.bool_()).dictionary_decode()
    start, end = _span(block)
    sources, targets = (
        _meanings(block.column(side).cells, cuda.memory_kind, pa.string())
        for side in ("SrcMemKd", "DstMemKd")
    )

    def device_id(label: str) -> int | None:
        return int(match[2]) if (match := _DEVICE.match(label)) else None

    def in_bytes(column: PrintedColumn, style: Style) -> pa.Array:
        # Before 2022 the heading has no unit, and the trace is in bytes.
        return sizes(PrintedColumn(column.unit or "B", column.cells), style)

    activities = pa.table(
        {
            "start_ns": start,
            "end_ns": end,
            "name": names,
            "device_id": _meanings(block.column("Device").cells, device_id, pa.int64()),
            "src_memory_kind": sources,
            "dst_memory_kind": targets,
            "memory_kind": sources,
            "memcpy_kind": kinds,
            **{name: numbers(block, scaled, printed) for name, printed in _COUNTS.items()},
            **{name: numbers(block, in_bytes, printed) for name, printed in _SIZES.items()},
        }
    )
    is_copy = pc.is_valid(kinds.dictionary_decode())
    is_memset = pc.fill_null(is_memset, fill_value=False)
    return {
        "kernels": _narrow(data_model.KERNELS, activities, pc.invert(pc.or_(is_copy, is_memset))),
        "memcpys": _narrow(data_model.MEMCPYS, _with_path(activities), is_copy),
        "memsets": _narrow(data_model.MEMSETS, activities, is_memset),
    }


def devices(block: Block) -> list[Row]:
    """The devices that a trace names, in the order of their numbers."""
    labels = block.column("Device").cells.unique().drop_null().to_pylist()
    matches = filter(None, map(_DEVICE.match, labels))
    names = {int(match[2]): match[1] for match in matches if match[1]}
    return [{"device_id": number, "name": names[number]} for number in sorted(names)]


def _span(block: Block) -> tuple[pa.Array, pa.Array]:
    start, duration = numbers(block, times, "Start"), numbers(block, durations, "Duration")
    try:
        return start, pc.add_checked(start, duration)
    except pa.ArrowInvalid as error:
        raise FaultError(block.offset, "a time is too large a number") from error


def _meanings(cells: pa.Array, meaning: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """What each cell means, found once for each different one; null where it has no meaning."""
    few = cells.dictionary_encode()
    meanings = [None if cell is None else meaning(cell) for cell in few.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(few.indices, pa.array(meanings, kind))


def _with_path(copies: pa.Table) -> pa.Table:
    """Copies with their path, as far as a trace tells.

    A copy between host and device has the host's memory on one side; where both sides are
    device memory, it is one half of a peer copy that was staged through the host.
    """
    is_device = [
        pc.equal(copies.column(side), "device") for side in ("src_memory_kind", "dst_memory_kind")
    ]
    is_host_copy = pc.is_in(copies.column("memcpy_kind"), pa.array(["HtoD", "DtoH"]))
    is_staged = pc.fill_null(pc.and_(pc.and_(*is_device), is_host_copy), fill_value=False)
    is_direct = pc.fill_null(pc.equal(copies.column("memcpy_kind"), "PtoP"), fill_value=False)
    text = pa.string()
    direct = pc.if_else(is_direct, pa.scalar("direct", text), pa.scalar(None, text))
    return copies.append_column("path", pc.if_else(is_staged, pa.scalar("staged", text), direct))


def _narrow(spec: schema.Schema, table: pa.Table, chosen: pa.ChunkedArray) -> pa.Table:
    # A row without a time, such as one that was never finished, is no activity.
    is_complete = pc.and_(pc.is_valid(table.column("end_ns")), pc.is_valid(table.column("name")))
    rows = spec.narrow(table.filter(pc.and_(chosen, is_complete)))
    starts = rows.column("start_ns").to_numpy()
    return rows if (starts[1:] >= starts[:-1]).all() else rows.sort_by("start_ns")


def has_no_clock(tables: dict[str, pa.Table]) -> bool:
    """Whether starts were printed in whole seconds, as some locales make of ``0.512345``."""
    starts = [table.column("start_ns") for table in tables.values() if table.num_rows]
    several = sum(len(column) for column in starts) > 1
    return several and all(
        pc.all(pc.equal(pc.multiply(pc.divide(column, NS_PER_S), NS_PER_S), column)).as_py()
        for column in starts
    )


def api_calls(block: Block) -> pa.Table:
    """The calls of a trace of the runtime and driver API.

    Raises:
        FaultError: A cell that must hold a number does not.
    """
    (start, end), names = _span(block), block.column("Name").cells
    calls = pa.table(
        {
            "start_ns": start,
            "end_ns": end,
            "name": names,
            "api": _meanings(names, cuda.api, pa.string()),
            "correlation_id": numbers(block, scaled, "CorrId"),
            "process_id": numbers(block, scaled, "Pid"),
            "thread_id": numbers(block, scaled, "Tid"),
        }
    )
    # A longer one of the same ids and name repeats a call for its stack.
    keys = [calls.column(name) for name in ("correlation_id", "process_id", "thread_id")]
    keys += [calls.column("name").cast(pa.string()).dictionary_encode().combine_chunks().indices]
    lengths = pc.subtract(calls.column("end_ns"), calls.column("start_ns"))
    sorted_by = [pc.fill_null(key.cast(pa.int64()), -1).to_numpy() for key in (lengths, *keys)]
    order = np.lexsort(sorted_by)
    is_same = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in sorted_by[1:]])
    is_call = np.ones(calls.num_rows, np.bool_)
    is_call[order[1:][is_same & (sorted_by[1][order][1:] >= 0)]] = False
    return _narrow(data_model.API_CALLS, calls, pc.and_(pc.is_valid(names), pa.array(is_call)))


def sums(tables: dict[str, pa.Table]) -> list[Row]:
    """Rows of ``activity_summary`` that a trace adds up to."""
    kinds = pa.schema({"name": pa.string(), "ns": pa.int64(), "bytes": pa.int64()})
    folds = [("ns", fold) for fold in ("count", "sum", "min", "max", "mean")]
    # A sum with an unknown part is unknown.
    with_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    rows = []
    for of_kind, named in (("kernel", "name"), ("memcpy", "memcpy_kind"), ("memset", None)):
        table = tables[f"{of_kind}s"]
        none = [None] * table.num_rows
        names = table.column(named).cast(pa.string()) if named else [of_kind] * table.num_rows
        has_bytes = "bytes" in table.column_names
        columns = {
            "name": names,
            "ns": pc.subtract(table.column("end_ns"), table.column("start_ns")),
            "bytes": table.column("bytes").cast(pa.int64()) if has_bytes else none,
        }
        grouped = pa.table(columns, schema=kinds).group_by("name")
        rows += [
            {
                "activity_kind": of_kind,
                "name": row["name"],
                "calls": row["ns_count"],
                "total_ns": row["ns_sum"],
                "min_ns": row["ns_min"],
                "max_ns": row["ns_max"],
                "mean_ns": row["ns_mean"],
                "bytes": row["bytes_sum"],
                "section": of_kind,
            }
            for row in grouped.aggregate([*folds, ("bytes", "sum", with_nulls)]).to_pylist()
        ]
    return rows
