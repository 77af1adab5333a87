"""Communication kernels, such as those of NCCL, as arrays, with what is known of their messages."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.by_number import distinct_names, names_by_number
from gpuprof.analyses.facts.groups import Numbers
from gpuprof.analyses.facts.growing import columns_of, read_columns
from gpuprof.cuda import is_communication
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile

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
    kind: Int64s
    collectives: tuple[Collective, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start_ns)


def collective_of(kernel_name: str) -> tuple[str, str | None]:
    """The collective and the type of its elements that a communication kernel's name tells."""
    collective, data_type = _COLLECTIVE.search(kernel_name), _TYPE.search(kernel_name)
    return collective[1] if collective else kernel_name, data_type[1] if data_type else None


_NO_MESSAGE: Final = -1
_NO_KIND: Final = -1
# Sizes of one collective and group, numbered alike in both queries.
_SAME_MESSAGE: Final = "collective, data_type, message_bytes, group_size, process_group"
_MESSAGES: Final = f"""
    SELECT *, dense_rank() OVER (ORDER BY {_SAME_MESSAGE}) - 1 AS message FROM (
        SELECT start_ns, end_ns, device_id, process_id, collective, data_type, group_size,
            process_group, greatest(bytes_in, bytes_out) AS message_bytes
        FROM unrestricted.collectives)"""
_KERNELS: Final = f"""
    SELECT k.start_ns, k.end_ns, coalesce(k.device_id, {UNKNOWN})::SMALLINT AS device,
        coalesce(k.stream_id, {UNKNOWN}) AS stream, k.kind::INTEGER AS kind,
        coalesce(m.message, {_NO_MESSAGE}) AS message
    FROM (SELECT start_ns, end_ns, device_id, stream_id, process_id,
        CASE name {{cases}} END AS kind FROM kernels WHERE is_communication) k
    LEFT JOIN (SELECT DISTINCT ON (start_ns, end_ns, device_id, process_id) * FROM ({_MESSAGES})) m
    ON m.start_ns = k.start_ns AND m.end_ns = k.end_ns
        AND m.device_id IS NOT DISTINCT FROM k.device_id
        AND m.process_id IS NOT DISTINCT FROM k.process_id"""


def communication_kernels(profile: Profile) -> CommunicationKernels:
    """All communication kernels, in the order of the file; ``collectives`` tell their messages."""
    return profile.once(_communication_kernels)


def _communication_kernels(profile: Profile) -> CommunicationKernels:
    kernels = _names(profile) if profile.has("kernels") else []
    if not kernels:
        none = np.empty(0, np.int64)
        return CommunicationKernels(none, none, none, none, none, ())
    kinds = [Collective(*collective_of(name)) for name in kernels]
    number = {kind: index for index, kind in enumerate(sorted(set(kinds), key=str))}
    kind_of = {name: number[kind] for name, kind in zip(kernels, kinds, strict=True)}
    is_told = profile.unrestricted.has("collectives")
    if is_told:
        *columns, kind, message = read_columns(profile, _sql(kind_of), 6)
    else:
        *columns, kind = columns_of(_of_kinds(profile, kind_of), 5)
        message = np.full(len(kind), _NO_MESSAGE)
    messages = (
        profile.query(f"SELECT DISTINCT message, {_SAME_MESSAGE} FROM ({_MESSAGES})").to_pylist()
        if is_told
        else []
    )
    by_message = {row.pop("message"): Collective(**row) for row in messages}
    ordered = list(number)
    # One number for each pair: of single numbers the different ones are found faster.
    messages_told = int(message.max(initial=_NO_MESSAGE)) + 1 - _NO_MESSAGE
    code = kind.astype(np.int64) * messages_told + message - _NO_MESSAGE
    codes, member = np.unique(code, return_inverse=True)
    collectives = tuple(
        _described(ordered[of_name], by_message.get(of_message + _NO_MESSAGE))
        for of_name, of_message in (divmod(pair, messages_told) for pair in codes.tolist())
    )
    start, end, device, stream = columns
    return CommunicationKernels(start, end, device, stream, member.reshape(-1), collectives)


def _names(profile: Profile) -> list[str]:
    """The names of all communication kernels."""
    # Among all names of a file are environments: words with zero bytes, which SQL has none of.
    names = distinct_names(profile, "kernels")
    return sorted(name for name in names if is_communication(name) and "\0" not in name)


def _sql(kind_of: Mapping[str, int]) -> str:
    """SQL: start, end, device, stream, kind and message of the kernels of each name."""
    cases = " ".join(
        f"WHEN '{name.replace(chr(39), chr(39) * 2)}' THEN {kind}" for name, kind in kind_of.items()
    )
    return _KERNELS.format(cases=cases)


def _of_kinds(profile: Profile, kind_of: Mapping[str, int]) -> Iterator[list[Any]]:
    """Start, end, device, stream and kind of the kernels of each name, in pieces."""
    kinds = names_by_number(profile, "kernels").values(lambda n: kind_of.get(n, _NO_KIND), _NO_KIND)
    columns = ("start_ns", "end_ns", "device_id", "stream_id", "name_id")
    for *part, name_id in profile.integers("kernels", *columns):
        kind = kinds.of(name_id)
        rows = np.flatnonzero(kind != _NO_KIND)
        yield [column[rows] for column in (*part, kind)]


def _described(by_name: Collective, by_framework: Collective | None) -> Collective:
    """What the framework says, and the kernel's name where it is silent."""
    if by_framework is None:
        return by_name
    return by_framework._replace(data_type=by_framework.data_type or by_name.data_type)
