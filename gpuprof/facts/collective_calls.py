"""The communication kernels of each stream, and what its device did before each.

Of a job whose files are analysed one by one, these are the activities that are kept, so that the
calls of all ranks can be matched: the first ones of each stream.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.facts.communication import Collective, CommunicationKernels, communication_kernels
from gpuprof.facts.numbers import different_codes, groups, sums_of_pieces
from gpuprof.facts.rank_matching import Channel
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    LOCAL_COPY,
    TRANSFER,
    DeviceTimeline,
    timelines,
)
from gpuprof.model.analysis import per_file
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, covered_within, together
from gpuprof.model.pairs import Pairs
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import Bytes, Count, Flag, Id, Instant, Ns, Schema, Text, arrow

# What delays a rank: its device idled, as its host was late; it computed; it copied; it was in a
# collective of others. And the column of each.
HOST, WORK, COPIES, COLLECTIVE = "host", "work", "copies", "collective"
CAUSES: Final = {
    HOST: "idle_ns",
    WORK: "compute_ns",
    COPIES: "copies_ns",
    COLLECTIVE: "collectives_ns",
}
_LAYERS: Final = {
    WORK: (COMPUTE,),
    COPIES: (TRANSFER, LOCAL_COPY),
    COLLECTIVE: (COMMUNICATION,),
}
# Calls that are kept of each stream of all files together, and of each at least.
_CALLS_OF_JOB: Final = 1 << 20
_LEAST_CALLS: Final = 2_048
FIRST_CALLS: Final = (
    "of the streams of many files the first 1,048,576 calls in all count, of each 2,048 at least"
)
_PLACE: Final = ("start_ns", "end_ns", "device_id", "stream_id")
# A stream of communication also computes where it has this share of its device's computing.
_LEAST_COMPUTE: Final = 0.01
_BEFORE: Final = "Since the call before on its stream: time in which"
CALLS: Final = Schema(
    "collective_calls",
    "one communication kernel",
    {
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "stream_id": Id("Stream; null where unknown."),
        "collective": Text("As in collectives.", required=True),
        "data_type": Text("As in collectives."),
        "message_bytes": Bytes("As in collectives."),
        "group_size": Count("As in collectives."),
        "process_group": Text("As in collectives."),
        "start_ns": Instant("Start on the device.", required=True),
        "end_ns": Instant("End on the device.", required=True),
        "hidden_ns": Ns("Time of it in which a compute kernel runs."),
        "idle_ns": Ns(f"{_BEFORE} nothing ran."),
        "compute_ns": Ns(f"{_BEFORE} a compute kernel ran."),
        "copies_ns": Ns(f"{_BEFORE} only copies and memsets ran."),
        "collectives_ns": Ns(f"{_BEFORE} only other collectives ran."),
        "is_same_stream": Flag("Whether its stream also runs compute kernels."),
    },
)
_LABELS: Final = Schema(
    "collective", "one collective", {name: CALLS.columns[name] for name in Collective._fields}
)


def most_calls(profile: Profile) -> int:
    """How many calls of each stream of a file are kept."""
    # The same for nearly as many files, so that what was kept of a job can be taken up.
    return max(_CALLS_OF_JOB >> (profile.file_count - 1).bit_length(), _LEAST_CALLS)


@per_file(CALLS, needs=("kernels",))
def collective_calls(profile: Profile) -> pa.Table:
    """The first communication kernels of each stream of a file."""
    kernels = communication_kernels(profile)
    if not len(kernels):
        return CALLS.empty()
    lines = {line.number: line for line in timelines(profile)}
    chosen: list[Int64s] = []
    before: dict[str, list[Int64s]] = {column: [] for column in CAUSES.values()}
    for channel in channels(kernels):
        rows = channel.rows[: most_calls(profile)]
        start, end = kernels.start_ns[rows], kernels.end_ns[rows]
        since = np.minimum(np.append(start[:1], end[:-1]), start)
        chosen.append(rows)
        for cause, column in CAUSES.items():
            instants = instants_of(lines[channel.device], cause)
            before[column].append(covered_within(instants, since, start))
    rows = np.concatenate(chosen)
    start, end, device = kernels.start_ns[rows], kernels.end_ns[rows], kernels.device[rows]
    hidden_ns = np.zeros(len(rows), np.int64)
    for number, line in lines.items():
        here = np.flatnonzero(device == number)
        hidden_ns[here] = covered_within(line.busy[COMPUTE], start[here], end[here])
    numbers = {column: np.concatenate(parts) for column, parts in before.items()}
    numbers |= {"start_ns": start, "end_ns": end, "hidden_ns": hidden_ns}
    columns = {name: arrow(values) for name, values in numbers.items()}
    columns["is_same_stream"] = arrow(on_compute_streams(profile)[rows])
    for name, values in (("device_id", device), ("stream_id", kernels.stream[rows])):
        columns[name] = arrow(values.astype(np.int64), values == UNKNOWN)
    labels = _LABELS.table([collective._asdict() for collective in kernels.collectives])
    of_kernel = labels.take(arrow(kernels.kind[rows]))
    columns |= {name: of_kernel[name] for name in of_kernel.column_names}
    return CALLS.conform(pa.table(columns))


def instants_of(line: DeviceTimeline, cause: str) -> Intervals:
    """When a device did what may have delayed it: HOST, WORK, COPIES or COLLECTIVE."""
    if cause == HOST:
        return line.idle
    return together([line.exposed[layer] for layer in _LAYERS[cause]])


def kernels_of(calls: pa.Table) -> tuple[CommunicationKernels, npt.NDArray[np.bool_]]:
    """The kernels of `collective_calls`, and whether the stream of each also computes."""
    labels, code = calls.select(Collective._fields), np.zeros(calls.num_rows, np.int64)
    for column in labels.columns:
        values = column.combine_chunks().dictionary_encode()
        code = code * (len(values.dictionary) + 1) + values.indices.fill_null(-1).to_numpy() + 1
        code = different_codes(code)[1].astype(np.int64)  # few, whatever the columns hold
    first = np.empty(int(code.max(initial=-1)) + 1, np.int64)
    # What is written later overwrites what was before: the first row remains.
    first[code[::-1]] = np.arange(len(code))[::-1]
    met = np.argsort(first)  # numbered in the order in which they are met
    kinds = np.argsort(met)[code]
    different = (Collective(**row) for row in labels.take(arrow(first[met])).to_pylist())
    device, stream = (
        calls[name].fill_null(UNKNOWN).to_numpy() for name in ("device_id", "stream_id")
    )
    start, end = (calls[name].to_numpy() for name in ("start_ns", "end_ns"))
    kernels = CommunicationKernels(start, end, device, stream, kinds, tuple(different))
    return kernels, calls["is_same_stream"].to_numpy().astype(bool)


def channels(kernels: CommunicationKernels) -> Iterator[Channel]:
    """The kernels of each stream, in the order of their ends."""
    order = np.argsort(kernels.end_ns, kind="stable")
    alike = [
        collective._replace(data_type=None, message_bytes=None)
        for collective in kernels.collectives
    ]
    number = {collective: place for place, collective in enumerate(dict.fromkeys(alike))}
    kind = np.array([number[collective] for collective in alike], np.int64)
    for of_stream in groups(kernels.device[order], kernels.stream[order]):
        rows = order[of_stream]
        yield Channel(
            int(kernels.device[rows[0]]),
            rows,
            kernels.start_ns[rows],
            kernels.end_ns[rows],
            kind[kernels.kind[rows]],
        )


@once_per_profile
def on_compute_streams(profile: Profile) -> npt.NDArray[np.bool_]:
    """Whether the stream of each communication kernel also runs compute, more than a few."""
    kernels = communication_kernels(profile)
    is_same = np.zeros(len(kernels), bool)
    if not len(kernels):
        return is_same
    streams = Pairs()
    _, total_ns = sums_of_pieces(
        (streams.learn(device, stream), end - start)
        for start, end, device, stream in profile.columns("kernels", *_PLACE)
    )
    # Of all kernels, then less those that communicate, by device and stream.
    places = zip(*streams.values.tolist(), strict=True)
    computing = Counter[tuple[int, int]](dict(zip(places, total_ns.tolist(), strict=True)))
    by_stream = {
        (int(kernels.device[rows[0]]), int(kernels.stream[rows[0]])): rows
        for rows in groups(kernels.device, kernels.stream)
    }
    of_devices = Counter[int]()
    for place, rows in by_stream.items():
        computing[place] -= int((kernels.end_ns - kernels.start_ns)[rows].sum())
    for (number, _), compute_ns in computing.items():
        of_devices[number] += compute_ns
    for place, rows in by_stream.items():
        least_ns = _LEAST_COMPUTE * of_devices[place[0]]
        is_same[rows] = place[1] != UNKNOWN and computing[place] > least_ns
    return is_same
