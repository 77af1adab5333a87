"""Samples of GPU metrics that are shares of a peak: how much of it a device used in which time.

Other metrics (clocks, requests, warps) have no peak to compare with; they stay in their table.
"""

import re
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.numbers import groups, read_columns
from gpuprof.model.analysis import reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, Intervals, covered_within
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.words import Words

METRIC_READS: Final = reads(gpu_metrics="start_ns device_id metric value")

_OF_PEAK: Final = re.compile(r" \[[^]]*%\]\Z")
_WHOLE: Final = 100
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
        end_ns: Until when.
        percent: Of the peak, 0 to 100.
        left_out: How many samples are not among them, as no share can be so small or large.
    """

    device_id: int | None
    metric: str
    start_ns: Int64s
    end_ns: Int64s
    percent: Int64s
    left_out: int

    def mean(self, part: Intervals) -> float | None:
        """The mean share over a part of the time; None where no sample lies in it."""
        within_ns = covered_within(part, self.start_ns, self.end_ns)
        is_within = within_ns >= np.maximum(_WITHIN * (self.end_ns - self.start_ns), 1)
        total_ns = int(within_ns[is_within].sum())
        if not total_ns:
            return None
        return float(np.dot(within_ns[is_within], self.percent[is_within])) / (_WHOLE * total_ns)

    def between(self, borders: Int64s) -> list[float | None]:
        """The mean share from each border to the next; None where there was no sample."""
        edges = np.stack([self.start_ns, self.end_ns], axis=1).ravel()
        lengths = self.end_ns - self.start_ns
        sampled, used = (
            # Until each edge; between the end of a sample and the next start nothing is added.
            np.diff(np.interp(borders, edges, np.repeat(np.cumsum([0, *of]), 2)[1:-1]))
            for of in (lengths, lengths * self.percent)
        )
        return [
            float(of / (_WHOLE * ns)) if ns else None for of, ns in zip(used, sampled, strict=True)
        ]


@once_per_recording
def metric_samples(profile: Profile) -> tuple[MetricSamples, ...]:
    """The samples by device and metric; none where no GPU metrics were recorded."""
    if not profile.has("gpu_metrics"):
        return ()
    words = Words()
    start_ns, device, value, metric = read_columns(
        profile, "gpu_metrics", "start_ns", "device_id", "value", "metric", texts={"metric": words}
    )
    is_share = np.array([bool(_OF_PEAK.search(word or "")) for word in words.words], bool)
    chosen = np.flatnonzero(is_share[metric])
    columns = [column[chosen] for column in (device, metric, start_ns, value)]
    samples = []
    for rows in groups(columns[0], columns[1]):
        number, word, time, percent = (column[rows] for column in columns)
        order = np.argsort(time, kind="stable")
        start, percent = time[order].astype(np.int64), percent[order].astype(np.int64)
        is_sound = (percent >= 0) & (percent <= _WHOLE)
        samples.append(
            MetricSamples(
                None if number[0] == UNKNOWN else int(number[0]),
                _OF_PEAK.sub("", words.words[int(word[0])] or ""),
                start[is_sound],
                _ends(start)[is_sound],
                percent[is_sound],
                int((~is_sound).sum()),
            )
        )
    return tuple(sorted(samples, key=lambda of: (of.device_id is None, of.device_id, of.metric)))


def mean_of(profile: Profile, device_id: int | None, metric: str, part: Intervals) -> float | None:
    """The mean share of a metric of a device over a part; None where no sample lies in it."""
    samples = (
        of for of in metric_samples(profile) if (of.device_id, of.metric) == (device_id, metric)
    )
    return next((of.mean(part) for of in samples), None)


def _ends(start_ns: Int64s) -> Int64s:
    """Until when samples hold; the last one as long as is usual."""
    lengths = np.diff(start_ns)
    usual_ns = int(np.median(lengths)) if len(lengths) else 0
    held: Int64s = np.append(np.minimum(lengths, _LONGEST * usual_ns), usual_ns)
    return start_ns + held
