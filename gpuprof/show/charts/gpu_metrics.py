"""How much of its peak each part of a GPU is used when, by samples."""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from gpuprof.base.units import say_share
from gpuprof.facts.hosts import device_name
from gpuprof.show import RECORDING
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import (
    SINCE_ORIGIN,
    Chart,
    HeatMap,
    Picture,
    Results,
    choose_devices,
)

# A metric that is never used as much has no row.
_LEAST_SHARE: Final = 0.01


def picture(results: Results) -> Picture:
    """The rows of `gpu_metrics_over_time`; the finding is the metric that is used most."""
    table = results.table("gpu_metrics_over_time")
    rows = table.to_pylist()
    by_key = groupby(rows, key=itemgetter("device_id", "metric"))
    shares = {key: [row["share"] for row in of_metric] for key, of_metric in by_key}
    sampled = {key: [s for s in of_metric if s is not None] for key, of_metric in shares.items()}
    used = {m for (_, m), of_metric in sampled.items() if max(of_metric, default=0) >= _LEAST_SHARE}
    shares = {key: of_metric for key, of_metric in shares.items() if key[1] in used}
    if not shares:
        return Picture("", table.slice(0, 0), [])
    means = {key: sum(sampled[key]) / max(len(sampled[key]), 1) for key in shares}
    (device, metric), mean = max(means.items(), key=itemgetter(1))
    finding = f"{clean(metric)} of {device_name(device)} is at {say_share(mean)} of its peak"
    busy: dict[int | None, float] = {}
    for (device, _), of_metric in means.items():
        busy[device] = busy.get(device, 0) + of_metric
    chosen, note = choose_devices(busy)
    shown = {key: slices for key, slices in shares.items() if key[0] in chosen}
    span = min(row["start_ns"] for row in rows), max(row["end_ns"] for row in rows)
    metrics = sorted({metric for _, metric in shown})
    unknown = [None] * len(next(iter(shown.values())))
    # All with a row for each metric and a column for each slice of time.
    panels = [
        HeatMap(
            [*map(clean, metrics)],
            (),
            [shown.get((device, metric), unknown) for metric in metrics],
            "share of the peak",
            "share",
            words=[
                f"{clean(m)}: {say_share(means[device, m])}"
                if (device, m) in shown
                else f"{clean(m)} was not sampled"
                for m in metrics
            ],
            times=span,
            title=results.device_names.in_text(device_name(device)),
            inches=(0.8, 3.2),
        )
        for device in dict.fromkeys(device for device, _ in shown)
    ]
    panels[-1] = replace(panels[-1], labels=(f"{SINCE_ORIGIN}\n{note}".strip(), ""))
    return Picture(finding, table, panels)


CHART: Final = Chart(
    "gpu_metrics",
    "How much of its peak each part of a GPU is used, by samples",
    RECORDING,
    ("gpu_metrics_over_time",),
    picture,
)
