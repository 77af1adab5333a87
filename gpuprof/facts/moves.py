"""Every transfer between two known memories, one by one, and what launched it."""

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.facts.copies import Copies, copy_rows, transfer_rows
from gpuprof.facts.launches import ALL_THREADS, Launches, launches
from gpuprof.facts.numbers import NOT_FOUND, Numbers, groups
from gpuprof.facts.nvtx import NO_RANGE, STEP_MARK, named_parts, ranges_of
from gpuprof.facts.range_launches import families, holding, launches_within
from gpuprof.facts.timeline import timeline_of
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import distinct, pair_places, sorted_pairs
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording

# Scripts write "backward"; PyTorch's operations and emit_nvtx
# "autograd::engine::evaluate_function: MmBackward0" and "MmBackward0, seq = 12", traces before
# 2022 "torch::autograd::AccumulateGrad" alone; others name the gradients.
_BACKWARD: Final = re.compile(
    r"backward|\bgrad(?:ient)?s?\b|^autograd::engine|AccumulateGrad$", re.IGNORECASE
)


@once_per_profile
def moves(profile: Profile) -> Copies:
    """Every transfer whose two ends are known and differ, in the order of their starts."""
    rows = transfer_rows(profile)
    rows = rows.take((rows.src != rows.dst) & (rows.src != UNKNOWN) & (rows.dst != UNKNOWN))
    start, end = rows.start_ns, rows.end_ns
    if ((start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))).all():
        return rows
    return rows.take(np.lexsort((end, start)))


def followers(some: Copies) -> tuple[Int64s, Int64s]:
    """Indices of each transfer and of the next one between the same two memories."""
    low, high = np.minimum(some.src, some.dst), np.maximum(some.src, some.dst)
    pairs = [(rows[:-1], rows[1:]) for rows in groups(low, high)]
    first, second = zip(*pairs, strict=True) if pairs else ((), ())
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *first]), np.concatenate([nothing, *second])


