"""Communication kernels, such as those of NCCL, as arrays, with what is known of their messages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.cuda import is_communication
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.numbers import (
    Numbers,
    columns_of,
    different_codes,
    first_of,
    groups,
    read_columns,
    rows_named,
)
from gpuprof.model.analysis import reads
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.words import Words

COMMUNICATION_READS: Final = reads(
    kernels="start_ns end_ns device_id stream_id process_id name name_id"
)

# ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclKernel_AllReduce_RING_LL_Sum_float and
# ncclAllReduceRingLLKernel_sum_f32: three generations of names.
_COLLECTIVE: Final = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|SendRecv|AllToAll|Reduce|Send|Recv)",
    re.IGNORECASE,
)
_TYPE: Final = re.compile(
    r"(?:_|<)(u?int(?:8|32|64)_t|[ui](?:8|32|64)|[bf]*f(?:16|32|64)|float|half|double|__nv_bfloat16"
    r"|bfloat16|fp8\w*)(?:_|\(|>|$)"
)


class Collective(NamedTuple):
    """What tells one collective from another; None where neither name nor framework tells it.

    Args:
        collective: AllReduce, SendRecv, ...; the kernel's name where that tells none.
        message_bytes: The larger of message in and out on this rank.
        group_size: Ranks that take part.
        process_group: The framework's name of the group.
    """

    collective: str
    data_type: str | None
    message_bytes: int | None = None
    group_size: int | None = None
    process_group: str | None = None


@dataclass(frozen=True, eq=False)
class CommunicationKernels:
    """Executions of communication kernels, one element each; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start on the device.
        end_ns: End on the device.
        device: The device it ran on.
        stream: The stream it ran on.
        kind: Place of its collective among `collectives`.
        collectives: The different ones.
    """

    start_ns: Int64s
    end_ns: Int64s
    device: Numbers
    stream: Numbers
    kind: Numbers
    collectives: tuple[Collective, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


def collective_of(kernel_name: str) -> tuple[str, str | None]:
    """The collective and the type of its elements that a communication kernel's name tells."""
    collective, data_type = _COLLECTIVE.search(kernel_name), _TYPE.search(kernel_name)
    return collective[1] if collective else kernel_name, data_type[1] if data_type else None


# No message is known, or no collective.
_NONE: Final = -1
_PLACE: Final = ("start_ns", "end_ns", "device_id", "process_id")
_WORDS: Final = ("collective", "data_type", "process_group")


@once_per_profile
def communication_kernels(profile: Profile) -> CommunicationKernels:
    """All communication kernels, in the order of the file; ``collectives`` tell their messages."""
    names = profile.loaded("kernels").names.texts if profile.has("kernels") else []
    kind_of = {n: Collective(*collective_of(n)) for n in names if is_communication(n)}
    if not kind_of:
        none = np.empty(0, np.int64)
        return CommunicationKernels(none, none, none, none, none, ())
    kinds = sorted({*kind_of.values()}, key=str)
    parts = rows_named(profile, "kernels", [*kind_of], *_PLACE, "stream_id")
    start, end, device, process, stream, place = columns_of(parts, len(_PLACE) + 2)
    kind = np.array([kinds.index(of) for of in kind_of.values()])[place]
    messages, message = _messages(profile, [start, end, device, process])
    # One number for each pair: of single numbers the different ones are found faster.
    code = kind * (len(messages) + 1) + message - _NONE
    codes, member = different_codes(code)
    pairs = (divmod(pair, len(messages) + 1) for pair in codes.tolist())
    collectives = []
    for of_name, of_message in pairs:
        collective = by_name = kinds[of_name]
        if of_message:  # what the framework says, and the kernel's name where it is silent
            collective = messages[of_message + _NONE]
            collective = collective._replace(data_type=collective.data_type or by_name.data_type)
        collectives.append(collective)
    return CommunicationKernels(start, end, device, stream, member, tuple(collectives))


def _messages(profile: Profile, place: Sequence[Numbers]) -> tuple[list[Collective], Int64s]:
    """The different collectives that the framework told, and which of them each kernel is.

    ``place`` has start, end, device and process of each kernel.
    """
    if not profile.unrestricted.has("collectives"):
        return [], np.full(len(place[0]), _NONE)
    words = {name: Words() for name in _WORDS}
    columns = (*_PLACE, "group_size", "bytes_in", "bytes_out", *_WORDS)
    *places, group_size, bytes_in, bytes_out, collective, data_type, group = read_columns(
        profile.unrestricted, "collectives", *columns, texts=words
    )
    size = np.maximum(bytes_in, bytes_out)
    names, types, group_names = (words[name].words for name in _WORDS)
    message, messages = np.empty(len(size), np.int64), list[Collective]()
    for rows in groups(collective, data_type, size, group_size, group):
        message[rows], row = len(messages), rows[0]
        sizes = (int(column[row]) for column in (size, group_size))
        message_bytes, ranks = map(if_known, sizes)
        words_of = str(names[collective[row]]), types[data_type[row]]
        messages.append(Collective(*words_of, message_bytes, ranks, group_names[group[row]]))
    # What the framework told comes before the kernels that run at the same time and place.
    together = [*map(np.concatenate, zip(places, place, strict=True))]
    ordered = np.lexsort(together)
    first = first_of(ordered, *together)
    origin = np.empty(len(ordered), np.int64)
    origin[ordered] = np.repeat(ordered[first], np.diff(first, append=len(ordered)))
    of_kernels = np.minimum(origin[len(size) :], len(size))
    return messages, np.append(message, _NONE)[of_kernels]


# The framework's word by its letters -> how often each byte of a message crosses a rank's link
# in a group of n, by (n - 1) / n; 0 stands for once, whatever n is. First match counts.
_BUS_FACTORS: Final = {
    "allreduce": 2,
    "allgather": 1,
    "reducescatter": 1,
    "alltoall": 1,
    "broadcast": 0,
    "reduce": 0,
    "send": 0,
    "recv": 0,
}


def bandwidths(group: Collective, calls: int, total_ns: int) -> dict[str, float]:
    """Algorithm and bus bandwidth in bytes per second, as far as the collective tells them."""
    if group.message_bytes is None or not total_ns:
        return {}
    algorithm = calls * group.message_bytes * NS_PER_S / total_ns
    factor = bus_factor(group.collective, group.group_size)
    return {"algorithm_bytes_per_s": algorithm} | (
        {} if factor is None else {"bus_bytes_per_s": algorithm * factor}
    )


def bus_factor(collective: str, group_size: int | None) -> float | None:
    """Bus bandwidth by algorithm bandwidth; None for an unknown collective or group."""
    letters = re.sub("[^a-z]", "", collective.lower())
    ways = next((ways for word, ways in _BUS_FACTORS.items() if word in letters), None)
    if ways == 0:
        return 1.0
    return None if ways is None or not group_size else ways * (group_size - 1) / group_size
