"""What people see of a comparison: figures and kernels as grids, its conditions as JUnit."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Final
from xml.etree import ElementTree as ET

from gpuprof.base import units
from gpuprof.base.labels import label
from gpuprof.base.units import capital
from gpuprof.comparisons import Comparison
from gpuprof.comparisons.gate import Check
from gpuprof.comparisons.measure.compared_steps import in_quotes
from gpuprof.comparisons.measure.differences import ORDER
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.comparisons.words.cases import NEW, REMOVED
from gpuprof.model.schema import Kind
from gpuprof.show import Row
from gpuprof.show.cells import cell, clean, percent, signed_ns, with_one_name, without_common_ends
from gpuprof.show.overview import Grid

# Metric -> its name for people; these are the rows of a comparison.
_METRIC_NAMES: Final = {
    "runs": "Runs",
    "devices": "Devices",
    "seconds_per_epoch": "Seconds per epoch",
    "step_ns": "Step",
    "span_ns": "Span",
    "gpu_activity_ns": "GPU activities",
    "implied_gpu_activity_ns": "  implied total",
    "kernel_ns": "Kernels",
    "communication_kernel_ns": "  communication",
    "transfer_ns": "Transfers",
    "peer_transfer_ns": "  between devices",
    "peer_transfer_calls": "    calls",
    "peer_transfer_bytes": "    bytes",
    "peer_transfer_mean_ns": "    mean",
    "htod_ns": "  HtoD",
    "dtoh_ns": "  DtoH",
    "managed_transfer_ns": "  managed memory",
    "local_copy_ns": "Local copies",
    "unknown_copy_ns": "Copies of unknown kind",
    "memset_ns": "Memsets",
    "peer_share": "Peer share",
    "transfer_share": "Transfer share",
    "transfer_to_kernel_ratio": "Transfers / kernels",
    "exposed_transfer_ns": "Exposed, worst device",
    "exposed_transfer_share": "  share of span",
    "peer_transfer_calls_per_step": "Copies per step",
    "peer_transfer_bytes_per_step": "Bytes per step",
    "gradient_bytes_per_step": "  for gradients",
}
_GPU_TIMES: Final = ("gpu_activity_ns", "implied_gpu_activity_ns", "kernel_ns")
_PEERS: Final = ("transfer_ns", "peer_transfer_ns", "peer_transfer_calls")
_ALWAYS: Final = ("gpu_activity_ns", "kernel_ns", *_PEERS)
# Where there are more variants than fit beside each other, each is a row of these.
_SHORT_METRICS: Final = (
    "seconds_per_epoch",
    "step_ns",
    "span_ns",
    "gpu_activity_ns",
    "kernel_ns",
    "peer_transfer_ns",
    "htod_ns",
    "dtoh_ns",
    "peer_transfer_calls_per_step",
    "peer_transfer_bytes_per_step",
)
_FIRST: Final = (
    "runs",
    "seconds_per_epoch",
    "step_ns",
    "span_ns",
    "gpu_activity_ns",
    "implied_gpu_activity_ns",
    "kernel_ns",
    "transfer_ns",
    "peer_transfer_ns",
    "exposed_transfer_ns",
    "peer_transfer_bytes_per_step",
)
SIDE_BY_SIDE: Final = 3
_PAIR: Final = 2
_NO_CHANGE: Final = "-"
# What no XML may hold beside control characters.
_NO_CHARACTERS: Final = str.maketrans("", "", "\ufffe\uffff")

_BASES: Final = {
    "exposed": "time of the busiest device",
    "sums": "GPU time, summed over devices",
    "kernels": "kernel time, summed over devices",
}


@dataclass(frozen=True)
class _Figures:
    """A comparison's figures by variant and metric."""

    result: Comparison

    @cached_property
    def labels(self) -> list[str]:
        """The baseline first."""
        labels = self.result.variants.column("variant").to_pylist()
        return [self.result.baseline, *(label for label in labels if label != self.result.baseline)]

    @cached_property
    def shown_labels(self) -> Mapping[str, str]:
        """Each label without what all labels have in common."""
        return shown_labels(self.result)

    @cached_property
    def medians(self) -> Mapping[tuple[str, str], float]:
        """The median figures, and the number of runs where a variant has several."""
        rows = self.result.figures.to_pylist()
        medians = {(row["variant"], row["metric"]): row["median"] for row in rows}
        variants = self.result.variants.select(("variant", "runs")).to_pylist()
        is_repeated = any(row["runs"] > 1 for row in variants)
        runs = {(row["variant"], "runs"): row["runs"] for row in variants}
        return (runs if is_repeated else {}) | medians

    @cached_property
    def changes(self) -> Mapping[tuple[str, str], Row]:
        return {(r["variant"], r["metric"]): r for r in self.result.differences.to_pylist()}

    def text(self, label: str, metric: str) -> str:
        """A figure for people; ``n/a`` where unknown."""
        return cell(VARIANTS.columns[metric], self.medians.get((label, metric)))

    def change(self, label: str, metric: str) -> str:
        """Its change in percent, with ``~`` where it is within noise; a dash where unknown."""
        row = self.changes.get((label, metric))
        if row is None or VARIANTS.columns[metric].kind in {Kind.SHARE, Kind.RATIO}:
            return _NO_CHANGE
        if not row["baseline"]:
            return NEW if row["candidate"] else _NO_CHANGE
        if not row["candidate"]:
            return REMOVED
        noise = "~" if row["is_beyond_noise"] is False else ""
        return f"{noise}{units.format_change(row['percent'])}"

    def shown(self) -> list[str]:
        """Metrics that a variant has, and those that must be seen to be unknown."""
        known_metrics = {metric for _, metric in self.medians}
        has_any = {metric for (_, metric), value in self.medians.items() if value}
        always = {*(_ALWAYS if known_metrics & {*_GPU_TIMES} else ())}
        always |= {*(_PEERS if "peer_transfer_calls" in known_metrics else ())}
        hidden = {"span_ns"} if "step_ns" in known_metrics else set()
        if len({count for (_, name), count in self.medians.items() if name == "devices"}) < _PAIR:
            hidden.add("devices")
        chosen = [name for name in _METRIC_NAMES if name in (has_any | always) - hidden]
        # A share of almost no time is meaningless.
        return [
            n for n in chosen if n != "exposed_transfer_share" or "exposed_transfer_ns" in chosen
        ]


