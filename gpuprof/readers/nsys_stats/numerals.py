"""Numbers as `nsys stats` prints them: with a locale's separators, or with a unit in the cell.

Nothing in a file names its locale. Columns that must hold integers (counts, and times in ns)
show the separator of groups, of three digits or of four: ``25.369.833``, ``44,0087,8248``.
"""

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base import units
from gpuprof.base.kernel_names import CUT_END
from gpuprof.readers.nsys_stats.blocks import Block, FaultError, PrintedColumn, Style

# Wide enough for 2**63 ns, with the nine digits of a second in ns.
_EXACT: Final = pa.decimal128(27, 9)
_INTEGER: Final = pa.int64()
_GROUPED: Final = re.compile(
    r"^-?(?:\d{1,3}(?:(?P<three>[.,'\s])\d{3})(?:(?P=three)\d{3})*"
    r"|\d{1,4}(?:(?P<four>[.,'\s])\d{4})(?:(?P=four)\d{4})*)(?P<rest>[.,]\d+)?$"
)
# Arrow's \s knows ASCII only; French groups digits by a narrow blank that does not break.
_ANY: Final = "[.,'\\s\u00a0\u202f]"
_TWO: Final = _ANY + r"\d{3,4}[.,]"
_DECIMAL: Final = re.compile(r"(?P<point>[.,])\d+$")
_SWAPPED: Final = {".": ",", ",": "."}
_WITH_UNIT: Final = re.compile(r"[A-Za-zµμ%]$")
_PLAIN: Final = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"


# How a column of numbers is read.
Read = Callable[[PrintedColumn, Style], pa.Array]


class NumberError(ValueError):
    """A cell that must hold a number does not."""

    def __init__(self, row: int, cell: str) -> None:
        shown = " ".join(cell.split())[:60]
        super().__init__(f'expected a number, found "{shown}"')
        self.row = row


def numbers(block: Block, read: Read, name: str) -> pa.Array:
    """A column of numbers, each different cell read once.

    Raises:
        FaultError: A cell is no number.
    """
    unit, cells = block.column(name)
    is_coded = isinstance(cells, pa.DictionaryArray)
    try:
        values = read(PrintedColumn(unit, cells.dictionary if is_coded else cells), block.style)
    except ValueError as error:
        row = error.row if isinstance(error, NumberError) else -1
        if row >= 0 and is_coded:
            row = cells.indices.to_pylist().index(row)
        lines = row + 1 if block.has_lines else 0
        raise FaultError(block.offset, f"{error} under {name}", lines) from error
    return pa.DictionaryArray.from_arrays(cells.indices, values) if is_coded else values


def styles(blocks: list[Block]) -> list[Style]:
    """How each table writes its numbers: as its own show, else as the table before it."""
    proved = [_proved(block) for block in blocks]
    nearest = next((style for style in proved if style is not None), None)
    chosen: list[Style] = []
    for block, style in zip(blocks, proved, strict=True):
        nearest, point = style or nearest, _point(block)
        # Of small numbers: the table's own point, and the groups of a table nearby.
        is_alike = nearest is not None and point in (None, nearest.point)
        likely = nearest if nearest is not None and is_alike else Style("", point or ".")
        chosen.append(style or likely)
    return chosen


def _proved(block: Block) -> Style | None:
    """The style that a table's numbers prove; None where they fit more than one."""
    # These are printed without decimals: counts, and single times in ns.
    sums, single = ("Count", "Total Time", "Min", "Max"), ("Count", "CorrId", "Duration")
    integers_of = sums if "Total Time" in block.columns else single
    for cell in _separated(block, integers_of, _ANY):
        match = _GROUPED.match(cell)
        if match is not None:
            group = match["three"] or match["four"]
            return Style(group, _SWAPPED.get(group) or _point(block) or ".")
    for cell in _separated(block, _FRACTIONS, _TWO):
        match = _GROUPED.match(cell)
        if match is not None and match["rest"]:
            return Style(match["three"] or match["four"], match["rest"][0])
    return None


def _point(block: Block) -> str | None:
    """The separator before the last digits of a fraction, if there is one."""
    matches = (_DECIMAL.search(cell) for cell in _separated(block, _FRACTIONS, _ANY))
    return next((match["point"] for match in matches if match), None)


_FRACTIONS: Final = ("Time", "Avg", "Med", "StdDev", "Total", "Bytes")


