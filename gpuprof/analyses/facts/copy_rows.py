"""The rows of ``memcpys`` as arrays: each copy, and each half of a staged one."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.facts.calls import pieces
from gpuprof.analyses.facts.groups import Numbers
from gpuprof.analyses.facts.growing import columns_of
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile
from gpuprof.readers.common.compact_columns import narrowed

_COLUMNS: Final = (
    "start_ns",
    "end_ns",
    f"coalesce(process_id, {UNKNOWN})",
    f"coalesce(correlation_id, {UNKNOWN})",
    *(f"coalesce({name}, {UNKNOWN})::SMALLINT" for name in (
        "device_id", "src_device_id", "dst_device_id", "src", "dst"
    )),
    "CASE WHEN is_counted THEN coalesce(bytes, 0) ELSE 0 END",
    *(f"{name}::TINYINT" for name in ("is_transfer", "is_counted", "is_peer", "is_staged")),
)  # fmt: skip


class CopyRows(NamedTuple):
    """Rows of ``memcpys``, one element each; what is unknown is `UNKNOWN`.

    Args:
        start_ns: Start.
        end_ns: End.
        process: The process that launched it.
        correlation: The id of the call that launched it.
        device: The device that it ran on.
        src_device: Device at the source, as recorded.
        dst_device: Device at the destination, as recorded.
        src: Device at the source, or `facts.HOST`.
        dst: Device at the destination, or `facts.HOST`.
        bytes: Bytes; 0 where unknown, and for a staged copy's second half.
        is_transfer: 1 for a copy between the memories of two devices, the host being one.
        is_counted: 0 for the second half of a staged copy.
        is_peer: 1 for a copy between two devices.
        is_staged: 1 for half of a peer copy through the host.
    """

    start_ns: Int64s
    end_ns: Int64s
    process: Numbers
    correlation: Numbers
    device: Numbers
    src_device: Numbers
    dst_device: Numbers
    src: Numbers
    dst: Numbers
    bytes: Int64s
    is_transfer: Numbers
    is_counted: Numbers
    is_peer: Numbers
    is_staged: Numbers

    def by_device(self) -> Iterator["CopyRows"]:
        """The rows in pieces, ``device`` being each on which a copy takes time.

        A copy between two devices is there for each; see ``copies_by_device`` in `gpuprof.facts`.
        """
        for part in map(self.take, pieces(len(self.start_ns))):
            src, dst, is_whole = part.src_device, part.dst_device, part.is_staged == 0
            end = np.where(src == UNKNOWN, dst, src)
            device = np.where((part.device == UNKNOWN) & is_whole, end, part.device)
            yield part._replace(device=device)
            is_src = is_whole & (src != UNKNOWN) & (src != device)
            is_dst = is_whole & (dst != UNKNOWN) & (dst != device) & (dst != src)
            yield part._replace(device=src).take(is_src)
            yield part._replace(device=dst).take(is_dst)

    def take(self, chosen: slice | npt.NDArray[np.bool_]) -> "CopyRows":
        """Some of them."""
        return CopyRows._make(column[chosen] for column in self)


def copy_rows(profile: Profile) -> CopyRows:
    """All rows of ``memcpys``, in the order of the file."""
    return profile.once(_copy_rows)


def _copy_rows(profile: Profile) -> CopyRows:
    if not profile.has("memcpys"):
        return CopyRows(*np.empty((len(_COLUMNS), 0), np.int64))
    parts = profile.arrays(f"SELECT {', '.join(_COLUMNS)} FROM memcpys")
    of_call = CopyRows._fields.index("process"), CopyRows._fields.index("correlation")
    return CopyRows(*columns_of(
        (
            [narrowed(values) if place in of_call else values for place, values in enumerate(part)]
            for part in parts
        ),
        len(_COLUMNS),
    ))  # fmt: skip
