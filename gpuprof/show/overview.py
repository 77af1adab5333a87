"""The columns and tables that people see first, as grids of text for terminal and markdown."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import pyarrow as pa

from gpuprof.analyses import analysis_named
from gpuprof.analyses.reports import Report
from gpuprof.base import units
from gpuprof.base.labels import label
from gpuprof.base.units import capital
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.findings.causes import UNKNOWN_WIN, by_family
from gpuprof.model.derived import PEER_DEVICE_COPY, PEER_STAGED
from gpuprof.model.schema import Kind
from gpuprof.show import Page, Row
from gpuprof.show.cells import (
    cell,
    cell_of,
    clean,
    headings,
    schema_columns,
    shown_once,
    with_one_name,
)


@dataclass(frozen=True)
class Grid:
    """A table of text.

    Args:
        title: What it shows.
        header: One heading per column; figures stand right, the names in ``name_columns`` left.
        rows: Cells.
        name_columns: Positions of the columns that hold names, and may take several lines.
        least: Rows that an overview keeps where there is no room for more; None for all.
        sentences: Positions of those names that are sentences, which need a line of their own.
        named: Positions of the rows that sentences above the table name; these are never cut.
        keys: Positions of the columns that tell rows apart as names do.
        table: Name of the table that it is an overview of; empty for none.
        lines: Its rows as sentences, for a page that has no room for all columns; empty for none.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name_columns: tuple[int, ...] = (0,)
    least: int | None = None
    sentences: tuple[int, ...] = ()
    named: frozenset[int] = frozenset()
    keys: tuple[int, ...] = ()
    table: str = ""
    lines: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The cells by column."""
        return tuple(zip(*self.rows, strict=True))

    @cached_property
    def distinct(self) -> tuple[list[str], ...]:
        """The different cells of each column."""
        return tuple(map(list, map(dict.fromkeys, self.columns)))

    def cut(self, surplus: int) -> "Grid":
        """The table with fewer rows, but with those that it needs; its title gives the counts."""
        count = max(len(self.rows) - surplus, self.least or len(self.rows), len(self.named))
        first = sorted(range(len(self.rows)), key=lambda place: place not in self.named)[:count]
        if len(first) == len(self.rows):
            return self
        rows = tuple(self.rows[place] for place in sorted(first))
        return replace(self, rows=rows, title=f"{self.title} ({count} of {len(self.rows)})")


# A sentence, and the parts that stand below it.
Line = tuple[str, tuple[str, ...]]
_GROUP_NAMES: Final = {
    "kernels": "Kernels",
    "communication_kernels": "communication",
    "transfers": "Transfers",
    "peer_transfers": "between devices",
    "local_copies": "Local copies",
    "unknown_copies": "Copies of unknown kind",
    "memsets": "Memsets",
    "gpu_activities": "GPU activities",
    "api_calls": "API calls (host)",
    **{kind: label(kind) for kind in (PEER_STAGED, PEER_DEVICE_COPY)},
}
_TOP_GROUPS: Final = ("Kernels", "Transfers", "Local copies", "Memsets")
# Groups that say little where nothing happened: those with such a figure have no row.
_LEFT_OUT: Final[Mapping[str, tuple[str, tuple[int | None, ...]]]] = {
    "communication_kernels": ("calls", (0, None)),
    "local_copies": ("calls", (0,)),
    "memsets": ("calls", (0,)),
    "api_calls": ("total_ns", (None,)),
}
_SENTENCES: Final = {"bottom_line", "suggestion"}
_IN_SENTENCES: Final = {"findings", "placement_hints"}
_KEYS: Final = {"rank", "device_id", "step"}
_NOTHING: Final = {None, ""}
_TENSORS: Final = 10
_EDGES: Final = 3
# What an overview keeps of the tensors that move most.
_LEAST_TENSORS: Final = 3
_FINDINGS: Final = 5
_COSTLY: Final = 0.05  # Of a step: findings that cost more are always shown.
# A change that names many kernels is in the table of findings alone.
_LONGEST_CHANGE: Final = 40
_FIGURES: Final = ("calls", "total_ns", "bytes", "implied_ns")
# Of no less than this part of all, a group of totals is never cut.
_MUCH: Final = 0.01
_NEVER_CUT: Final = {"kernels", "transfers", "gpu_activities"}
# What an overview of many devices keeps of its tables.
_LEAST_DEVICES: Final = 2
_LEAST_ROUTES: Final = 2
_LEAST_ACTIVITIES: Final = 3
_LEAST_EPOCHS: Final = 3


def _totals_grid(table: pa.Table) -> Grid:
    """The groups, those that are part of another one indented under it."""
    rows = table.to_pylist()
    # How deep each group stands under others; the sum of all comes last and indents nothing.
    depth: dict[str, int] = {}
    for row in rows:
        is_top = row["part_of"] in {None, "gpu_activities"}
        depth[row["activity_group"]] = 0 if is_top else depth.get(row["part_of"], -1) + 1
    shown = [
        row
        for row in rows
        for figure, silent in [_LEFT_OUT.get(row["activity_group"], ("calls", ()))]
        if row[figure] not in silent
    ]
    columns = schema_columns("totals", table)
    is_whole = all(row["total_ns"] is not None for row in shown)
    of_all = ("calls", "total_ns", "mean_ns", "share", "bytes", "bytes_per_s")
    names = [*of_all, *([] if is_whole else ["listed_ns", "implied_ns"])]
    columns_shown = [n for n in names if any(row[n] for row in shown)]
    cells = [
        (
            "  " * depth[group := row["activity_group"]] + _GROUP_NAMES.get(group, group),
            # Where the total is known, what is listed or implied of it says no more.
            *(
                ""
                if n in {"listed_ns", "implied_ns"} and row["total_ns"] is not None
                else cell(columns[n], row[n])
                for n in columns_shown
            ),
        )
        for row in shown
    ]
    named = frozenset(
        place
        for place, row in enumerate(shown)
        if row["activity_group"] in _NEVER_CUT or (row["share"] or 0) >= _MUCH
    )
    title = "Totals, summed over devices"
    unknown = [name for group, name in _GROUP_NAMES.items() if group not in depth]
    if unknown := [name for name in unknown if name in _TOP_GROUPS]:
        title += f" (n/a: {', '.join(unknown)})"
    header = ("", *headings(columns, columns_shown))
    return Grid(title, header, tuple(cells), least=len(named), named=named)


def _top_grid(table: pa.Table) -> Grid:
    """The costliest activities: kernels by name, copies as nvprof and nsys write them.

    The first three, the first kernel and the first copy stay where there is no room for more.
    """
    columns = schema_columns("top_activities", table)
    activities = table.to_pylist()
    figures = ("total_ns", "share", "calls", "mean_ns")
    names = [name for name in figures if any(row[name] is not None for row in activities)]
    copies = {"memcpy": "[CUDA memcpy {}]", "memset": "[CUDA memset]"}
    rows = [
        (
            *(cell(columns[n], row[n]) for n in names),
            copies.get(row["activity_kind"], "{}").format(clean(row["name"])),
        )
        for row in activities
    ]
    header = (*headings(columns, names), "Name")
    kinds = [row["activity_kind"] for row in activities]
    named = frozenset(range(min(_LEAST_ACTIVITIES, len(rows))))
    named |= {*map(kinds.index, {*kinds} - {"memset"})}
    title = "Costliest activities" + ", share of all GPU time" * ("share" in names)
    return Grid(title, header, tuple(rows), (len(names),), len(named), named=named)


def _epochs_grid(table: pa.Table) -> Grid:
    return replace(table_grid("Marked epochs", "marked_epochs", table), least=_LEAST_EPOCHS)


def table_grid(
    title: str, name: str, table: pa.Table, device_names: DeviceNames = NO_NAMES
) -> Grid:
    """A whole table, without the columns that are unknown or an empty text in every row."""
    header, names, sentences, keys = [], [], [], []
    cells: list[list[str]] = []
    for column, spec in schema_columns(name, table).items():
        values = table.column(column).to_pylist()
        if values and _NOTHING.issuperset(values):
            continue
        names += [len(cells)] if spec.kind == Kind.TEXT else []
        sentences += [len(cells)] if column in _SENTENCES else []
        keys += [len(cells)] if column in _KEYS else []
        header.append(spec.heading(column))
        show = partial(cell_of, column, spec, device_names=device_names)
        cells.append(shown_once(values, show))
    rows = tuple(zip(*cells, strict=True))
    return Grid(
        title,
        tuple(header),
        rows,
        tuple(names),
        sentences=tuple(sentences),
        keys=tuple(keys),
        table=name,
    )


def _breakdown_grid(table: pa.Table) -> Grid:
    """Each device's span, and what it went to."""
    shown = {
        "span_ns": "Span",
        "compute_ns": "Compute",
        "exposed_communication_ns": "Communication",
        "exposed_transfer_ns": "Exposed transfer",
        "exposed_local_copy_ns": "Local copy",
        "idle_ns": "Idle",
    }
    rows = [
        (
            NO_NAMES.called(row["device_id"]),
            *(units.format_ns(row[name]) for name in shown),
        )
        for row in table.to_pylist()
    ]
    title = "Where each device's time went"
    return Grid(title, ("", *shown.values()), tuple(rows), least=_LEAST_DEVICES)


