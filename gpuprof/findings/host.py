"""Why a device does nothing: for whom it waits, and what the host does instead of launching."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.pauses import ANALYSIS as PAUSES
from gpuprof.base.units import say_ns, say_share
from gpuprof.facts.numbers import Numbers
from gpuprof.facts.pause_causes import NEAR_NS, Pieces, pieces_of
from gpuprof.facts.pauses import pauses_of
from gpuprof.facts.timeline import SHORT_NS
from gpuprof.findings.contract import Finding, Scope
from gpuprof.findings.memory import migration_pauses
from gpuprof.findings.next_recording import how_to_record_calls, how_to_record_host
from gpuprof.findings.set_up import SET_UP_READS, is_loading, set_up_of
from gpuprof.findings.synchronising import (
    SYNCHRONISING_READS,
    Waited,
    synchronised_gaps,
    waited,
)
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import (
    Int64s,
    Intervals,
    covered_within,
    difference,
    intersection,
    longer,
    together,
    union,
)
from gpuprof.model.profile import Profile

READS: Final = reads(PAUSES.reads, SET_UP_READS, SYNCHRONISING_READS)


class _Cause(NamedTuple):
    """What a device does while it waits for a cause, how that can be won, and what to try."""

    phrase: str
    means: str
    suggestion: str


_HOST_LATE: Final = "host_late"
_SYNCHRONISING: Final = "synchronising_call"
_BETWEEN_STEPS: Final = "between_steps"
_CAUSES: Final = {
    _HOST_LATE: _Cause(
        "has no work because the host launches late",
        "launching ahead",
        "launch less often (CUDA graphs, a compiled step) or prepare launches and input on other"
        " threads",
    ),
    _SYNCHRONISING: _Cause(
        "has no work because the host waited in",
        "launching ahead",
        "",  # by what was read, see `synchronising.waited`
    ),
    "mpi": _Cause(
        "has no work while the host is in MPI",
        "overlap with compute",
        "start messages without blocking and compute meanwhile, send fewer, or balance the ranks",
    ),
    _BETWEEN_STEPS: _Cause(
        "has no work while the host is between two marked steps",
        "launching ahead",
        "do this on another thread or ahead, while the device computes",
    ),
    "waits_for_stream": _Cause(
        "waits for a stream although its next work is launched",
        "overlap",
        "see what the stream depends on: another stream's event, a rank, a callback of the host",
    ),
    "waits_for_device": _Cause(
        "waits for another device",
        "balance",
        "give the devices equal work, or start the copies between them earlier",
    ),
    "idle": _Cause(
        "is idle, and the recording does not tell why",
        "launching ahead",
        "record the API calls of all processes: they show what the host did",
    ),
}
_NAMES: Final = (*_CAUSES,)
# Causes of pauses in which the host had not launched yet what ended them.
_LATE: Final = (_HOST_LATE, _SYNCHRONISING, "mpi")
_OF_LABEL: Final = {
    "mpi_call": "mpi",
    "synchronising_call": _SYNCHRONISING,
    "waits_for_stream": "waits_for_stream",
    "waits_for_device": "waits_for_device",
    "waits_for_unknown": "waits_for_stream",
    "unknown": "idle",
}
# Pauses have a reason that takes this much of them.
_MOST: Final = 0.5
# Longer pauses have another reason than how launches are made.
_LONG_NS: Final = 200_000
_OTHER_WORK: Final = (
    "see what the host does in these pauses ({how}), and do it on another thread or ahead"
)
_NOTHING: Final = "no call or range that was recorded"
_UNNAMED: Final = "host_late"  # Label of what the host did outside all that was recorded.
_LATE_IN: Final = {
    r"_MultiProcessingDataLoader": (
        "give the loader more workers (num_workers, prefetch_factor), or less work: decode and"
        " augment ahead or on the device"
    ),
    r"(?i)data_?load|next_batch|get_next|iterator|load_batch": (
        "load and prepare input ahead: DataLoader(num_workers=..., pin_memory=True),"
        " tf.data.prefetch"
    ),
    r"^(?:cuda|cu|hip)(?:Malloc|MemAlloc|Host|MemHost|Free|MemFree|MemCreate)": (
        "allocate memory once, before the loop, or from a pool (cudaMallocAsync)"
    ),
    r"^f?(?:read|write|open|close|sync)\b|^p(?:read|write)": (
        "read and write files on another thread"
    ),
}
# Less of the pauses is not where they come from.
_LEAST_PLACE: Final = 0.1
# Of work that was launched in time the call that launched it is no place to look at.
_NO_PLACES: Final = {"launch"}


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits for in a step, by cause; set-up is left out where there are no steps."""
    is_known = scope.profile.unrestricted.has("api_calls")
    # The pieces of pauses lie in the idle time of the whole recording.
    pauses = scope.device.span if is_known else scope.device.idle
    if not scope.has_steps:
        pauses = difference(pauses, set_up_of(scope.profile, scope.device))
    pauses = difference(pauses, migration_pauses(scope))
    if not is_known:
        yield _idle(scope, longer(pauses, SHORT_NS))
        return
    pieces = pieces_of(scope.profile)
    gaps = intersection(synchronised_gaps(scope), pauses)
    steps = intersection(pauses, union(scope.start_ns, scope.end_ns))
    for cause, rows, lengths, waits in _by_cause(scope, pieces, steps):
        if not len(rows) and not len(gaps):
            continue
        if cause != _SYNCHRONISING:
            place = _place(scope, pieces, rows, lengths)
            yield _finding(cause, scope, scope.per_step(waits), place)
            continue
        cost_ns = scope.per_step(together([waits, gaps]))
        yield _waiting(scope, cost_ns, waited(scope, pieces, rows, lengths))


