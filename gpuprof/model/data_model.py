"""The tables of the data model, documented as data.

An absent table was not recorded. A table with no rows was recorded, and nothing happened.
Times are integer nanoseconds since the recording's origin, half-open; sizes are bytes; shares
are fractions of 0 to 1; a missing value is null, never 0.
"""

from functools import partial
from typing import Final

from gpuprof.model.schema import (
    FLOAT,
    INT,
    LARGEST,
    MOST_BYTES,
    Column,
    Count,
    Flag,
    Id,
    Instant,
    Ns,
    Process,
    Schema,
    Share,
    Text,
)

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
# Of a step that is none of those of a part, but would be a sample in the whole.
ELSEWHERE: Final = "elsewhere"
RECORDED_STEPS: Final = Schema(
    "recorded_steps",
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
        "is_steady": Flag(
            "Whether a constant sets its times on the clock of the devices.", required=True
        ),
        "shift_ns": Ns("That constant; null where there is none.", least=-LARGEST, most=LARGEST),
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
    RECORDED_STEPS,
    HOST_CLOCKS,
)
BY_NAME: Final = {schema.name: schema for schema in TABLES}