def _peer_grid(table: pa.Table) -> Grid:
    """Who copies to whom: the costliest first, then the costliest between two devices."""
    columns = schema_columns("peer_matrix", table)
    routes = table.to_pylist()
    names = ("calls", "total_ns", "bytes", "bytes_per_s", "peak_share")
    columns_shown = names if any(row["peak_share"] is not None for row in routes) else names[:-1]
    peer = next((row for row in routes[1:] if "host" not in {row["src"], row["dst"]}), None)
    rows = [
        (
            f"{row['src']} to {row['dst']}, {label(row['path'])}",
            *(cell(columns[n], row[n]) for n in columns_shown),
        )
        for row in sorted(routes, key=lambda row: (row is not routes[0], row is not peer))
    ]
    title = "Transfers by source and destination"
    return Grid(title, ("", *headings(columns, columns_shown)), tuple(rows), least=_LEAST_ROUTES)


def _tensor_grid(table: pa.Table) -> Grid:
    """The tensors that move most, with the operations at their ends."""
    columns = schema_columns("tensor_transfers", table)
    names = ("bytes_per_step", "calls_per_step")
    rows = [
        (
            *(cell(columns[name], row[name]) for name in names),
            f"{row['src_device']} > {row['dst_device']}",
            "yes" if row["is_gradient"] else "",
            clean(row["dst_operation"] or row["src_operation"] or ""),
        )
        for row in table.to_pylist()[:_TENSORS]
    ]
    header = ("Bytes per step", "Copies per step", "From > to", "For gradients", "Operation")
    return Grid("Largest copies between devices", header, tuple(rows), (4,), _LEAST_TENSORS)


