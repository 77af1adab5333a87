"""Activities and API calls one by one, from ``cuda_gpu_trace`` and ``cuda_api_trace``."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from gpuprof import cuda, schema
from gpuprof.readers.nsys_stats_blocks import Column, FaultError
from gpuprof.readers.nsys_stats_numbers import Style, durations, sizes, times
from gpuprof.readers.nsys_stats_rows import Numbers, Row, counted
from gpuprof.readers.nsys_stats_runs import Part
from gpuprof.units import NS_PER_S

_MEMORY_KINDS: Final = {kind.replace("_", " "): kind for kind in cuda.NSYS_MEMORY_KINDS.values()}
_COUNTS: Final = {
    "correlation_id": "CorrId",
    "context_id": "Ctx",
    "stream_id": "Strm",
    "grid_x": "GrdX",
    "grid_y": "GrdY",
    "grid_z": "GrdZ",
    "block_x": "BlkX",
    "block_y": "BlkY",
    "block_z": "BlkZ",
    "registers_per_thread": "Reg/Trd",
}
_SIZES: Final = {
    "bytes": "Bytes",
    "static_shared_memory_bytes": "StcSMem",
    "dynamic_shared_memory_bytes": "DymSMem",
}


def gpu_tables(part: Part) -> dict[str, pa.Table]:
    """Kernels, memcpys and memsets of a trace.

    The trace does not say between which devices a copy went.

    Raises:
        FaultError: A cell that must hold a number does not.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    names = part.block.column("Name").cells
    labels = [name for name in pc.unique(names).to_pylist() if name is not None]
    kinds = _mapped(names, {label: cuda.memcpy_kind(label) for label in labels})
    is_memset = pc.is_in(names, pa.array(filter(cuda.is_memset, labels), pa.string()))
    found = _activities(part).append_column("memcpy_kind", kinds)
    is_copy = pc.is_valid(kinds)
    return {
        "kernels": _conform(schema.KERNELS, found, pc.invert(pc.or_(is_copy, is_memset))),
        "memcpys": _conform(schema.MEMCPYS, _with_path(found), is_copy),
        "memsets": _conform(schema.MEMSETS, found, is_memset),
    }


def _activities(part: Part) -> pa.Table:
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    block, numbers = part.block, Numbers(part.block, part.style)
    start, end = _span(part, numbers)
    device = pc.extract_regex(block.column("Device").cells, r"\((?P<id>\d+)\)$")
    sources = _memory_kinds(block.column("SrcMemKd"))
    return pa.table(
        {
            "start_ns": start,
            "end_ns": end,
            "name": block.column("Name").cells,
            "device_id": pc.struct_field(device, "id").cast(pa.int64()),
            "src_memory_kind": sources,
            "dst_memory_kind": _memory_kinds(block.column("DstMemKd")),
            "memory_kind": sources,
            **{name: numbers.array(counted, printed) for name, printed in _COUNTS.items()},
            **{name: numbers.array(_in_bytes, printed) for name, printed in _SIZES.items()},
        }
    )


def _span(part: Part, numbers: Numbers) -> tuple[pa.Array, pa.Array]:
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    start, duration = numbers.array(times, "Start"), numbers.array(durations, "Duration")
    try:
        return start, pc.add_checked(start, duration)
    except pa.ArrowInvalid as error:
        raise FaultError(part.block.offset, "a time is too large a number") from error


def _in_bytes(column: Column, style: Style) -> pa.Array:
    # Before 2022 the heading has no unit, and the trace is in bytes.
    return sizes(Column(column.unit or "B", column.cells), style)


def _memory_kinds(column: Column) -> pa.Array:
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    words = pc.unique(column.cells).to_pylist()
    named = {w: _MEMORY_KINDS.get(w.lower(), cuda.UNKNOWN) for w in words if w is not None}
    return _mapped(column.cells, named)


def _mapped(cells: pa.Array, words: Mapping[str, str | None]) -> pa.Array:
    """Each cell's word; null where it has none."""
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    found = pc.index_in(cells, pa.array([*words], pa.string()))
    return pa.array([*words.values()], pa.string()).take(found)