def _by_cause(
    scope: Scope, pieces: Pieces, pauses: Intervals
) -> Iterator[tuple[str, Int64s, Int64s, Intervals]]:
    """Each cause of some pauses: the pieces that are of it, how long each is in them, and when.

    What is late while the host is between marks is a cause of its own, whatever the host does.
    """
    causes = _causes(scope.profile.unrestricted)
    is_of_device = pauses_of(scope.profile).device[pieces.pause] == scope.device.number
    between = intersection(pauses, scope.between)
    within_marks = difference(pauses, scope.between)
    for number, cause in enumerate(_NAMES):
        is_meant = is_of_device & (causes == number)
        instants = within_marks if cause in _LATE else pauses
        if cause == _BETWEEN_STEPS:
            is_meant = is_of_device & np.isin(causes, [_NAMES.index(late) for late in _LATE])
            instants = between
        rows = np.flatnonzero(is_meant)
        stretches = pieces.stretches.take(rows)
        lengths = covered_within(instants, stretches.start_ns, stretches.end_ns)
        rows, lengths = rows[lengths > 0], lengths[lengths > 0]
        if len(rows) or cause == _SYNCHRONISING:
            waits = union(stretches.start_ns, stretches.end_ns)
            yield cause, rows, lengths, intersection(waits, instants)


def _causes(profile: Profile) -> Numbers:
    """The cause of each piece of a pause, an index into `_NAMES`."""
    return profile.once(_causes_of_pieces)


def _causes_of_pieces(profile: Profile) -> Numbers:
    pieces = pieces_of(profile)
    of_label = [_NAMES.index(_OF_LABEL.get(kind, _HOST_LATE)) for kind, _ in pieces.labels]
    causes = np.array(of_label, np.int64)[pieces.stretches.label]
    # A call that waits drained a device only where it covers the end of its last work; one that
    # begins later is slow by itself.
    drained = np.sort(pauses_of(profile).start_ns)
    start, end = pieces.stretches.start_ns, pieces.stretches.end_ns
    is_draining = np.searchsorted(drained, start) < np.searchsorted(drained, end, side="right")
    is_draining &= causes == _NAMES.index(_SYNCHRONISING)
    causes[(causes == _NAMES.index(_SYNCHRONISING)) & ~is_draining] = _NAMES.index(_HOST_LATE)
    is_late = causes == _NAMES.index(_HOST_LATE)
    of_launch = [kind == "launch" for kind, _ in pieces.labels]
    is_launch = np.array(of_launch, bool)[pieces.stretches.label]
    between_ns = np.bincount(pieces.pause, np.where(is_late & ~is_launch, end - start, 0))
    # Programs that launch at once after a call spend 14 to 17 us between the two, Python more than
    # 40: what takes the host longer is work of its own.
    is_of_launch = (is_launch & ~is_loading(pieces)) | (between_ns[pieces.pause] <= NEAR_NS)
    returned_ns = np.full(len(between_ns), np.iinfo(np.int64).max)
    np.minimum.at(returned_ns, pieces.pause[is_draining], end[is_draining])
    is_of_launch &= start >= returned_ns[pieces.pause]
    return np.where(is_late & is_of_launch, _NAMES.index(_SYNCHRONISING), causes)