def _edges_grid(table: pa.Table, per_step: Sequence[Row]) -> Grid:
    """Which parts of a model copy most to which, under what a step copies."""
    columns = schema_columns("placement_edges", table)
    title = "Largest edges between parts"
    for row in per_step:
        if row["copies_per_step"] is not None:
            noun = "copy" if row["copies_per_step"] == 1 else "copies"
            size = units.say_bytes(row["bytes_per_step"])
            steps = units.counted(row["steps"], "step", "steps")
            title += f": {row['copies_per_step']:,.4g} {noun}, {size} in each of {steps}"
    rows = [
        (
            cell(columns["bytes_per_step"], row["bytes_per_step"]),
            f"{row['src_device']} > {row['dst_device']}",
            "yes" if row["is_gradient"] else "",
            *(
                "/".join(
                    clean(row[f"{end}_{at}"]) for at in ("tower", "layer") if row[f"{end}_{at}"]
                )
                or "not in a scope"
                for end in ("src", "dst")
            ),
        )
        for row in table.to_pylist()[:_EDGES]
    ]
    header = ("Bytes per step", "From > to", "For gradients", "Sending part", "Receiving part")
    return Grid(title, header, tuple(rows), (3, 4))


def findings_lines(result: Report) -> list[Line]:
    """The bottom line, the first and the costly findings, and how many more there are."""
    shown, more = first_findings(result)
    lines: list[Line] = [
        (f"{capital(clean(row['bottom_line']))}.", ()) for row in result.rows("bottom_line")[:1]
    ]
    for number, (head, rows) in enumerate(shown, start=1):
        sentences = tuple(map(_sentence, rows))
        text, parts = (f"{capital(head)}.", sentences) if head else (sentences[0], ())
        lines.append((f"{number}. {text}", parts))
    return [*lines, (more, ())] if more else lines


def first_findings(result: Report) -> tuple[list[tuple[str, list[Row]]], str]:
    """The first and the costly findings as in `all_findings`, and how many more there are."""
    count, shown = 0, []
    for head, rows in all_findings(result):
        costly = [
            row
            for n, row in enumerate(rows, start=count)
            if n < _FINDINGS or (row.get("cost_share") or 0) >= _COSTLY
        ]
        count += len(rows)
        shown += [(head, costly)] if costly else []
    hidden = count - sum(len(rows) for _, rows in shown)
    table = "findings" if result.rows("findings") else "placement_hints"
    more = f"{units.counted(hidden, 'more finding', 'more findings')}: --table {table}."
    return shown, more * bool(hidden)


def _sentence(row: Row) -> str:
    """A finding or placement hint: what it is, what to try, and what that saves."""
    text = f"{capital(clean(row['finding']))}. {capital(clean(row['suggestion']))}"
    win, replay = clean(row.get("win") or ""), replay_command(row)
    is_predicted = row.get("predicted_win_ns") is not None
    saves = ""
    if row.get("win_share") and not is_predicted and win != UNKNOWN_WIN:
        saves = f"saves {win}; "
    can_save = f". Can save {win}" if is_predicted else ""
    return f"{text}{can_save} ({saves}{replay}{'; ' * bool(replay)}--table {row['table']})."