def _with_path(found: pa.Table) -> pa.Table:
    """Copies with their path, as far as a trace tells.

    A copy between host and device has the host's memory on one side; where both sides are
    device memory, it is one half of a peer copy that was staged through the host.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    is_device = [
        pc.equal(found.column(side), "device") for side in ("src_memory_kind", "dst_memory_kind")
    ]
    is_host_copy = pc.is_in(found.column("memcpy_kind"), pa.array(["HtoD", "DtoH"]))
    is_staged = pc.fill_null(pc.and_(pc.and_(*is_device), is_host_copy), fill_value=False)
    is_direct = pc.fill_null(pc.equal(found.column("memcpy_kind"), "PtoP"), fill_value=False)
    text = pa.string()
    direct = pc.if_else(is_direct, pa.scalar("direct", text), pa.scalar(None, text))
    return found.append_column("path", pc.if_else(is_staged, pa.scalar("staged", text), direct))


def _conform(spec: schema.Schema, found: pa.Table, chosen: pa.ChunkedArray) -> pa.Table:
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    # A row without a time, such as one that was never finished, is no activity.
    whole = pc.and_(pc.is_valid(found.column("end_ns")), pc.is_valid(found.column("name")))
    rows = found.filter(pc.and_(chosen, whole))
    return spec.conform(rows.sort_by("start_ns"))


def has_no_clock(tables: dict[str, pa.Table]) -> bool:
    """Whether starts were printed in whole seconds, as some locales make of ``0.512345``."""
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    starts = [table.column("start_ns") for table in tables.values() if table.num_rows]
    several = sum(len(column) for column in starts) > 1
    return several and all(
        pc.all(pc.equal(pc.multiply(pc.divide(column, NS_PER_S), NS_PER_S), column)).as_py()
        for column in starts
    )


def api_calls(part: Part) -> pa.Table:
    """The calls of a trace of the runtime and driver API.

    Raises:
        FaultError: A cell that must hold a number does not.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    block, numbers = part.block, Numbers(part.block, part.style)
    (start, end), names = _span(part, numbers), block.column("Name").cells
    is_runtime = pc.starts_with(names, "cuda")
    found = pa.table(
        {
            "start_ns": start,
            "end_ns": end,
            "name": names,
            "api": pc.if_else(is_runtime, "runtime", "driver"),
            "correlation_id": numbers.array(counted, "CorrId"),
            "process_id": numbers.array(counted, "Pid"),
            "thread_id": numbers.array(counted, "Tid"),
        }
    )
    return _conform(schema.API_CALLS, found, pc.is_valid(names))


def sums(tables: dict[str, pa.Table]) -> list[Row]:
    """Rows of ``activity_summary`` that a trace adds up to."""
    parts = (
        ("kernel", tables["kernels"], "name"),
        ("memcpy", tables["memcpys"], "memcpy_kind"),
        ("memset", tables["memsets"], "memory_kind"),
    )
    return [row for part in parts for row in _sums(*part)]


def _sums(activity_kind: str, table: pa.Table, name: str) -> list[Row]:
    import pyarrow.compute as pc  # noqa: PLC0415 - recognising a file does not need it

    has_bytes = "bytes" in table.column_names
    label = table.column(name) if activity_kind != "memset" else ["memset"] * table.num_rows
    durations = pc.subtract(table.column("end_ns"), table.column("start_ns"))
    found = pa.table(
        {
            "name": label,
            "ns": durations,
            "bytes": table.column("bytes") if has_bytes else pa.nulls(table.num_rows, pa.int64()),
        },
        schema=pa.schema({"name": pa.string(), "ns": pa.int64(), "bytes": pa.int64()}),
    )
    wanted = [("ns", how) for how in ("count", "sum", "min", "max", "mean")]
    # A sum with an unknown part is unknown.
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    grouped = found.group_by("name").aggregate([*wanted, ("bytes", "sum", whole)])
    return [
        {
            "activity_kind": activity_kind,
            "name": row["name"],
            "calls": row["ns_count"],
            "total_ns": row["ns_sum"],
            "min_ns": row["ns_min"],
            "max_ns": row["ns_max"],
            "mean_ns": row["ns_mean"],
            "bytes": row["bytes_sum"],
            "section": activity_kind,
        }
        for row in grouped.to_pylist()
    ]