def shown_labels(result: Comparison) -> dict[str, str]:
    """Each variant's label without the words that all begin or end with, for people."""
    labels = result.variants.column("variant").to_pylist()
    return {name: clean(shown) for name, shown in without_common_ends(labels).items()}


def comparison_grids(result: Comparison) -> list[Grid]:
    """The figures, few variants beside each other, many below; then where differences lie."""
    is_many = len(result.variants) > SIDE_BY_SIDE
    return [figures_grid(result), *([] if is_many else split_grids(result))]


def short_grid(result: Comparison) -> Grid:
    """The few figures that matter first."""
    grid = figures_grid(result)
    if len(result.variants) > SIDE_BY_SIDE:
        return grid
    names = {_METRIC_NAMES[name] for name in _FIRST}
    return replace(grid, rows=tuple(row for row in grid.rows if row[0] in names))


def figures_grid(result: Comparison, *, has_columns: bool = False) -> Grid:
    """A row per metric; of many variants a row for each.

    Args:
        result: The comparison.
        has_columns: Whether changes have columns of their own, for where spaces do not align.
    """
    figures = _Figures(result)
    of_phase = f" of {in_quotes(clean(result.phase))}" if result.phase else ""
    title = f"Of one step{of_phase}" if result.unit == "step" else ""
    if len(figures.labels) > SIDE_BY_SIDE:
        metrics = [name for name in figures.shown() if name in _SHORT_METRICS]
        unchanged = {_NO_CHANGE, NEW, REMOVED}
        changing = [
            n for n in metrics if {figures.change(x, n) for x in figures.labels} - unchanged
        ]
        compared = changing[:1]
        rows = [
            (
                figures.shown_labels[label],
                *(figures.text(label, name) for name in metrics),
                *(figures.change(label, name) for name in compared),
            )
            for label in result.variants.column("variant").to_pylist()
        ]
        last = ("Difference",) * len(compared)
        header = ("Variant", *(_METRIC_NAMES[name].strip() for name in metrics), *last)
        return Grid(title, header, tuple(rows))
    base, *candidates = figures.labels
    cells = []
    for name in figures.shown():
        changed = [(figures.text(x, name), figures.change(x, name)) for x in candidates]
        columns = chain(*changed) if has_columns else (f"{x} {change:>8}" for x, change in changed)
        cells.append((_METRIC_NAMES[name], figures.text(base, name), *columns))
    shown, head = figures.shown_labels, ("Change",) if has_columns else ()
    heads = (text for label in candidates for text in (shown[label], *head))
    return Grid(title, ("", shown[base], *heads), tuple(cells))


