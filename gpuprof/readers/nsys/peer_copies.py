"""Copies, and between which devices they went: what Nsight Systems and nvprof record tells."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import is_any_of
from gpuprof.model.table import Computed, Flags, Part, translated
from gpuprof.readers.nsys.columns import (
    GRAPH_NODE,
    Columns,
    Export,
    Numbers,
    as_computed,
    in_machine,
    part,
    place,
    timed,
)
from gpuprof.readers.nsys.export_schema import MEMCPY

_RECORDED_ENDS: Final = {"src_device_id": "srcDeviceId", "dst_device_id": "dstDeviceId"}
PATHS: Final = (None, "direct", "staged")
_OF_HALVES: Final = (
    "copyKind", "deviceId", "correlationId", "bytes", "start", "srcKind", "dstKind",
)  # fmt: skip


def memcpys(of: Export) -> Part:
    """Copies, those that went through the host told from others."""
    recorded = {n: of.pick(MEMCPY, column) for n, column in _RECORDED_ENDS.items()}
    src, dst = recorded.values()
    ends = (src, dst) if src is not None and dst is not None else ()
    peer, on_device = (_numbers(of.memcpy_kinds, word) for word in ("PtoP", "DtoD"))

    def path(kind: Numbers, *ends: Numbers) -> Numbers:
        # Of peer copies: that they went directly.
        is_direct = is_any_of(kind, peer)
        if ends:
            read, written = ends
            is_known = (read != UNKNOWN) & (written != UNKNOWN)
            is_direct |= is_any_of(kind, on_device) & is_known & (read != written)
        return is_direct.astype(np.int8)

    columns: Columns = {
        **place(of, MEMCPY),
        "memcpy_kind": translated("copyKind", of.memcpy_kinds, "unknown"),
        "bytes": "bytes",
        "src_memory_kind": translated("srcKind", of.memory_kinds),
        "dst_memory_kind": translated("dstKind", of.memory_kinds),
        "src_device_id": copy_end(of, recorded["src_device_id"], 0),
        "dst_device_id": copy_end(of, recorded["dst_device_id"], -1),
        "path": Computed(("copyKind", *ends), path, lambda: PATHS),
        **GRAPH_NODE,
    }
    columns, is_whole = with_staged(of, columns)
    for name in _RECORDED_ENDS:
        columns[name] = (end := columns[name]) and in_machine(of, MEMCPY, end)
    return part(of, MEMCPY, columns, *timed(of, MEMCPY), is_whole=is_whole)


def copy_end(of: Export, recorded: str | None, letter: int) -> Computed | str | None:
    """The device at one end of a copy: ``letter`` is 0 for the source, -1 for the destination.

    Of a peer copy ``deviceId`` is where it ran, the source when pushed and the destination
    when pulled: only the recorded ids tell. Other copies touch the one device they ran on.
    """
    kinds_on_device = [
        number
        for number, word in of.memcpy_kinds.items()
        if word not in {"unknown", "PtoP", "UVM_DtoD"}
        and word.removeprefix("UVM_")[letter] in "DA"  # an array lies on the device, too
    ]
    device = of.pick(MEMCPY, "deviceId")
    if device is None:
        return recorded

    def make(kind: Numbers, ran_on: Numbers, *ends: Numbers) -> Numbers:
        is_one_device = is_any_of(kind, kinds_on_device)
        if not ends:
            return np.where(is_one_device, ran_on, UNKNOWN)
        return np.where((ends[0] == UNKNOWN) & is_one_device, ran_on, ends[0])

    return Computed(("copyKind", device, *([] if recorded is None else [recorded])), make)


def with_staged(of: Export, columns: Columns) -> tuple[Columns, Callable[[], bool]]:
    """Columns of copies with both ends of those that went through the host.

    Returns:
        The columns, and whether they need all rows at once, since halves may lie apart.
    """
    if not of.has(MEMCPY, "srcKind", "dstKind", "deviceId", "correlationId"):
        return columns, lambda: False
    # By column the numbers of copies that may be half of a staged one.
    device_memory = _numbers(of.memory_kinds, "device")
    copies = _numbers(of.memcpy_kinds, "DtoH") + _numbers(of.memcpy_kinds, "HtoD")
    kinds = {"copyKind": copies, "srcKind": device_memory, "dstKind": device_memory}

    @cache
    def may_be_staged() -> bool:
        return any(
            np.logical_and.reduce([
                is_any_of(column.filled, numbers)
                for column, numbers in zip(piece, kinds.values(), strict=True)
            ]).any()
            for piece in of.stored(MEMCPY).pieces([*kinds])
        )  # fmt: skip

    staged = _Staged(of, kinds)
    ends = {name: staged.column(columns[name], place) for place, name in enumerate(_RECORDED_ENDS)}
    path = columns.get("path") or Computed((), lambda: PATHS.index(None))
    staged_path = staged.column(path, 2)._replace(words=lambda: PATHS)
    return columns | ends | {"path": staged_path}, may_be_staged


class _Staged:
    """Peer copies that went through the host.

    Without a path between two devices, a peer copy is recorded as a copy to the host on the
    source and a copy from the host on the destination, of one correlation id, both from device
    memory to device memory, and neither naming the other device.

    Args:
        of: Its table of copies has all columns of `_OF_HALVES`.
        kinds: Which copies may be halves.
    """

    def __init__(self, of: Export, kinds: Mapping[str, list[int]]) -> None:
        self._kinds = kinds
        self._to_host, self._from_host = (_numbers(of.memcpy_kinds, w) for w in ("DtoH", "HtoD"))
        process = of.pick(MEMCPY, "globalPid")
        self._reads = (*_OF_HALVES, *([] if process is None else [process]))
        # Columns are made one after another of the same rows.
        self._last: tuple[Any, tuple[Numbers, Numbers]] | None = None

    def column(self, recorded_column: Computed | str | None, place: int) -> Computed:
        """The source (0), destination (1) or path (2) of halves; of others their own."""
        of_row = as_computed(recorded_column)

        def make(*columns: Numbers) -> Numbers:
            of_halves, of_table = columns[: len(self._reads)], columns[len(self._reads) :]
            if self._last is None or self._last[0] is not of_halves[0]:
                self._last = of_halves[0], self._ends(*of_halves)
            src, dst = self._last[1]
            of_pair = (src, dst, PATHS.index("staged"))[place]
            return np.where(src == UNKNOWN, of_row.make(*of_table), of_pair)

        return Computed((*self._reads, *of_row.reads), make)

    def _ends(self, *columns: Numbers) -> tuple[Numbers, Numbers]:
        """The devices of the pair that a copy is half of, `UNKNOWN` for others."""
        kind, device, correlation, size, start, *_, src_kind, dst_kind = columns[:7]
        process = columns[7] if len(columns) > len(_OF_HALVES) else np.zeros(len(kind), np.int64)
        ends = np.full((2, len(kind)), UNKNOWN, np.int64)
        of = dict(zip(("copyKind", "srcKind", "dstKind"), (kind, src_kind, dst_kind), strict=True))
        is_half = np.logical_and.reduce([is_any_of(of[c], n) for c, n in self._kinds.items()])
        rows = np.flatnonzero(is_half & (correlation != UNKNOWN))
        if not len(rows):
            return ends[0], ends[1]
        keys = process[rows], correlation[rows]
        order = np.lexsort(keys)
        rows = rows[order]
        is_first = np.ones(len(rows), bool)
        is_first[1:] = np.logical_or.reduce([k[order][1:] != k[order][:-1] for k in keys])
        group, groups = np.cumsum(is_first) - 1, int(is_first.sum())
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        out, back = (is_any_of(kind[rows], kinds) for kinds in (self._to_host, self._from_host))

        def of_group(side: Flags, values: Numbers, how: np.ufunc, start_with: int) -> Numbers:
            extremes = np.full(groups, start_with, np.int64)
            is_known = side & (values[rows] != UNKNOWN)
            how.at(extremes, group[is_known], values[rows][is_known])
            return extremes

        src, dst = (of_group(side, device, np.minimum, most) for side in (out, back))
        is_pair = (src != dst) & (src != most) & (dst != most)
        is_pair &= src == of_group(out, device, np.maximum, least)
        is_pair &= dst == of_group(back, device, np.maximum, least)
        is_pair &= of_group(out, size, np.add, 0) == of_group(back, size, np.add, 0)
        first_out, first_back = (of_group(side, start, np.minimum, most) for side in (out, back))
        is_pair &= first_out <= first_back
        ends[:, rows] = np.where(is_pair, [src, dst], UNKNOWN)[:, group]
        return ends[0], ends[1]


def _numbers(words: Mapping[int, str], word: str) -> list[int]:
    return [number for number, meaning in words.items() if meaning == word]
