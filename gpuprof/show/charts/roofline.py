"""Operators beside the peaks of their GPU: the time that they need at least, and what is above."""

from dataclasses import replace
from typing import Final

from gpuprof.analyses.operator_rates import OPERATOR_RATES
from gpuprof.base.short_texts import shortened
from gpuprof.base.units import counted, format_flops, say_ns, say_rate, say_share
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import HTOD, KERNELS, NOTHING, Bars, Chart, Part, Picture, Results

_MOST: Final = 15
_LONGEST_NAME: Final = 40
# Of the time of all operators of known work: what takes less has no bar.
_LEAST_SHARE: Final = 0.01
_LIMITS: Final = {
    "compute": replace(KERNELS, name="needed to compute, at the peak of the GPU"),
    "memory": replace(HTOD, name="needed to read and write memory, at its peak"),
}
_WHY_ABOVE: Final = {
    True: "from caches, or of expanded tensors",
    False: "a faster clock, or fewer FLOPs",
}
_ABOVE: Final = replace(NOTHING, name="above that")


def picture(results: Results) -> Picture:
    """The operators of `operator_rates` whose GPU is known, the longest first."""
    rows = [row for row in results.rows("operator_rates") if row["roofline_share"] is not None]
    total_ns = sum(row["total_ns"] for row in rows)
    least_ns = _LEAST_SHARE * total_ns
    shown = [row for row in rows if row["total_ns"] >= least_ns][:_MOST]
    if not shown:
        return Picture("", OPERATOR_RATES.table([]), [])
    most = max(rows, key=lambda row: int(row["excess_ns"]))
    finding = f"{_name(most)} takes {say_ns(most['excess_ns'])} more than its GPU needs"
    parts, figures = [], []
    for place, row in enumerate(shown):
        needed_ns = row["total_ns"] - row["excess_ns"]
        is_memory = row["limited_by"] == "memory"
        rate = say_rate(row["bytes_per_s"]) if is_memory else format_flops(row["flops_per_s"])
        # In itself impossible: the work is less than shapes say, or its bytes came from caches.
        is_above = row["roofline_share"] > 1
        figure = f"{say_share(row['roofline_share'])} of the roofline, {rate}"
        figure = f"{rate}, above the peak: {_WHY_ABOVE[is_memory]}" if is_above else figure
        words = f"{_name(row)}: {say_ns(row['total_ns'])}, {figure}"
        parts += [
            Part(place, _LIMITS[row["limited_by"]], 0, needed_ns, words),
            Part(place, _ABOVE, needed_ns, row["total_ns"], words),
        ]
        figures.append(figure)
    looks = tuple(dict.fromkeys(part.look for part in sorted(parts, key=lambda p: p.start > 0)))
    left_out = len(rows) - len(shown)
    remainder = counted(left_out, "other operator", "other operators")
    note = f"not drawn: {remainder} of known work" if left_out else ""
    label = "time of the kernels that operators launched, summed over devices"
    bars = Bars([_name(row) for row in shown], parts, looks, figures, label, note)
    return Picture(finding, OPERATOR_RATES.table(shown), [bars])


def _name(row: Row) -> str:
    """Operator, shapes and type; what all tensors have in common once."""
    operator = clean(row["operator"]).removeprefix("aten::")
    shapes = row["shapes"].split()
    return shortened(
        " ".join((operator, *(shapes[:1] if len({*shapes}) == 1 else shapes), row["data_type"])),
        _LONGEST_NAME,
    )


CHART: Final = Chart(
    "roofline",
    "Operators beside the peaks of their GPU",
    RECORDING,
    ("operator_rates",),
    picture,
)
