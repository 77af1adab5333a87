"""The collectives of a job whose files were read one by one.

Of each file its communication kernels are kept, with what the device did before each, and the
kernels that took most of each device's time. Of long recordings these are the first calls of each
stream, so that the calls of all ranks can still be matched.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.facts.collective_parts import (
    CollectiveParts,
    channels,
    on_compute_streams,
    parts_of,
)
from gpuprof.facts.communication import (
    Collective,
    CommunicationKernels,
    communication_kernels,
)
from gpuprof.facts.hosts import names_of_job
from gpuprof.facts.last_ranks import (
    COLLECTIVE,
    COPIES,
    HOST,
    WORK,
    CollectiveRecord,
    instants_of,
    kernel_sums,
    sums_by_name,
)
from gpuprof.facts.rank_matching import Communicator
from gpuprof.facts.timeline import COMPUTE, timelines
from gpuprof.model.analysis import JobStates, State
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLAG, INT, TEXT, Column, Schema, instant_column

# Of each stream of a file.
MOST_CALLS: Final = 2_048
# Kernels of each device that are kept to tell slow ones from many.
_MOST_KERNELS: Final = 20
_CAUSES: Final = {
    HOST: "idle_ns",
    WORK: "compute_ns",
    COPIES: "copies_ns",
    COLLECTIVE: "collectives_ns",
}
_BEFORE: Final = "Since the call before on its stream: time in which"

CALLS: Final = Schema(
    "collective_calls",
    "one communication kernel",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "stream_id": Column(INT, "", "Stream; null where unknown."),
        "collective": Column(TEXT, "", "As in collectives.", required=True),
        "data_type": Column(TEXT, "", "As in collectives."),
        "message_bytes": Column(INT, "B", "As in collectives."),
        "group_size": Column(INT, "1", "As in collectives."),
        "process_group": Column(TEXT, "", "As in collectives."),
        "start_ns": instant_column("Start on the device.", required=True),
        "end_ns": instant_column("End on the device.", required=True),
        "hidden_ns": Column(INT, "ns", "Time of it in which a compute kernel runs."),
        "idle_ns": Column(INT, "ns", f"{_BEFORE} nothing ran."),
        "compute_ns": Column(INT, "ns", f"{_BEFORE} a compute kernel ran."),
        "copies_ns": Column(INT, "ns", f"{_BEFORE} only copies and memsets ran."),
        "collectives_ns": Column(INT, "ns", f"{_BEFORE} only other collectives ran."),
        "is_same_stream": Column(FLAG, "", "Whether its stream also runs compute kernels."),
    },
)
KERNELS: Final = Schema(
    "kernels_of_devices",
    "one of the kernels that took most of a device's time",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "name": Column(TEXT, "", "Demangled name.", required=True),
        "calls": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(INT, "ns", "Sum of durations.", required=True),
    },
)


def _calls(profile: Profile) -> pa.Table:
    kernels = communication_kernels(profile)
    if not len(kernels):
        return CALLS.empty()
    is_same_stream = on_compute_streams(profile, kernels)
    lines = {line.number: line for line in timelines(profile)}
    chosen: list[Int64s] = []
    before: dict[str, list[Int64s]] = {column: [] for column in _CAUSES.values()}
    for channel in channels(kernels):
        rows = channel.rows[:MOST_CALLS]
        start, end = kernels.start_ns[rows], kernels.end_ns[rows]
        since = np.minimum(np.append(start[:1], end[:-1]), start)
        chosen.append(rows)
        for cause, column in _CAUSES.items():
            instants = instants_of(lines[channel.device], cause)
            before[column].append(covered_within(instants, since, start))
    rows = np.concatenate(chosen)
    columns: dict[str, npt.NDArray[Any]] = {
        column: np.concatenate(parts) for column, parts in before.items()
    }
    columns |= {"start_ns": kernels.start_ns[rows], "end_ns": kernels.end_ns[rows]}
    columns["hidden_ns"] = _hidden(profile, kernels, rows)
    columns["is_same_stream"] = is_same_stream[rows]
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    for name, values in (("device_id", kernels.device), ("stream_id", kernels.stream)):
        numbers = np.asarray(values[rows], np.int64)
        table = table.append_column(name, pa.array(numbers, mask=numbers == UNKNOWN))
    labels = CALLS_LABELS.table([collective._asdict() for collective in kernels.collectives])
    of_kernel = labels.take(pa.array(kernels.kind[rows]))
    for name in labels.column_names:
        table = table.append_column(name, of_kernel[name])
    return CALLS.conform(table)


CALLS_LABELS: Final = Schema(
    "collective", "one collective", {name: CALLS.columns[name] for name in Collective._fields}
)


def _hidden(profile: Profile, kernels: CommunicationKernels, rows: Int64s) -> Int64s:
    """How long a compute kernel runs beside each kernel."""
    hidden_ns, device = np.zeros(len(rows), np.int64), kernels.device[rows]
    for line in timelines(profile):
        here = np.flatnonzero(device == line.number)
        start, end = kernels.start_ns[rows[here]], kernels.end_ns[rows[here]]
        hidden_ns[here] = covered_within(line.busy[COMPUTE], start, end)
    return hidden_ns


def _kernels(profile: Profile) -> pa.Table:
    # Where nothing communicates nobody asks for them.
    if not len(communication_kernels(profile)):
        return KERNELS.empty()
    rows = sorted(
        kernel_sums(profile),
        key=lambda row: (row["device_id"] is None, row["device_id"], -row["total_ns"], row["name"]),
    )
    by_device = groupby(rows, itemgetter("device_id"))
    return KERNELS.table([row for _, of in by_device for row in islice(of, _MOST_KERNELS)])


COLLECTIVE_CALLS: Final = State(CALLS, _calls)
DEVICE_KERNELS: Final = State(KERNELS, _kernels)


def collective_record_of_job(job: JobStates) -> CollectiveRecord:
    """The collectives of a job."""
    table = job.rows(COLLECTIVE_CALLS)
    parts = parts_of(
        _communication(table),
        table["is_same_stream"].to_numpy(),
        lacks_ranks=bool(job.absent_ranks),
    )
    before = {cause: table[column].to_numpy() for cause, column in _CAUSES.items()}
    hidden_ns = table["hidden_ns"].to_numpy()

    def since_last_call(cause: str, communicator: Communicator, calls: Int64s) -> Int64s:
        took: Int64s = before[cause][communicator.rows[calls]]
        return took

    @cache
    def kernel_sums(devices: tuple[int, ...]) -> Mapping[str, Int64s]:
        sums = sums_by_name(job.rows(DEVICE_KERNELS).to_pylist(), devices)
        # A kernel that is not among the longest of another device may run there all the same.
        return {name: of_devices for name, of_devices in sums.items() if of_devices[0].all()}

    return CollectiveRecord(
        parts,
        names_of_job(job),
        since_last_call,
        kernel_sums,
        lambda rows, _: _hidden_parts(parts, hidden_ns, rows),
    )


def _hidden_parts(parts: CollectiveParts, hidden_ns: Int64s, rows: Int64s) -> tuple[int, int]:
    """What is hidden of transfer and waiting: of a kernel that is in part, the same share of both.

    Where in the kernel compute ran is not kept.
    """
    waiting, transfer = parts.waiting_ns[rows], parts.transfer_ns[rows]
    share = hidden_ns[rows] / np.maximum(waiting + transfer, 1)
    return int(np.round(transfer * share).sum()), int(np.round(waiting * share).sum())


def _communication(table: pa.Table) -> CommunicationKernels:
    numbers: dict[Collective, int] = {}
    kind = [numbers.setdefault(collective, len(numbers)) for collective in _labels(table)]
    device, stream = (
        table[name].fill_null(UNKNOWN).to_numpy() for name in ("device_id", "stream_id")
    )
    start, end = (table[name].to_numpy() for name in ("start_ns", "end_ns"))
    return CommunicationKernels(
        start, end, device, stream, np.array(kind, np.int64), tuple(numbers)
    )


def _labels(table: pa.Table) -> Iterator[Collective]:
    columns = (table[name].to_pylist() for name in Collective._fields)
    return (Collective(*values) for values in zip(*columns, strict=True))
