"""The tables of the data model, documented as data, and the one function that enforces them.

An absent table was not recorded. A table with no rows was recorded, and nothing happened.
Times are integer nanoseconds since the recording's origin, half-open; sizes are bytes; shares
are fractions of 0 to 1; a missing value is null, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# What to do about a file that holds what no recording can.
EDITED: Final = "Was it edited, or damaged on its way? Export or record it again."
INT: Final = "int64"
FLOAT: Final = "float64"
TEXT: Final = "string"
FLAG: Final = "bool"
# The largest time, size or count: differences and sums of two still fit into 64 bits.
LARGEST: Final = (1 << 62) - 1
_MOST: Final = 1 << 63
# No activity lasts 13 days, and no copy moves 10**15 bytes: thousands of them add up in 64 bits.
LONGEST_NS: Final = 1 << 50
MOST_BYTES: Final = 1 << 50


class Kind(StrEnum):
    """What the values of a column are: people see each kind in its own way."""

    TEXT = "text"
    FLAG = "flag"
    ID = "id"
    PROCESS = "process id"
    COUNT = "count"
    MEAN = "mean count"
    SHARE = "share"
    RATIO = "ratio"
    CHANGE = "change"
    INSTANT = "instant"
    DURATION = "duration"
    SECONDS = "seconds"
    BYTES = "bytes"
    RATE = "rate"
    CLOCK = "clock"
    FLOPS = "operations per second"
    NUMBER = "number"


_OF_UNIT: Final = {
    "ns": Kind.DURATION,
    "s": Kind.SECONDS,
    "B": Kind.BYTES,
    "B/s": Kind.RATE,
    "Hz": Kind.CLOCK,
    "FLOP/s": Kind.FLOPS,
    "%": Kind.CHANGE,
}
_OF_TYPE: Final = {
    (TEXT, ""): Kind.TEXT,
    (FLAG, ""): Kind.FLAG,
    (INT, ""): Kind.ID,
    (INT, "1"): Kind.COUNT,
    (FLOAT, "1"): Kind.SHARE,
}
# What the name of a column ends with for programs, and people see in its cells.
_ENDINGS: Final = {
    "ns": "_ns",
    "B/s": "_bytes_per_s",
    "FLOP/s": "_per_s",
    "Hz": "_hz",
    "W": "_w",
    "C": "_c",
}


@dataclass(frozen=True)
class Column:
    """A column's type, unit and meaning.

    Args:
        dtype: Type of its values.
        unit: Unit of its values: "1" of counts and shares, "" of ids, texts and flags.
        meaning: What they say, in a sentence.
        required: Whether it holds no null.
        least: The smallest value that a recording can hold; None where any can be.
        most: The largest one.
        words: The texts that it can hold; None where any can be.
        kind: What its values are; the unit and type tell where it is not given.
        label: Its heading for people, where its name in words is none.
    """

    dtype: str
    unit: str
    meaning: str
    required: bool = False
    least: float | None = None
    most: float | None = None
    words: frozenset[str] | None = None
    kind: Kind = Kind.NUMBER
    label: str = ""

    def __post_init__(self) -> None:
        """Derive the kind that is not given."""
        if self.kind == Kind.NUMBER:
            of_type = _OF_TYPE.get((self.dtype, self.unit), Kind.NUMBER)
            object.__setattr__(self, "kind", _OF_UNIT.get(self.unit, of_type))

    def heading(self, name: str) -> str:
        """What people see above the column of this name: the unit is in its cells."""
        words = name.removesuffix(_ENDINGS.get(self.unit, "")).replace("_", " ")
        return self.label or words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Schema:
    """A table: what one row is, and its columns in order."""

    name: str
    row: str
    columns: Mapping[str, Column]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The same columns as Arrow fields."""
        return pa.schema([*self.kinds.items()])

    @cached_property
    def kinds(self) -> dict[str, pa.DataType]:
        """The type of every column."""
        return {name: pa.type_for_alias(column.dtype) for name, column in self.columns.items()}

    def empty(self) -> pa.Table:
        """The table with no rows: recorded, and nothing happened."""
        # Schema.empty_table imports pandas, which takes longer than many a reading.
        return pa.Table.from_batches([], schema=self.arrow)

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows as a table of this schema; a column that a row lacks is null there."""
        columns = [
            _array([row.get(name) for row in rows], kind)
            for name, kind in zip(self.columns, self.arrow.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def of_columns(self, columns: Mapping[str, list[Any]]) -> pa.Table:
        """Equally long columns as a table of this schema; one that is absent is null."""
        nothing = [None] * len(next(iter(columns.values())))
        arrays = [_array(columns.get(name, nothing), kind) for name, kind in self.kinds.items()]
        return pa.Table.from_arrays(arrays, schema=self.arrow)

    def conform(self, table: pa.Table) -> pa.Table:
        """Exactly the columns of this schema, in its order; absent optional ones are null.

        Raises:
            ValueError: A required column is absent or holds a null.
        """
        columns: list[pa.ChunkedArray | pa.Array] = []
        for name, kind in self.kinds.items():
            self._check(table, name)
            if name not in table.column_names:
                columns.append(pa.nulls(table.num_rows, kind))
                continue
            values = table.column(name)
            # A cast loads pyarrow.compute.
            columns.append(values if values.type == kind else values.cast(kind))
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def narrow(self, table: pa.Table) -> pa.Table:
        """The columns of this schema that hold anything, as they are: `conform` widens them.

        A row takes a fraction of the memory where texts are dictionaries and numbers are small.

        Raises:
            ValueError: A required column is absent or holds a null.
        """
        for name in self.columns:
            self._check(table, name)
        if not table.num_rows:
            return self.empty()
        # Of dictionaries, a value may be known.
        filled_columns = {
            n for n in table.column_names if table.column(n).null_count < table.num_rows
        }
        return table.select([name for name in self.columns if name in filled_columns])

    def _check(self, table: pa.Table, name: str) -> None:
        """See that a required column is there and whole."""
        if not self.columns[name].required or not table.num_rows:
            return
        if name not in table.column_names:
            msg = f"{self.name}: required column {name} is absent"
            raise ValueError(msg)
        if missing := table.column(name).null_count:
            msg = f"{self.name}: required column {name} holds {missing} nulls"
            raise ValueError(msg)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow data; `pa.array` would import pandas, which takes longer than many a file.

    Raises:
        TypeError: A value is of another type.
        OverflowError: An integer needs more than 64 bits.
    """
    if kind == pa.string():
        builder = pa.lib.StringBuilder()
        try:
            builder.append_values(values)
        except UnicodeEncodeError:
            # The name of a file may be of another encoding.
            builder = pa.lib.StringBuilder()
            builder.append_values(
                [value and value.encode(errors="backslashreplace").decode() for value in values]
            )
        return builder.finish()
    dtype = numpy_dtype(kind)
    is_null = np.array([value is None for value in values], bool) if None in values else None
    nothing = dtype.type()
    known_values = values if is_null is None else [nothing if v is None else v for v in values]
    filled = np.array(known_values or [nothing])
    try:
        numbers = filled[: len(values)].astype(dtype, casting="safe")
    except TypeError:
        if any(isinstance(value, int) and not -_MOST <= value < _MOST for value in values):
            msg = "an integer needs more than 64 bits"
            raise OverflowError(msg) from None
        raise
    return arrow(numbers, is_null)