class _Place(NamedTuple):
    """What takes most of some pauses.

    Args:
        name: Call, operation, range, stream or device; empty where too little is in one place.
        share: Its share of them.
        mean_ns: How long a pause lasts on average.
        unnamed_share: Share of them in which the host was in nothing that was recorded.
    """

    name: str
    share: float
    mean_ns: float
    unnamed_share: float = 0.0


_NOWHERE: Final = _Place("", 0.0, 0.0)


def _place(scope: Scope, pieces: Pieces, rows: Int64s, lengths: Int64s) -> _Place:
    if not len(rows):
        return _NOWHERE
    mean_ns = float(lengths.sum() / len(np.unique(pieces.pause[rows])))
    sums = np.bincount(pieces.stretches.label[rows], lengths, len(pieces.labels))
    is_unnamed = np.array([kind == _UNNAMED for kind, _ in pieces.labels])
    unnamed_share = float(sums[is_unnamed].sum() / sums.sum())
    for label in np.argsort(-sums, kind="stable").tolist():
        kind, detail = pieces.labels[label]
        share = float(sums[label] / sums.sum())
        if share < _LEAST_PLACE:
            break
        if detail is not None and kind not in _NO_PLACES and not scope.is_mark(detail):
            return _Place(detail, share, mean_ns, unnamed_share)
    return _NOWHERE._replace(mean_ns=mean_ns, unnamed_share=unnamed_share)


def _finding(cause: str, scope: Scope, cost_ns: int, place: _Place) -> Finding:
    text = _CAUSES[cause]
    way = "for" if cause.startswith("waits_for") else "in"
    where = f", {say_share(place.share)} of it {way} {place.name}" if place.name else ""
    if not place.name and place.unnamed_share >= _MOST and place.mean_ns >= _LONG_NS:
        where = f", {say_share(place.unnamed_share)} of it in {_NOTHING}"
    suggestion = _late(scope, place) if cause == _HOST_LATE else text.suggestion
    if cause == _BETWEEN_STEPS:
        suggestion = suggestion if place.name else _other_work(scope, place)
        suggestion = _advice(place.name) or suggestion
    # What the host does in longer pauses, and other calls, cost as much without launches.
    is_launching = suggestion == _CAUSES[_HOST_LATE].suggestion
    phrase = text.phrase + where
    return Finding(
        cause, scope, phrase, cost_ns, cost_ns, text.means, suggestion, "pauses", place.name,
        () if is_launching else None, is_sure=cause != "idle",
    )  # fmt: skip


def _idle(scope: Scope, pauses: Intervals) -> Finding:
    """Pauses of a device, in a recording without the calls of its host."""
    cost_ns = scope.per_step(pauses)
    longest_ns = int((pauses.end - pauses.start).max(initial=0))
    # Of steps a single long pause tells nothing.
    is_one = not scope.has_steps and len(pauses) > 1 and longest_ns >= _MOST * cost_ns
    once = f", {say_ns(longest_ns)} of it at once" if is_one else ""
    return Finding(
        "idle", scope, f"is idle{once}, and no calls of the host were recorded to tell why",
        cost_ns, cost_ns, _CAUSES["idle"].means,
        f"record these calls, too ({how_to_record_calls(scope.profile)})", "gaps", is_sure=False,
    )  # fmt: skip


def _waiting(scope: Scope, cost_ns: int, of_host: Waited) -> Finding:
    """A host that waited for results, with the call and what it read."""
    cause, call = _CAUSES[_SYNCHRONISING], of_host.call or "a synchronising call"
    suggestion = of_host.suggestion
    if not of_host.result:
        suggestion = _advice(of_host.call) or suggestion
    return Finding(
        _SYNCHRONISING, scope, f"{cause.phrase} {call}{of_host.result}", cost_ns, cost_ns,
        cause.means, suggestion, "pauses", of_host.call,
    )  # fmt: skip


def _advice(name: str) -> str:
    """What to try against a host that is late in a place whose name tells it; else nothing."""
    return next((text for pattern, text in _LATE_IN.items() if re.search(pattern, name)), "")


def _late(scope: Scope, place: _Place) -> str:
    """What to try against a host that launches late, by what it does then."""
    is_launching = place.mean_ns < _LONG_NS
    usual = _CAUSES[_HOST_LATE].suggestion if is_launching else _other_work(scope, place)
    return _advice(place.name) or usual


def _other_work(scope: Scope, place: _Place) -> str:
    """What to try against a host that works between its calls: most of that may be unrecorded."""
    how = "--table pauses, a profile of the CPU"
    if place.unnamed_share >= _MOST:
        how = how_to_record_host(scope.profile)
    return _OTHER_WORK.format(how=how)