def _separated(block: Block, names: tuple[str, ...], separators: str) -> Iterable[str]:
    """Cells of these columns that hold separators."""
    for name in names:
        column = block.columns.get(name)
        if column is None or (names is not _FRACTIONS and column.unit not in ("ns", None)):
            continue
        cells = getattr(column.cells, "dictionary", column.cells)
        yield from cells.filter(pc.match_substring_regex(cells, separators)).to_pylist()


def scaled(
    column: PrintedColumn, style: Style, factor: int = 1, kind: pa.DataType = _INTEGER
) -> pa.Array:
    """Cells times a factor, integers exact before the last rounding.

    Raises:
        NumberError: A cell is no number.
    """
    # Without groups and with a full stop; null where the table cut them short.
    plain = pc.if_else(
        pc.ends_with(column.cells, CUT_END), pa.scalar(None, pa.string()), column.cells
    )
    if style.group:
        plain = pc.replace_substring_regex(plain, re.escape(style.group), "")
    if style.point != ".":
        plain = pc.replace_substring(plain, style.point, ".")
    good = pc.fill_null(pc.match_substring_regex(plain, _PLAIN), fill_value=True)
    if not pc.all(good).as_py():
        row = pc.index(good, pa.scalar(value=False)).as_py()
        raise NumberError(row, plain[row].as_py())
    try:
        if pa.types.is_floating(kind):
            return pc.multiply(plain.cast(kind), float(factor))
        if factor == 1 and not pc.any(pc.match_substring_regex(plain, r"[.eE]")).as_py():
            return plain.cast(kind)
        exact = pc.multiply(plain.cast(_EXACT), pa.scalar(Decimal(factor), pa.decimal128(10, 0)))
        return pc.round(exact, 0, "half_to_even").cast(kind)
    except pa.ArrowInvalid as error:
        # Only a number out of range gets here, and the largest has the most digits.
        sizes = [len(cell or "") for cell in plain.to_pylist()]
        row = sizes.index(max(sizes))
        raise NumberError(row, plain[row].as_py()) from error


def times(column: PrintedColumn, style: Style, kind: pa.DataType = _INTEGER) -> pa.Array:
    """A column of times in nanoseconds.

    Raises:
        NumberError: A cell is no time.
    """
    first = column.cells.drop_null()[:1].to_pylist() if column.unit is None else []
    if not first or _WITH_UNIT.search(first[0]) is None:
        return scaled(column, style, units.to_ns("1", column.unit or "ns"), kind)
    # The Nsight Systems window copies cells with their units.
    times_ns: list[int | None] = []
    for row, cell in enumerate(column.cells.to_pylist()):
        plain = cell and cell.replace(style.group or "\0", "").replace(style.point, ".")
        try:
            times_ns.append(None if plain is None else units.parse_ns(plain))
        except ValueError as error:
            raise NumberError(row, cell) from error
    return pa.array(times_ns, kind)


def durations(column: PrintedColumn, style: Style) -> pa.Array:
    """A column of times that are not below 0, in integer nanoseconds.

    Raises:
        NumberError: A cell is no time, or below 0.
    """
    durations_ns = times(column, style)
    row = pc.index(pc.less(durations_ns, 0), pa.scalar(value=True)).as_py()
    if row >= 0:
        raise NumberError(row, column.cells[row].as_py())
    return durations_ns


def sizes(column: PrintedColumn, style: Style) -> pa.Array:
    """A column of sizes in bytes, as far as it was printed; null where it was rounded to 0.

    Without a unit in the heading they are KiB: versions before 2022 say so in the title only.

    Raises:
        NumberError: A cell is no number.
    """
    unit = column.unit or "KiB"
    sizes_bytes = scaled(column, style, units.to_decimal_bytes("1", unit))
    if unit == "B":
        return sizes_bytes
    return pc.if_else(pc.equal(sizes_bytes, 0), pa.scalar(None, pa.int64()), sizes_bytes)


def shares(column: PrintedColumn, style: Style) -> pa.Array:
    """A column of percentages as fractions of 0 to 1.

    Raises:
        NumberError: A cell is no percentage.
    """
    bare = PrintedColumn(None, pc.utf8_rtrim(column.cells, "% "))
    return pc.divide(scaled(bare, style, 1, pa.float64()), 100.0)
