"""Samples of GPU metrics that are shares of a peak: how much of it a device used in which time.

Other metrics (clocks, requests, warps) have no peak to compare with; they stay in their table.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.numbers import Numbers, columns_of, groups
from gpuprof.model.analysis import reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, covered_within
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.words import Words, narrowed

METRIC_READS: Final = reads(gpu_metrics="start_ns device_id metric value")

_OF_PEAK: Final = re.compile(r" \[[^]]*%\]\Z")
_PERCENT: Final = 100
# In the place of what no share can be.
_LEFT_OUT: Final = -1
# A sample is a mean over its time: of one that lies in a part by less than this, the rest tells
# as much. No lower share was tried, as a copy of half a sample shows half of its rate.
_WITHIN: Final = 0.9
# Where sampling pauses, a sample does not hold until it goes on.
_LONGEST: Final = 2


class MetricSamples(NamedTuple):
    """The samples of one metric of one device, in order.

    Args:
        device_id: The device; None for one that CUDA does not number.
        metric: The metric, without its unit: ``SMs Active``.
        start_ns: From when on each sample holds.
        length_ns: For how long.
        percent: Of the peak, 0 to 100.
        left_out: How many samples are not among them, as no share can be so small or large.
    """

    device_id: int | None
    metric: str
    start_ns: Int64s
    length_ns: Numbers
    percent: Numbers
    left_out: int

    @property
    def end_ns(self) -> Int64s:
        """Until when each sample holds: computed anew, as there are millions."""
        return self.start_ns + self.length_ns

    def mean(self, part: Intervals) -> float | None:
        """The mean share over a part of the time; None where no sample lies in it."""
        within_ns = covered_within(part, self.start_ns, self.end_ns)
        is_within = within_ns >= np.maximum(_WITHIN * self.length_ns, 1)
        total_ns = int(within_ns[is_within].sum())
        if not total_ns:
            return None
        return float(np.dot(within_ns[is_within], self.percent[is_within])) / (_PERCENT * total_ns)

    def between(self, borders: Int64s) -> list[float | None]:
        """The mean share from each border to the next; None where there was no sample."""
        edges = np.stack([self.start_ns, self.end_ns], axis=1).ravel()
        sampled, used = (
            # Until each edge; between the end of a sample and the next start nothing is added.
            np.diff(np.interp(borders, edges, np.repeat(np.cumsum([0, *of]), 2)[1:-1]))
            for of in (self.length_ns, self.length_ns.astype(np.int64) * self.percent)
        )
        return [
            float(of / (_PERCENT * ns)) if ns else None
            for of, ns in zip(used, sampled, strict=True)
        ]


@once_per_recording
def metric_samples(profile: Profile) -> tuple[MetricSamples, ...]:
    """The samples by device and metric; none where no GPU metrics were recorded."""
    if not profile.has("gpu_metrics"):
        return ()
    words = Words()
    columns = columns_of(_shares(profile, words), 4)
    samples = []
    for rows in groups(columns[0], columns[1]):
        device, metric, start, percent = (column[rows] for column in columns)
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, percent = start[order], percent[order]
        # Each holds until the next; the last one as long as is usual.
        lengths = np.diff(start)
        usual_ns = int(np.median(lengths)) if len(lengths) else 0
        length = narrowed(np.append(np.minimum(lengths, _LONGEST * usual_ns), usual_ns))
        is_sound = percent != _LEFT_OUT
        samples.append(
            MetricSamples(
                None if device[0] == UNKNOWN else int(device[0]),
                _OF_PEAK.sub("", words.words[int(metric[0])] or ""),
                start[is_sound],
                length[is_sound],
                percent[is_sound],
                int((~is_sound).sum()),
            )
        )
    return tuple(sorted(samples, key=lambda of: (of.device_id is None, of.device_id, of.metric)))


def _shares(profile: Profile, words: Words) -> Iterator[list[Numbers]]:
    """Device, metric, start and percent of the samples of shares, in pieces, in few bytes."""
    names = ("device_id", "metric", "start_ns", "value")
    for device, metric, start, value in profile.columns(
        "gpu_metrics", *names, texts={"metric": words}
    ):
        is_share = np.array([bool(_OF_PEAK.search(word or "")) for word in words.words], bool)
        rows = np.flatnonzero(is_share[metric])
        percent = value[rows]
        percent = np.where((percent >= 0) & (percent <= _PERCENT), percent, _LEFT_OUT)
        columns = (narrowed(device[rows]), narrowed(metric[rows]), start[rows])
        yield [*columns, percent.astype(np.int8)]


def mean_of(profile: Profile, device_id: int | None, metric: str, part: Intervals) -> float | None:
    """The mean share of a metric of a device over a part; None where no sample lies in it."""
    samples = (
        of for of in metric_samples(profile) if (of.device_id, of.metric) == (device_id, metric)
    )
    return next((of.mean(part) for of in samples), None)