def kernel_ns(profile: Profile, device: Numbers, start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """For how long kernels run on a device in each window."""
    ran_ns = np.zeros(len(device), np.int64)
    for number in distinct(device).tolist():
        here = np.flatnonzero(device == number)
        timeline = timeline_of(profile.unrestricted, number)
        ran_ns[here] = timeline.kernel_ns(start_ns[here], end_ns[here])
    return ran_ns


def parts_around(profile: Profile, copies: Copies) -> tuple[Int64s, list[str]]:
    """The innermost named part around the launch of each of some copies; no operation.

    Returns:
        Numbers of texts, `NO_RANGE` where there is none, and the texts in their order.
    """
    recording = profile.unrestricted
    return _texts_of(recording, recording.once(_parts_of_copies), copies)


def origins(profile: Profile, copies: Copies) -> tuple[Int64s, list[str]]:
    """What launched each of some copies, as far as ranges name it, for people to find it by.

    The innermost named part, since that is in the words of the program; but an operation where
    there is none (PyTorch's backward pass runs on a thread without annotations), or only
    PyTorch's mark of the step. Of operations the outermost is what the program called, or the
    node of the backward pass; the innermost of all copies is ``aten::copy_``.

    Returns:
        Numbers of texts, `NO_RANGE` where there is none, and the texts in their order.
    """
    recording = profile.unrestricted
    return _texts_of(recording, recording.once(_origins_of_copies), copies)


def usual(numbers: Int64s, texts: list[str]) -> str | None:
    """The text that most of some numbers stand for; None where `NO_RANGE` is all there is."""
    named = numbers[numbers != NO_RANGE]
    return texts[int(np.bincount(named).argmax())] if len(named) else None


def _texts_of(profile: Profile, labels: Int64s, copies: Copies) -> tuple[Int64s, list[str]]:
    """The texts of some copies' labels, which are given in the order of all copies' launches."""
    pairs, index_of_pair = profile.once(_indices_of_copies)
    index = index_of_pair[pair_places(pairs, copies.process, copies.correlation)]
    of_label, texts = profile.once(_texts)
    # What is not found has the index -1, which is that of the last one here.
    return of_label[np.append(labels, NO_RANGE)[index]], texts


def _texts(profile: Profile) -> tuple[Int64s, list[str]]:
    """The number of each label's text, `NO_RANGE` at the end, and the texts in their order."""
    all_labels = ranges_of(profile).labels
    texts = sorted({text for text, _, _ in all_labels})
    number = {text: place for place, text in enumerate(texts)}
    return np.array([*(number[text] for text, _, _ in all_labels), NO_RANGE]), texts


def _indices_of_copies(profile: Profile) -> tuple[Int64s, Int64s]:
    """Process and id of launched copies, and which of these copies has each pair of them."""
    launched = profile.once(_copies_launched)
    copies = launched.activities.copies
    # Copies of one id have one launch.
    keys = launched.of(copies.process), launched.of(copies.correlation)
    pairs = sorted_pairs(*keys)
    index = np.full(pairs.shape[1] + 1, NOT_FOUND)
    index[pair_places(pairs, *keys)] = np.arange(len(launched.order))
    return pairs, index


def _copies_launched(profile: Profile) -> Launches:
    launched = launches(profile)
    return launched.take(np.flatnonzero(launched.order < len(launched.activities.copies)))


def _parts_of_copies(profile: Profile) -> Int64s:
    """The label of the innermost named part of a thread around each copy's launch."""
    ranges = named_parts(profile)
    ranges = ranges.take(ranges.thread != ALL_THREADS)
    return np.append(ranges.label, NO_RANGE)[holding(ranges, profile.once(_copies_launched))]


def _origins_of_copies(profile: Profile) -> Int64s:
    """The label of what launched each copy."""
    named, ranges = profile.once(_parts_of_copies), ranges_of(profile)
    called = ranges.of_kind(is_operation=True)
    if not len(called):
        return named
    operation = holding(called, profile.once(_copies_launched), is_outermost=True)
    operation = np.append(called.label, NO_RANGE)[operation]
    marks = [bool(STEP_MARK.fullmatch(text)) for text, _, _ in ranges.labels]
    says_nothing = np.array([*marks, True])[named]
    return np.where(says_nothing & (operation != NO_RANGE), operation, named)


def backward_peer_share(profile: Profile) -> float | None:
    """The part of the time of copies between devices that ranges of the backward pass launched.

    What was launched on another thread than the range's is not counted, so that it may be more.

    Args:
        profile: May have ``nvtx_ranges``, ``api_calls`` and ``memcpys``.

    Returns:
        0 to 1, of the part that is looked at; None where no range that names gradients or the
        backward pass launched anything, or nothing was copied between devices.
    """
    is_backward = backward_copies(profile)
    if is_backward is None:
        return None
    copies = copy_rows(profile.unrestricted)
    is_peer = (copies.is_peer > 0) & profile.selection.holds(copies.start_ns)
    peer_ns = int(copies.duration_ns[is_peer].sum())
    return int(copies.duration_ns[is_peer & is_backward].sum()) / peer_ns if peer_ns else None


@once_per_recording
def backward_copies(profile: Profile) -> npt.NDArray[np.bool_] | None:
    """Whether ranges of the backward pass launched each row of ``memcpys``.

    None where no range that names gradients or the backward pass launched anything.
    """
    if not profile.has("nvtx_ranges", "api_calls", "memcpys"):
        return None
    ranges = ranges_of(profile)
    backward = ranges.labelled([bool(_BACKWARD.search(text)) for text, _, _ in ranges.labels])
    if not len(backward):
        return None
    all_launches = launches(profile)
    is_launched = np.zeros(len(all_launches.activities), bool)
    for family, ordered in families(backward, all_launches):
        spans = launches_within(family, ordered)
        is_launched[ordered.order[spans.launched(len(ordered.order))]] = True
    copies = len(all_launches.activities.copies)
    return is_launched[:copies].copy() if is_launched.any() else None