def arrow(numbers: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers as Arrow data, without a copy; `pa.array` would import pandas."""
    present = None
    if is_null is not None and is_null.any():
        present = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    kind = pa.from_numpy_dtype(numbers.dtype)
    stored = np.packbits(numbers, bitorder="little") if numbers.dtype == bool else numbers
    data = pa.py_buffer(np.ascontiguousarray(stored))
    return pa.Array.from_buffers(kind, len(numbers), [present, data])


@cache
def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """The dtype of a type of numbers or flags, as `arrow` maps them the other way.

    `DataType.to_pandas_dtype` imports pandas before pyarrow 26.

    Raises:
        KeyError: It is of neither.
    """
    names = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
    return {pa.from_numpy_dtype(dtype): dtype for dtype in map(np.dtype, names)}[kind]


def integers(values: list[int | None]) -> pa.Array:
    """Integers as Arrow data, without importing pandas."""
    return _array(values, pa.int64())


def texts(values: list[str | None]) -> pa.Array:
    """Texts as Arrow data, without importing pandas."""
    return _array(values, pa.string())


# Columns of the commonest types and units: texts, answers to yes or no, what numbers only tell
# apart, counts, shares, sizes, durations, and times since the recording's origin.
Text: Final = partial(Column, TEXT, "")
Flag: Final = partial(Column, FLAG, "")
Id: Final = partial(Column, INT, "")
Process: Final = partial(Id, kind=Kind.PROCESS)
Count: Final = partial(Column, INT, "1")
Share: Final = partial(Column, FLOAT, "1")
Bytes: Final = partial(Column, INT, "B")
Ns: Final = partial(Column, INT, "ns")
Instant: Final = partial(Ns, kind=Kind.INSTANT)
# Sizes, counts, durations and rates with their bounds; times may lie before the origin.
_amount = partial(Column, least=0, most=LARGEST)
_size = partial(_amount, INT, "B", most=MOST_BYTES)
_share = partial(Share, least=0, most=1)
# Queries hold the numbers of devices in 16 bits.
_device = partial(Id, least=0, most=(1 << 15) - 1)
# CUpti_ActivityKernel has grids, blocks and shared memory in 32 bits, registers in 16.
_launch = partial(_amount, INT, most=(1 << 31) - 1)
_registers = partial(_amount, INT, "1", most=(1 << 16) - 1)
_number = partial(Count, least=0, most=LARGEST)
_time = partial(Instant, required=True, least=-LARGEST, most=LARGEST)

_TIMES: Final = {
    "start_ns": _time("Start, since the recording's origin."),
    "end_ns": _time("End, half-open; at least start_ns."),
}
# Of several files read as one recording, a process whose number one of another file has as well:
# above these bits stands which file it is of, 1 for the first.
PROCESS_BITS: Final = 32
_PLACE: Final = {
    "device_id": _device("CUDA device ordinal."),
    "context_id": Id("CUDA context."),
    "stream_id": Id("Stream within the context."),
    "process_id": Process("Operating-system process; null where the format lacks it."),
    "correlation_id": Id("Launching API call; unique only with process_id."),
}

KERNELS: Final = Schema(
    "kernels",
    "one execution of one kernel",
    {
        **_TIMES,
        **_PLACE,
        "name": Text("Demangled name.", required=True),
        "grid_x": _launch("1", "Blocks in x."),
        "grid_y": _launch("1", "Blocks in y."),
        "grid_z": _launch("1", "Blocks in z."),
        "block_x": _launch("1", "Threads in x."),
        "block_y": _launch("1", "Threads in y."),
        "block_z": _launch("1", "Threads in z."),
        "registers_per_thread": _registers("Registers of one thread."),
        "static_shared_memory_bytes": _launch("B", "Per block."),
        "dynamic_shared_memory_bytes": _launch("B", "Per block."),
        "graph_node_id": Id("Node of a CUDA graph; null outside graphs."),
    },
)
# How kernels were launched.
LAUNCH_COLUMNS: Final = (
    *(f"{size}_{axis}" for size in ("grid", "block") for axis in "xyz"),
    "registers_per_thread", "static_shared_memory_bytes", "dynamic_shared_memory_bytes",
)  # fmt: skip
MEMCPYS: Final = Schema(
    "memcpys",
    "one copy; a staged peer copy's two halves are two rows of one correlation id",
    {
        **_TIMES,
        **_PLACE,
        "memcpy_kind": Text("HtoD, DtoH, DtoD, PtoP, UVM_HtoD, ...", required=True),
        "src_memory_kind": Text("pageable, pinned, device, managed, ..."),
        "dst_memory_kind": Text("pageable, pinned, device, managed, ..."),
        "bytes": _size("Bytes moved; null where unknown."),
        "src_device_id": _device("Device copied from; null for the host's side."),
        "dst_device_id": _device("Device copied to; null for the host's side."),
        "path": Text("direct, or staged through the host."),
        "graph_node_id": Id("Node of a CUDA graph; null outside graphs."),
    },
)
MEMSETS: Final = Schema(
    "memsets",
    "one memset",
    {
        **_TIMES,
        **_PLACE,
        "bytes": _size("Bytes set."),
        "memory_kind": Text("pageable, pinned, device, managed, ..."),
    },
)
API_CALLS: Final = Schema(
    "api_calls",
    "one call of the CUDA runtime or driver API on the host",
    {
        **_TIMES,
        "api": Text("runtime or driver."),
        "name": Text("cudaMemcpyAsync and friends.", required=True),
        "process_id": Process("Operating-system process."),
        "thread_id": Id("Operating-system thread."),
        "correlation_id": Id("Links to activities; unique only with process_id."),
    },
)
# What a framework records itself, of everything that it runs; with all other kinds people name
# parts of their program.
OPERATION: Final = "operation"
NVTX_RANGES: Final = Schema(
    "nvtx_ranges",
    "one NVTX range, framework annotation or operation on the host",
    {
        **_TIMES,
        "text": Text("Message."),
        "domain": Text("Domain; empty for the default one."),
        "range_kind": Text("push_pop, start_end, annotation or operation."),
        "process_id": Process("Operating-system process."),
        "thread_id": Id("Operating-system thread."),
        "inputs": Text(
            "What an operation takes, where recorded, as JSON: shapes, of no tensor []; types in"
            " the framework's words; and values of what is no tensor, of convolutions only."
        ),
    },
)
SYNCHRONIZATIONS: Final = Schema(
    "synchronizations",
    "one synchronisation",
    {
        **_TIMES,
        **_PLACE,
        "sync_kind": Text("event, stream_wait, stream or context."),
        "event_id": Id("CUDA event that is waited for; null for none."),
        "src_device_id": _device("Device on which that event was recorded last before."),
        "src_stream_id": Id("Stream on which it was."),
    },
)
CUDA_EVENTS: Final = Schema(
    "cuda_events",
    "one CUDA event recorded on a stream (cudaEventRecord): its call tells when",
    {**_PLACE, "event_id": Id("The event; it may be recorded again.", required=True)},
)
HOST_CALLS: Final = Schema(
    "host_calls",
    "one call on the host of a library beside CUDA, or of a Python function",
    {
        **_TIMES,
        "library": Text("mpi, ucx, python, or os for the operating system.", required=True),
        "name": Text("MPI_Sendrecv, pthread_cond_wait, train.py(12): step, ...", required=True),
        "process_id": Process("Operating-system process."),
        "thread_id": Id("Operating-system thread."),
    },
)
PAGE_FAULTS: Final = Schema(
    "page_faults",
    "faults on pages of managed memory, which a GPU or the CPU touched where they were not",
    {
        **_TIMES,
        "processor": Text("gpu or cpu.", required=True),
        "device_id": _device("The GPU; null for the CPU."),
        "process_id": Process("Operating-system process."),
        "faults": _amount(INT, "1", "How many; null where unknown."),
    },
)
MEMORY_EVENTS: Final = Schema(
    "memory_events",
    "one allocation of memory by a framework's allocator or by CUDA, or one release",
    {
        "start_ns": _time("When, since the recording's origin."),
        "process_id": Process("Operating-system process."),
        "thread_id": Id("Operating-system thread."),
        "device_id": _device("The GPU; null for the memory of the host."),
        "bytes": Column(
            INT,
            "B",
            "Bytes; negative of a release.",
            required=True,
            least=-MOST_BYTES,
            most=MOST_BYTES,
        ),
        "address": Id("Where they begin; null where unknown."),
        "allocated_bytes": _size("Allocated on the device since then; null where unknown."),
        "reserved_bytes": _size("Reserved by the allocator there; null where unknown."),
    },
)
GRAPH_LAUNCHES: Final = Schema(
    "graph_launches",
    "one CUDA graph recorded as a whole: its kernels and copies are not in their tables",
    {**_TIMES, **_PLACE, "graph_id": Id("The graph.")},
)
OVERHEADS: Final = Schema(
    "overheads",
    "one stretch in which the profiler or CUDA itself held up a thread",
    {
        **_TIMES,
        "source": Text("profiler, or cuda.", required=True, words=frozenset({"profiler", "cuda"})),
        "name": Text("CUPTI Buffer flush, Command Buffer Full, ..."),
        "process_id": Process("Operating-system process."),
        "thread_id": Id("Operating-system thread."),
    },
)
COLLECTIVES: Final = Schema(
    "collectives",
    "one kernel of a collective operation (such as NCCL) whose message the framework told",
    {
        **_TIMES,
        **_PLACE,
        "kernel": Text("Its kernel's name, as in kernels.", required=True),
        "collective": Text("allreduce, _allgather_base, ...", required=True),
        "data_type": Text("The framework's word: Float, BFloat16, ..."),
        "bytes_in": _amount(INT, "B", "Message into the collective on this rank."),
        "bytes_out": _amount(INT, "B", "Message out of the collective on this rank."),
        "group_size": _amount(INT, "1", "Ranks that take part."),
        "process_group": Text("The framework's name of the group."),
    },
)
DEVICES: Final = Schema(
    "devices",
    "one device",
    {
        "device_id": _device("CUDA device ordinal.", required=True),
        "process_id": Process("Process that numbers it so; null where all do."),
        "name": Text("Marketing name."),
        "total_memory_bytes": _amount(INT, "B", "Memory."),
        "memory_bandwidth_bytes_per_s": _amount(INT, "B/s", "Peak of its memory."),
        "compute_capability": Text("Such as 8.0."),
        "clock_hz": _amount(INT, "Hz", "Highest clock of its multiprocessors."),
        "multiprocessors": _amount(INT, "1", "How many multiprocessors (SMs) it has."),
        "bus_id": Text("PCI bus id."),
        "rank": _number("Rank that uses it, where several are read as one."),
        "own_device_id": _device(
            "Its ordinal in its own file, where ranks number theirs alike; else null."
        ),
        "file": Text("Name of that file, where no rank is known; else null."),
    },
)
LINKS: Final = Schema(
    "links",
    "one direct link of a device to another one or to the host, as the tool found it",
    {
        "device_id": _device("CUDA device ordinal.", required=True),
        "peer_device_id": _device("Device at the other end; null for the host."),
        "link": Text("NVLink 2 x2, PCIe 3 x16: generation and width.", required=True),
        "bytes_per_s": _amount(INT, "B/s", "Peak in one direction; null where unknown."),
        "has_peer_access": Flag("Whether its ends can address each other's memory."),
    },
)
RUNS: Final = Schema(
    "runs",
    "one profiled process, in the order of the file",
    {
        "run_id": _amount(INT, "", "0 for the first in the file.", required=True),
        "process_id": Process("Operating-system process."),
        "command": Text("As the tool printed it; secrets masked."),
        "rank": _number("Rank in the job, where known."),
        "world_size": _amount(INT, "1", "Ranks of the job, where known."),
    },
)
ACTIVITY_SUMMARY: Final = Schema(
    "activity_summary",
    "all calls of one kernel, memcpy kind, memset or API function",
    {
        "run_id": _amount(INT, "", "Process of the file, as in runs; null where one."),
        "activity_kind": Text(
            "kernel, memcpy, memset or api.",
            required=True,
            words=frozenset({"kernel", "memcpy", "memset", "api"}),
        ),
        "name": Text("Kernel or API name; memcpy kind for copies.", required=True),
        "calls": _amount(INT, "1", "How often."),
        "total_ns": _amount(INT, "ns", "Sum of durations, rounded as the tool printed it."),
        "min_ns": _amount(INT, "ns", "Shortest."),
        "max_ns": _amount(INT, "ns", "Longest."),
        "mean_ns": _amount(FLOAT, "ns", "Mean."),
        "median_ns": _amount(FLOAT, "ns", "Median."),
        "stddev_ns": _amount(FLOAT, "ns", "Standard deviation of the sample (n - 1)."),
        "bytes": _amount(INT, "B", "Bytes of copies and memsets."),
        "printed_share": _share("Share of its section that the tool printed; for implied totals."),
        "section": Text(
            "What printed_share is a share of: gpu (kernels, copies and memsets in one table), "
            "kernel, memory, memcpy, memset or api; null for gpu, or api where it is an API call.",
            words=frozenset({"gpu", "kernel", "memory", "memcpy", "memset", "api"}),
        ),
    },
)
EPOCHS: Final = Schema(
    "epochs",
    "one epoch as the script marked it",
    {
        "epoch": _number("0 for the first.", required=True),
        "seconds": _amount(FLOAT, "s", "Wall time; null where it is unknown."),
        "steps": _amount(INT, "1", "Steps marked within it; null where none were marked."),
    },
)
MONITOR: Final = Schema(
    "monitor",
    "one sample of one device, or of the host, beside the program",
    {
        "time_ns": _time("Since the recording's origin."),
        "epoch": _number("Marked epoch that it falls into; null outside."),
        "device_id": _device("As NVML numbers GPUs; null for the host."),
        "gpu_utilisation": _share("Share of the last moments with a kernel."),
        "memory_utilisation": _share("Share of them with memory read or written."),
        "cpu_utilisation": _share("Of all cores since the last sample."),
        "memory_used_bytes": _amount(INT, "B", "In use, by whomever."),
        "memory_total_bytes": _amount(INT, "B", "There is."),
        "power_w": _amount(FLOAT, "W", "Drawn by the board."),
        "temperature_c": Column(FLOAT, "C", "Of the GPU.", least=-274, most=10_000),
        "sm_clock_hz": _amount(FLOAT, "Hz", "Of the multiprocessors."),
        "memory_clock_hz": _amount(FLOAT, "Hz", "Of its memory."),
        "pcie_received_bytes_per_s": _amount(FLOAT, "B/s", "Into the GPU over PCIe."),
        "pcie_sent_bytes_per_s": _amount(FLOAT, "B/s", "Out of the GPU over PCIe."),
        "nvlink_received_bytes": _amount(INT, "B", "Over all its NVLinks since the driver began."),
        "nvlink_sent_bytes": _amount(INT, "B", "Over all its NVLinks since the driver began."),
    },
)
GPU_METRICS: Final = Schema(
    "gpu_metrics",
    "one sample of one metric of one device, which holds until the next",
    {
        "start_ns": _time("From when on it holds, since the recording's origin."),
        "device_id": _device("CUDA device ordinal; null for a GPU that CUDA does not use."),
        "metric": Text("As nsys names it: SMs Active [Throughput %], ..."),
        "value": Column(
            INT,
            "1",
            "As nsys recorded it, in the unit of the metric's name; samples may be damaged.",
            least=-LARGEST,
            most=LARGEST,
        ),
    },
)
TENSOR_COPIES: Final = Schema(
    "tensor_copies",
    "all copies of one tensor from one TensorFlow device to another",
    {
        "function": Text("tf.function it is part of; null for eager copies."),
        "src_device": Text("Such as CPU:0.", required=True),
        "dst_device": Text("Such as CPU:1.", required=True),
        "tensor": Text("Name of the tensor.", required=True),
        "src_operation": Text("Operation that makes it."),
        "dst_operation": Text("Operation that takes it; the first where several."),
        "is_gradient": Flag(
            "Whether only gradients need it: made by one, or taken by nothing else."
        ),
        "is_control": Flag("A control edge: order only, no data."),
        "calls": _amount(INT, "1", "How often it was sent.", required=True),
        "bytes_per_call": _amount(INT, "B", "Size; null where unknown."),
        "bytes": _amount(INT, "B", "All calls; null where the size is unknown."),
    },
)
OPERATIONS: Final = Schema(
    "operations",
    "one operation of a TensorFlow program on the device it ran on",
    {
        "function": Text("tf.function it is part of; null for eager ones."),
        "operation": Text("Name.", required=True),
        "operation_type": Text("MatMul, Conv2D, ..."),
        "requested_device": Text("Device that the script asked for; null for none."),
        "device": Text("Device it ran on.", required=True),
        "calls": _amount(INT, "1", "How often it ran; null where not known."),
        "traced_calls": _amount(INT, "1", "Calls in total_ns; the cheapest are not traced."),
        "total_ns": _amount(INT, "ns", "Host time of the traced calls; null where none was."),
        "flops": _amount(
            INT, "1", "Of one call of a matrix product or convolution; null for others, or unknown."
        ),
    },
)
OPERATION_INPUTS: Final = Schema(
    "operation_inputs",
    "one tensor that an operation of a TensorFlow program takes",
    {
        "function": Text("tf.function it is part of.", required=True),
        "tensor": Text("Operation and output that it is, such as Split:1."),
        "src_device": Text("Where it is made.", required=True),
        "dst_operation": Text("Operation that takes it.", required=True),
        "dst_device": Text("Where that runs.", required=True),
        "bytes": _size("Size; null where unknown."),
        "is_variable": Flag("A variable's handle, which stays where it is."),
        "trace": _amount(INT, "", "Which graph of the function; its sizes differ from others'."),
        "calls": _amount(INT, "1", "Executions of that graph.", required=True),
    },
)
VARIABLES: Final = Schema(
    "variables",
    "one variable that a tf.function reads or writes",
    {
        "function": Text("tf.function that takes it.", required=True),
        "variable": Text("Name of the function's argument for it.", required=True),
        "device": Text("Device that holds it.", required=True),
        "bytes": _size("Size; null where unknown."),
    },
)
FUNCTIONS: Final = Schema(
    "functions",
    "one tf.function of a TensorFlow program, as often as the recorder saw it run",
    {
        "function": Text("Name.", required=True),
        "executions": _amount(INT, "1", "Runs that were recorded.", required=True),
        "is_step": Flag("Whether it is the training step.", required=True),
    },
)
KEPT_STEPS: Final = Schema(
    "kept_steps",
    "one training step of the recording that this is a part of, on one device",
    {
        **_TIMES,
        "process_id": Process("Process; null where steps were detected by device."),
        "device_id": _device("CUDA device ordinal."),
        "phase": _number("Number of its phase, 0 for that of most time.", required=True),
        "name": Text("Name of its phase.", required=True),
        "text": Text("Text of the ranges with # for digits, or the kernel that opens a step."),
        "source": Text("ranges, or detected: a pattern of kernels that repeats.", required=True),
        "step": _number("0 for the first that was recorded.", required=True),
        "status": Text(
            "sample, warm_up, cut or other, as in steps; elsewhere: a sample beyond the part.",
            required=True,
        ),
        "place": _number("How many whole steps of its phase come before it.", required=True),
        "is_period": Flag("Whether the time up to the next mark is a part of it.", required=True),
    },
)
HOST_CLOCKS: Final = Schema(
    "host_clocks",
    "one process of the recording that this is a part of",
    {
        "process_id": Process("Process; null where the format lacks it."),
        "shift_ns": Ns(
            "What sets its times on the clock of the devices; null where no constant does.",
            least=-LARGEST,
            most=LARGEST,
        ),
    },
)

TABLES: Final = (
    KERNELS,
    MEMCPYS,
    MEMSETS,
    API_CALLS,
    NVTX_RANGES,
    SYNCHRONIZATIONS,
    CUDA_EVENTS,
    HOST_CALLS,
    PAGE_FAULTS,
    MEMORY_EVENTS,
    GRAPH_LAUNCHES,
    OVERHEADS,
    COLLECTIVES,
    DEVICES,
    LINKS,
    RUNS,
    ACTIVITY_SUMMARY,
    EPOCHS,
    MONITOR,
    GPU_METRICS,
    TENSOR_COPIES,
    OPERATIONS,
    FUNCTIONS,
    OPERATION_INPUTS,
    VARIABLES,
    KEPT_STEPS,
    HOST_CLOCKS,
)
BY_NAME: Final = {schema.name: schema for schema in TABLES}
