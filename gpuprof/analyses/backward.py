"""Which copies between devices the backward pass of a training makes, as far as ranges name it."""

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.launches import launches
from gpuprof.facts.nvtx import Ranges, families, launches_within, ranges_of
from gpuprof.model.profile import Profile
from gpuprof.model.table import within

# Scripts write "backward"; PyTorch's operations and emit_nvtx
# "autograd::engine::evaluate_function: MmBackward0" and "MmBackward0, seq = 12", traces before
# 2022 "torch::autograd::AccumulateGrad" alone; others name the gradients.
_BACKWARD: Final = re.compile(
    r"backward|\bgrad(?:ient)?s?\b|^autograd::engine|AccumulateGrad$", re.IGNORECASE
)


def backward_peer_share(profile: Profile) -> float | None:
    """The part of the time of copies between devices that ranges of the backward pass launched.

    What was launched on another thread than the range's is not counted, so that it may be more.

    Args:
        profile: May have ``nvtx_ranges``, ``api_calls`` and ``memcpys``.

    Returns:
        0 to 1, of the part that is looked at; None where no range that names gradients or the
        backward pass launched anything, or nothing was copied between devices.
    """
    recording = profile.unrestricted
    if not recording.has("nvtx_ranges", "api_calls", "memcpys"):
        return None
    ranges = ranges_of(recording)
    is_backward = np.array([bool(_BACKWARD.search(text)) for text, _, _ in ranges.labels], bool)
    backward = ranges.take(np.flatnonzero(is_backward[ranges.label])) if len(ranges) else ranges
    return _share(profile, backward) if len(backward) else None


def _share(profile: Profile, backward: Ranges) -> float | None:
    all_launches = launches(profile.unrestricted)
    activities = all_launches.activities
    copies = len(activities.copies)
    start_ns = activities.start_ns[:copies]
    duration_ns = activities.end_ns[:copies] - start_ns
    is_peer = (activities.copies.peer > 0) & _is_seen(profile, start_ns)
    peer_ns = int(duration_ns[is_peer].sum())
    if not peer_ns:
        return None
    is_launched = np.zeros(len(activities), bool)
    for family, ordered in families(backward, all_launches):
        spans = launches_within(family, ordered)
        is_launched[ordered.order[spans.launched(len(ordered.order))]] = True
    if not is_launched.any():
        return None
    return int(duration_ns[is_peer & is_launched[:copies]].sum()) / peer_ns


def _is_seen(profile: Profile, start_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which starts lie in the part that is looked at."""
    if profile.selection.windows is None:
        return np.ones(len(start_ns), bool)
    return within(profile.selection.windows, start_ns)
