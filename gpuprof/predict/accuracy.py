"""How far a prediction may be from what the change would really give."""

import math
from typing import Final

import numpy as np

from gpuprof.model.intervals import Int64s

# No clock, governor or memory layout repeats a step more closely than this from run to run.
LEAST_SHARE: Final = 0.005
# Of the known pairs of recordings (docs/predict.md), predicted changes are off by 4 to 20 % of the
# true ones: what a change does to contention, clocks and caches is in no recording. Where nearly
# all of a step goes, what is left can be half wrong, as it is in the last of them.
SHARE_OF_CHANGE: Final = 0.25
SHARE_OF_REST: Final = 0.5
# Four in five truths are to lie within the range.
_INSIDE: Final = 0.8
# Half the width of an interval that holds so much of a normal distribution, in deviations; the
# deviation of a median of n values, in theirs / sqrt(n); and theirs in median deviations.
_DEVIATIONS, _OF_MEDIAN, _OF_DEVIATION = 1.2816, 1.2533, 1.4826


def margin_ns(measured_ns: Int64s, replayed_ns: Int64s, predicted_ns: int) -> int:
    """Half the width of the range of a predicted step.

    The replay's error in each step, a part of the change itself, and the noise of both medians,
    that of the recording and that of the run that would show the truth.

    Args:
        measured_ns: The time of each step, as recorded.
        replayed_ns: The same from a replay with usual latencies only.
        predicted_ns: The median with the change.
    """
    median_ns = float(np.median(measured_ns))
    # Errors are shares of a step: a step of half the length has half of them.
    scale = predicted_ns / median_ns if median_ns else 1.0
    errors = np.abs(replayed_ns - measured_ns)
    replay = float(np.quantile(errors, _INSIDE)) * scale
    change = min(SHARE_OF_CHANGE * abs(predicted_ns - median_ns), SHARE_OF_REST * predicted_ns)
    deviation = _OF_DEVIATION * float(np.median(np.abs(measured_ns - median_ns)))
    noise = _DEVIATIONS * _OF_MEDIAN * deviation * math.sqrt(2 / len(measured_ns)) * scale
    together = math.hypot(replay, change, noise)
    return round(max(together, LEAST_SHARE * predicted_ns))