def replay_command(row: Row) -> str:
    """The command that replays what mends a finding; empty for none, or where it is too long."""
    change = clean(row.get("change") or "")
    is_short = 0 < len(change) <= _LONGEST_CHANGE
    return f"gpuprof predict --what {shlex.quote(change)}" * is_short


def advice(row: Row) -> str:
    """What to try against a finding or for a placement hint, and what that saves."""
    win, text = row.get("win"), f"{capital(row['suggestion'])}."
    if win and row.get("predicted_win_ns") is not None:
        return f"{text} Can save {win}."
    return f"{text} Saves {win}." if row.get("win_share") and win != UNKNOWN_WIN else text


def all_findings(result: Report) -> list[tuple[str, list[Row]]]:
    """What each family costs, with its findings, and the worst hint of each cause.

    What it costs is empty where it has one finding, and of hints, which say how many are alike.
    """
    hints = result.rows("placement_hints")
    count_by_cause = Counter(row["cause"] for row in hints)
    worst = {row["cause"]: row for row in reversed(hints)}
    shown = []
    for row in sorted(worst.values(), key=hints.index):
        more = count_by_cause[row["cause"]] - 1
        shown.append(row | {"finding": f"{row['finding']}; {more} more like this"} if more else row)
    return [*by_family(result.rows("findings")), *(("", [row]) for row in shown)]


def for_people(result: Report, most_rows: int | None = None, *, has_full_names: bool) -> Report:
    """A report whose kernels have one name each, and whose totals are those that are known.

    Args:
        result: The report.
        most_rows: How many rows of a table are shown; all where None.
        has_full_names: Whether kernels have their full names.
    """
    tables = {**result.tables}
    for name, table in result.tables.items():
        if table is not None:
            tables[name] = with_one_name(table, most_rows, has_full_names=has_full_names)
    if (totals := tables.get("totals")) is not None:
        rows = [row for row in totals.to_pylist() if any(row[n] is not None for n in _FIGURES)]
        tables["totals"] = analysis_named("totals").schema.table(rows)
    return replace(result, tables=tables)


def report_grids(report: Report, page: Page) -> list[Grid]:
    """The overview, the longest table last, or the tables that were asked for, whole."""
    result = for_people(report, has_full_names=page.has_full_names)
    if page.tables is None:
        return _overview(result)
    grids = []
    for name in page.tables:
        if (table := result.tables[name]) is None:
            continue
        grid = table_grid(analysis_named(name).title, name, table, result.device_names)
        if name in _IN_SENTENCES:
            rows = enumerate(table.to_pylist(), start=1)
            grid = replace(grid, lines=tuple(f"{n}. {_sentence(row)}" for n, row in rows))
        grids.append(grid)
    return grids


def _overview(result: Report) -> list[Grid]:
    """What is shown of a recording of TensorFlow, or of one of GPUs, or of epochs alone.

    Rows whose devices or routes of copies stand in the findings are marked as named.
    """
    shows: dict[str, Callable[[pa.Table], Grid]] = {
        "breakdown": _breakdown_grid,
        "totals": _totals_grid,
        "peer_matrix": _peer_grid,
        "top_activities": _top_grid,
    }
    if result.tables.get("tensor_transfers") is not None:
        per_step = result.rows("tensor_transfers_per_step")
        shows = {
            "marked_epochs": _epochs_grid,
            "placement_edges": partial(_edges_grid, per_step=per_step),
            "tensor_transfers": _tensor_grid,
        }
    tables = {name: table for name, table in result.tables.items() if table}
    if not tables.keys() & shows.keys():
        shows = {"marked_epochs": _epochs_grid}
    grids, called = [], result.device_names.in_text
    sentences = " ".join(part for text, parts in findings_lines(result) for part in (text, *parts))
    folded = sentences.casefold()
    for name in filter(tables.__contains__, shows):
        grid = shows[name](tables[name])
        # The first column says what devices are called in their own files.
        rows = tuple((called(row[0]), *row[1:]) for row in grid.rows)
        names = (
            row[place].partition(",")[0].strip() for row in rows for place in grid.name_columns[:1]
        )
        # A finding that opens with its device has a capital letter.
        named = frozenset(
            place
            for place, text in enumerate(names)
            # Of thousands of devices few are named: to make a pattern takes a millisecond.
            if text and text.casefold() in folded
            if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", sentences, re.IGNORECASE)
        )
        grids.append(replace(grid, rows=rows, table=name, named=grid.named | named))
    return grids