def split_grids(result: Comparison) -> list[Grid]:
    """The parts of each candidate's difference, on the basis of its verdict."""
    outcomes = {row["variant"]: row for row in result.outcomes.to_pylist()}
    rows = [r for r in result.split.to_pylist() if r["basis"] == outcomes[r["variant"]]["basis"]]
    shown = shown_labels(result)
    unit = " of one step" if result.unit == "step" else ""
    over_runs = ", median over the runs" * (result.runs.num_rows > len(result.variants))
    grids = []
    for basis in dict.fromkeys(row["basis"] for row in rows):
        basis_rows = [row for row in rows if row["basis"] == basis]
        variants = list(dict.fromkeys(row["variant"] for row in basis_rows))
        title = f"Where the difference lies: {_BASES[basis]}{unit}{over_runs}"
        if len(variants) == 1:
            names = shown[result.baseline], shown[variants[0]]
            grids.append(_split_of_one(title, *names, basis_rows))
            continue
        differences = Counter({(r["part"], r["variant"]): r["difference_ns"] for r in basis_rows})
        recorded = {part for part, _ in differences}
        cells = [
            (capital(label(part)), *(signed_ns(differences[part, v]) for v in variants))
            for part in ORDER
            if part in recorded
        ]
        sums = [sum(differences[part, v] for part in recorded) for v in variants]
        total = ("Total", *map(signed_ns, sums))
        grids.append(Grid(title, ("", *(shown[v] for v in variants)), (*cells, total)))
    return grids


def _split_of_one(title: str, baseline: str, variant: str, rows: Sequence[Row]) -> Grid:
    before, after = (sum(row[f"{side}_ns"] for row in rows) for side in ("baseline", "candidate"))
    header, lines = [""], [[capital(label(row["part"])) for row in rows]]
    totals = ["Total", units.format_ns(before), units.format_ns(after), signed_ns(after - before)]
    for heading, column, show in (
        (baseline, "baseline_ns", units.format_ns),
        (variant, "candidate_ns", units.format_ns),
        ("Difference", "difference_ns", signed_ns),
        ("at least", "low_ns", signed_ns),
        ("at most", "high_ns", signed_ns),
        ("Share", "share", percent),
    ):
        # The ends may be unknown, and a difference of almost 0 has no shares.
        if any(row[column] is not None for row in rows):
            header.append(heading)
            lines.append([show(row[column]) for row in rows])
    totals += [""] * (len(header) - len(totals))
    return Grid(title, tuple(header), (*zip(*lines, strict=True), tuple(totals)))


def kernel_grids(
    result: Comparison, most: int | None, *, has_full_names: bool = False
) -> list[Grid]:
    """Each candidate's kernels, the largest differences first.

    Args:
        result: The comparison.
        most: How many kernels of each candidate to show; None for all.
        has_full_names: Whether kernels have their full names, not their short ones.
    """
    counts = Counter(result.kernels.column("variant").to_pylist())
    grids, first = [], 0
    # Twenty thousand rows are sorted already, and few of them are shown.
    for variant, count in counts.items():
        kernels = result.kernels.slice(first, count)
        title = f"Kernels of {clean(variant)} against {clean(result.baseline)}"
        # One side has no launch shapes.
        if not any(kernels.column("grid").to_pylist() + kernels.column("is_reshaped").to_pylist()):
            title += ", by name alone"
        title += ", calls x mean"
        shown = kernels.slice(0, most)
        if len(shown) < count:
            title += f" ({len(shown)} of {count})"
        rows = with_one_name(shown, has_full_names=has_full_names).to_pylist()
        shows = {**_KERNEL_COLUMNS}
        if all(row["adjusted_p_value"] is None for row in rows):
            del shows[_P_VALUE]
        if not any(row["grid"] or row["is_reshaped"] for row in rows):
            del shows[_SHAPE]
        cells = tuple(tuple(show(row) for show in shows.values()) for row in rows)
        header = tuple(shows)
        names = 2, *range(header.index("Kernel"), len(header))
        grids.append(Grid(title, header, cells, names))
        first += count
    return grids


