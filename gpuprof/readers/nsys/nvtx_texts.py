"""NVTX ranges, whose texts and domains stand in several places."""

from functools import cached_property
from typing import Any, Final

import numpy as np

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import pair_places
from gpuprof.model.table import Computed, Part, constant, translated
from gpuprof.model.words import ByNumber, Values, Words
from gpuprof.readers.nsys.columns import (
    THREAD,
    TIMES,
    Export,
    Numbers,
    low_bits,
    part,
    timed,
)
from gpuprof.readers.nsys.export_schema import NVTX, STRINGS

_RANGE_KINDS: Final = {59: "push_pop", 60: "start_end"}
_DOMAIN_CREATED: Final = 75


def nvtx_ranges(of: Export) -> Part:
    """Ranges of threads and of processes."""
    texts = RangeTexts(of, NVTX, "text", "textId")
    columns = {
        **TIMES,
        **THREAD,
        "text": texts.computed(),
        "domain": texts.domain(),
        "range_kind": translated("eventType", _RANGE_KINDS),
    }
    is_range = Computed(("eventType",), lambda kind: np.isin(kind, [*_RANGE_KINDS]))
    return part(of, NVTX, columns, *timed(of, NVTX), is_range)


class RangeTexts:
    """The texts of ranges, which stand in the event or among the texts of the file.

    Args:
        of: The export.
        table: That of the ranges, or of calls that a library marks as such.
        columns: Those that hold them or their numbers, the one that counts first.
    """

    def __init__(self, of: Export, table: str, *columns: str) -> None:
        self._of, self._words = of, Words([None])
        self._reads = tuple(
            name
            for name in columns
            if of.has(table, name) and (name == "text" or STRINGS in of.columns)
        )

    def computed(self, missing: str | None = None) -> Computed | None:
        """The text of each range, or what stands where there is none; None for no such column."""
        words = lambda: [missing, *self._words.listed[1:]]  # noqa: E731 - read when all are met
        return Computed(self._reads, self._numbers, words) if self._reads else None

    @cached_property
    def _places(self) -> ByNumber:
        texts = self._of.texts
        places = [self._words.place(text) for text in texts.columns["name"]]
        return ByNumber(texts.numbers, places, 0)

    def _numbers(self, *columns: Any) -> Numbers:
        places: Any = None
        for column in columns:
            if isinstance(column, Values):
                places = self._words.numbers(column)
            elif places is None or (is_null := places == 0).all():
                places = self._places.of(column)
            elif is_null.any():
                places = np.where(is_null, self._places.of(column), places)
        numbers: Numbers = places
        return numbers

    def domain(self) -> Computed:
        """The name of each range's domain; empty for none."""
        number, thread = (self._of.pick(NVTX, name) for name in ("domainId", "globalTid"))
        if number is None or not self._reads:
            return constant("")

        def make(numbers: Numbers, *threads: Numbers) -> Numbers:
            pairs, _ = self._domains
            process = low_bits(24)(threads[0]) if threads else np.full(len(numbers), UNKNOWN)
            return pair_places(pairs, process, numbers) + 1

        reads = (number,) if thread is None else (number, thread)
        return Computed(reads, make, lambda: self._domains[1])

    @cached_property
    def _domains(self) -> tuple[Numbers, list[str]]:
        """The places of processes and domains among those that have a name, and all names."""
        of = self._of
        number, thread = (of.pick(NVTX, name) for name in ("domainId", "globalTid"))
        reads = ["eventType", *filter(None, (number, thread)), *self._reads]
        names: dict[tuple[int, int], str] = {}
        for piece in of.stored(NVTX).pieces(reads):
            columns = dict(zip(reads, piece, strict=True))
            rows = np.flatnonzero(columns["eventType"].numbers == _DOMAIN_CREATED)
            if not len(rows):
                continue
            of_rows = [c.take(rows) if c.words else c.take(rows).filled for c in columns.values()]
            at: dict[str, Any] = dict(zip(reads, of_rows, strict=True))
            places = self._numbers(*(at[name] for name in self._reads)).tolist()
            none = np.full(len(rows), UNKNOWN)
            processes = none if thread is None else low_bits(24)(at[thread])
            domains = at[number or ""].tolist()
            for process, domain, place in zip(processes.tolist(), domains, places, strict=True):
                name = self._words.listed[place]
                if name is not None and domain != UNKNOWN:
                    names.setdefault((process, domain), name)
        pairs = sorted(names)
        return np.array(pairs, np.int64).reshape(-1, 2).T, ["", *(names[pair] for pair in pairs)]
