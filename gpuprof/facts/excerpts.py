"""Whether a printed table is whole, and the total that its printed shares imply where it is not.

People paste a few rows of a table. Each row's time and its printed share still imply the time
of the whole table: 13.0696 s at 24.53 % imply 53.28 s. The row with the largest share implies
it most precisely, since a printed share is off by up to half its last digit.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

GPU_KINDS: Final = ("kernel", "memcpy", "memset")
# Times of five digits are rounded by at most this much; so is the sum of many.
_TIME_ROUNDING: Final = 1e-4
# Of adding up shares as floating-point numbers.
_SUM_ROUNDING: Final = 1e-9
_PERCENT: Final = 0.01

Row = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A table that a tool printed for one process.

    Args:
        run_id: The process; None where the file has one.
        kinds: Kinds of activity that it would list.
        listed_ns: Sum of the rows that are there.
        implied_ns: Total of the whole table; None where no share tells.
        is_whole: Whether the rows that are there are all that the tool printed.
    """

    run_id: int | None
    kinds: tuple[str, ...]
    listed_ns: int
    implied_ns: int | None
    is_whole: bool


_KINDS: Final = {
    "gpu": GPU_KINDS,
    "kernel": ("kernel",),
    "memory": ("memcpy", "memset"),
    "memcpy": ("memcpy",),
    "memset": ("memset",),
    "api": ("api",),
}


def sections(rows: Iterable[Row]) -> list[Section]:
    """The tables that a summary was printed in, one per section and process."""
    tables: dict[tuple[int | None, str], list[Row]] = defaultdict(list)
    for row in rows:
        default = "api" if row["activity_kind"] == "api" else "gpu"
        tables[row["run_id"], row["section"] or default].append(row)
    found = []
    for (run_id, name), of_table in tables.items():
        listed_ns = sum(row["total_ns"] or 0 for row in of_table)
        implied_ns, is_whole = None, True
        timed = [row for row in of_table if row["printed_share"] and row["total_ns"]]
        if timed:
            shares = [r["printed_share"] for r in of_table if r["printed_share"] is not None]
            rounding = _rounding(shares)
            top = max(timed, key=lambda row: row["printed_share"])
            implied_ns = round(top["total_ns"] / top["printed_share"])
            least_ns = top["total_ns"] / (top["printed_share"] + rounding)
            # Rows that were put together of several have no printed share.
            has_all = len(shares) == len(of_table)
            most_share = sum(shares) + len(shares) * rounding if has_all else 1.0
            is_whole = listed_ns >= least_ns * (1 - _TIME_ROUNDING)
            is_whole = is_whole and most_share >= 1 - _SUM_ROUNDING
        found.append(Section(run_id, _KINDS[name], listed_ns, implied_ns, is_whole))
    return found


def _rounding(shares: Sequence[float]) -> float:
    """How much larger than printed a share may be.

    24.53 % is at most 24.535 %; but a lone 24.00 % would pass for 24 %. Whole percentages may be
    cut off and not rounded: nsys of 2020 printed 27.9 % as 27,0 where numbers have a decimal comma.
    """
    digits = max(len(f"{share * 100:.6f}".rstrip("0").partition(".")[2]) for share in shares)
    if digits == 0 and len(shares) > 1:
        return _PERCENT
    return 0.5 * _PERCENT * 10.0 ** -max(digits, 1)