def _of_side(row: Row, side: str) -> str:
    """``30 x 7.869 ms``: calls, of a step perhaps no whole number, and their mean."""
    calls, mean = row[f"{side}_calls"], row[f"{side}_mean_ns"]
    if not calls or mean is None:
        return units.format_ns(row[f"{side}_ns"])
    shown = f"{calls:,.1f}" if calls % 1 else units.format_count(calls)
    return f"{shown} x {units.format_ns(mean)}"


def _shape(row: Row) -> str:
    """How a kernel is launched, where it is launched alike on both sides.

    ``128x1x1`` is ``128``, as it is written in a launch.
    """
    if not (row["grid"] and row["block"]):
        return "other shapes"
    return ", ".join(row[n].removesuffix("x1").removesuffix("x1") for n in ("grid", "block"))


_P_VALUE, _SHAPE = "p (adjusted)", "Grid, block"
_KERNEL_COLUMNS: Final[Mapping[str, Callable[[Row], str]]] = {
    "Difference": lambda row: signed_ns(row["difference_ns"]),
    "Of kernels": lambda row: percent(row["contribution"]),
    "": itemgetter("status"),
    "Baseline": partial(_of_side, side="baseline"),
    "Candidate": partial(_of_side, side="candidate"),
    _P_VALUE: lambda row: "n/a" if (p := row["adjusted_p_value"]) is None else f"{p:.3g}",
    "Kernel": lambda row: clean(row["name"]),
    _SHAPE: _shape,
}


def junit(result: Comparison, checks: Sequence[Check], now: datetime | None = None) -> str:
    """The conditions of a comparison as a JUnit file: one test per condition and candidate.

    It keeps to the stricter of the two schemas in use, the one of Ant's JUnitReport, which wants
    ``package``, ``id``, ``hostname``, ``properties``, ``system-out`` and ``system-err`` as well.
    Source: https://github.com/windyroad/JUnit-Schema

    Args:
        result: The comparison; its verdict becomes the suite's output.
        checks: Its conditions; those that could not be tested are errors.
        now: When it was made; now where None.
    """
    suites = ET.Element("testsuites")
    failed = [check for check in checks if check.reason is not None]
    head = {
        "name": "gpuprof compare",
        "package": "gpuprof",
        "id": "0",
        "hostname": "localhost",
        "timestamp": (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S"),
        "tests": str(len(checks)),
        "failures": str(sum(check.is_known for check in failed)),
        "errors": str(sum(not check.is_known for check in failed)),
        "time": "0",
    }
    suite = ET.SubElement(suites, "testsuite", head)
    properties = ET.SubElement(suite, "properties")
    baseline = {"name": "baseline", "value": _for_xml(result.baseline)}
    ET.SubElement(properties, "property", baseline)
    for check in checks:
        condition, variant = check.condition.text, _for_xml(check.variant)
        name = {"name": condition, "classname": variant, "time": "0"}
        case = ET.SubElement(suite, "testcase", name)
        if check.reason is not None:
            kind, reason = "failure" if check.is_known else "error", _for_xml(check.reason)
            outcome = ET.SubElement(case, kind, {"message": reason, "type": kind})
            outcome.text = f"{condition}: {reason}"
    ET.SubElement(suite, "system-out").text = _for_xml(result.verdict)
    ET.SubElement(suite, "system-err").text = "\n".join(map(_for_xml, result.notes))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _for_xml(text: str) -> str:
    """Text from a recording without what no XML may hold."""
    return clean(text).translate(_NO_CHARACTERS)
