"""Why a device does nothing: for whom it waits, and what the host does instead of launching."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpuprof.analyses.pauses import ANALYSIS as PAUSES
from gpuprof.base.units import say_bytes, say_ns, say_share
from gpuprof.facts.copies import copy_rows
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.kernel_kinds import JAX, PYTORCH, TENSORFLOW, framework
from gpuprof.facts.numbers import Numbers
from gpuprof.facts.nvtx import LOADS_INPUT, RANGE_READS, ranges_of
from gpuprof.facts.pause_causes import NEAR_NS, WORTH_READING, Pieces, pieces_of, pieces_on
from gpuprof.facts.pauses import SHORT_WAIT_READS, pauses_of, short_waits
from gpuprof.facts.python_functions import function_around, is_of_program
from gpuprof.facts.timeline import SHORT_NS, timeline_of
from gpuprof.findings.exposed_copies import migration_pauses
from gpuprof.findings.scope import Finding, Scope, scopes
from gpuprof.findings.set_up import SET_UP_READS, is_loading, set_up_of
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
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
from gpuprof.model.pairs import different
from gpuprof.model.profile import Profile, once_per_recording

READS: Final = reads(
    PAUSES.reads,
    SET_UP_READS,
    SHORT_WAIT_READS,
    RANGE_READS,
    host_calls="start_ns end_ns process_id thread_id name library",
    memcpys="start_ns end_ns bytes device_id src_device_id dst_device_id memcpy_kind"
    " src_memory_kind dst_memory_kind",
)

_HOST_LATE: Final = "host_late"
_SYNCHRONISING: Final = "synchronising_call"
_BETWEEN_STEPS: Final = "between_steps"
# Cause -> what a device does while it waits for it, how that can be won, and what to try.
_CAUSES: Final = {
    _HOST_LATE: (
        "has no work because the host launches late",
        "launching ahead",
        (
            "launch less often (CUDA graphs, a compiled step) or prepare launches and input on"
            " other threads"
        ),
    ),
    _SYNCHRONISING: (
        "has no work because the host waited in",
        "launching ahead",
        "",  # By what was read, see `_waited`.
    ),
    "mpi": (
        "has no work while the host is in MPI",
        "overlap with compute",
        "start messages without blocking and compute meanwhile, send fewer, or balance the ranks",
    ),
    _BETWEEN_STEPS: (
        "has no work while the host is between two marked steps",
        "launching ahead",
        "do this on another thread or ahead, while the device computes",
    ),
    "waits_for_stream": (
        "waits for a stream although its next work is launched",
        "overlap",
        "see what the stream depends on: another stream's event, a rank, a callback of the host",
    ),
    "waits_for_device": (
        "waits for another device",
        "balance",
        "give the devices equal work, or start the copies between them earlier",
    ),
    "idle": (
        "is idle, and the recording does not tell why",
        "launching ahead",
        "record the API calls of all processes: they show what the host did",
    ),
}
_CLOCKS_APART: Final = (
    "is idle, and as the clocks of GPU and host disagree, the recording does not tell why",
    "record again, by another version of the profiler: no call can be compared with its work",
)
_NAMES: Final = (*_CAUSES,)
# Causes of pauses in which the host had not launched yet what ended them.
_LATE: Final = (_HOST_LATE, _SYNCHRONISING, "mpi")
_OF_HOST: Final = {*_LATE, _BETWEEN_STEPS}
_OF_LABEL: Final = {
    "mpi_call": "mpi",
    "synchronising_call": _SYNCHRONISING,
    "waits_for_stream": "waits_for_stream",
    "waits_for_device": "waits_for_device",
    "waits_for_unknown": "waits_for_stream",
    "unknown": "idle",
}
# Devices that compute for times as close as these have equal work.
_UNEQUAL: Final = 0.05
_START_EARLIER: Final = (
    "start the copies between them earlier, beside compute that does not need them: they compute"
    " for equal times"
)
# Pauses have a reason that takes this much of them.
_MOST: Final = 0.5
# Longer pauses have another reason than how launches are made.
_LONG_NS: Final = 200_000
_OTHER_WORK: Final = (
    "see what the host does in these pauses ({how}), and do it on another thread or ahead"
)
_UNNAMED: Final = "host_late"  # Label of what the host did outside all that was recorded.
_LATE_IN: Final = {
    r"_MultiProcessingDataLoader": (
        "give the loader more workers (num_workers, prefetch_factor), or less work: decode and"
        " augment ahead or on the device"
    ),
    LOADS_INPUT.pattern: (
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
# What takes less of the pauses is named, and not what to mend first.
_LEAST_ADVISED: Final = 0.2
# So many operations are named that run in pauses.
_MOST_OPERATIONS: Final = 2

# What records the calls of the host, and what it does between them, by the reader of a recording.
_RECORD_CALLS: Final = {
    "kineto": "ProfilerActivity.CPU beside ProfilerActivity.CUDA",
    "xplane": "host_tracer_level=2",
}
_RECORD_HOST: Final = {
    "kineto": "torch.profiler.profile(with_stack=True)",
    "xplane": "host_tracer_level=3, python_tracer_level=1",
}
_NSYS: Final = "nsys profile --trace=cuda,nvtx,osrt"

# A copy of so few bytes brings a number or a flag.
_FLAG_BYTES: Final = 64
# A link moves so many in less time than a copy takes to start.
_PIECE_BYTES: Final = 1 << 14
# Steps that compute for less of their time do little but copy.
_LITTLE_COMPUTE: Final = 0.25
# Steps copy something if so many of them do.
_MOST_STEPS: Final = 0.9
_READ_LATER: Final = (
    "read results later, or wait for single events, so that the next work is launched before"
)
_AT_ONCE: Final = (
    "copy the data of all steps at once, from one contiguous buffer into memory that is allocated"
    " once, then launch them"
)
_NOT_EACH_STEP: Final = {
    PYTORCH: "read it every n-th step (.item(), .cpu(), if tensor:), or keep the test on the"
    " device (torch.where)",
    TENSORFLOW: "read it every n-th step (.numpy(), float(loss)), or keep the test in the graph"
    " (tf.cond)",
    JAX: "read it every n-th step (float(loss)), or keep the test on the device (jax.lax.cond)",
    "": "read it every n-th step, or test it on the device (a loop of a CUDA graph), so that the"
    " next work is launched before",
}


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits for in a step, by cause; set-up is left out where there are no steps."""
    is_known = scope.profile.unrestricted.has("api_calls")
    gaps = short_waits(scope.profile)[scope.device.device_id].gaps
    recorded = timeline_of(scope.profile.unrestricted, scope.device.device_id)
    paused_ns = covered_within(recorded.pauses, scope.start_ns, scope.end_ns)
    if is_known and not len(gaps) and not paused_ns.any():
        return  # to know what the host did in other pauses takes long
    # The pieces of pauses lie in the idle time of the whole recording.
    pauses = scope.device.span if is_known else scope.device.idle
    if not scope.has_steps:
        pauses = difference(pauses, set_up_of(scope.profile, scope.device))
    pauses = difference(pauses, migration_pauses(scope))
    if not is_known:
        yield _idle(scope, longer(pauses, SHORT_NS))
        return
    pieces = pieces_of(scope.profile)
    gaps = intersection(gaps, pauses)
    steps = intersection(pauses, union(scope.start_ns, scope.end_ns))
    for cause, rows, lengths, of_pauses in _by_cause(scope, pieces, steps):
        if not len(rows) and not len(gaps):
            continue  # no call that waits
        waits = together([of_pauses, gaps]) if cause == _SYNCHRONISING else of_pauses
        cost_ns = scope.per_step(waits)
        function = _function(scope, cost_ns, pieces, rows) if cause in _OF_HOST else ""
        if cause == _SYNCHRONISING:
            finding = _after_a_call(scope, cost_ns, (pieces, rows, lengths), function)
        else:
            place = _place(scope, pieces, rows, lengths)
            finding = _finding(cause, scope, cost_ns, place, function)
        if cause == _HOST_LATE:
            finding = _after_reading(finding, pieces, rows, lengths)
        yield finding._replace(instants=waits)


def _after_a_call(
    scope: Scope, cost_ns: int, waited: tuple[Pieces, Int64s, Int64s], function: str
) -> Finding:
    """Pauses as the host waited in a call; see `_waited`."""
    phrase, means, _ = _CAUSES[_SYNCHRONISING]
    call, words, suggestion = _waited(scope, *waited)
    phrase = f"{phrase} {call or 'a synchronising call'}{words}{function}"
    suggestion = (not words and _advice(call)) or suggestion
    # Nothing but numbers is read back then.
    names = ("DtoH",) if _copied(scope, HOST, _FLAG_BYTES) else None
    costs = cost_ns, cost_ns, means
    return Finding(_SYNCHRONISING, scope, phrase, *costs, suggestion, "pauses", call, names)


def _function(scope: Scope, cost_ns: int, pieces: Pieces, rows: Int64s) -> str:
    """Which of the program's functions holds most of some pieces, in words; empty for none."""
    profile = scope.profile.unrestricted
    if cost_ns < WORTH_READING * scope.step_ns or not profile.has("host_calls"):
        return ""
    stretches, launch = pieces.stretches.take(rows), pauses_of(profile).launch[pieces.pause[rows]]
    name, share = function_around(profile, launch, stretches.start_ns, stretches.end_ns)
    return f", {say_share(share)} of it in {name}" if name else ""


def _by_cause(
    scope: Scope, pieces: Pieces, pauses: Intervals
) -> Iterator[tuple[str, Int64s, Int64s, Intervals]]:
    """Each cause of some pauses: the pieces that are of it, how long each is in them, and when.

    What is late while the host is between marks is a cause of its own, whatever the host does.
    """
    here = pieces_on(scope.profile, scope.device.number)
    causes = _causes_of_pieces(scope.profile)[here]
    between = intersection(pauses, scope.between)
    within_marks = difference(pauses, scope.between)
    for number, cause in enumerate(_NAMES):
        is_meant = causes == number
        instants = within_marks if cause in _LATE else pauses
        if cause == _BETWEEN_STEPS:
            is_meant = np.isin(causes, [_NAMES.index(late) for late in _LATE])
            instants = between
        rows = here[is_meant]
        stretches = pieces.stretches.take(rows)
        lengths = covered_within(instants, stretches.start_ns, stretches.end_ns)
        rows, lengths = rows[lengths > 0], lengths[lengths > 0]
        if len(rows) or cause == _SYNCHRONISING:
            waits = union(stretches.start_ns, stretches.end_ns)
            yield cause, rows, lengths, intersection(waits, instants)


@once_per_recording
def _causes_of_pieces(profile: Profile) -> Numbers:
    """The cause of each piece of a pause, an index into `_NAMES`."""
    pieces = pieces_of(profile)
    of_label = [_NAMES.index(_OF_LABEL.get(kind, _HOST_LATE)) for kind, _ in pieces.labels]
    causes = np.array(of_label, np.int8)[pieces.stretches.label]
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
    is_of_launch = (is_launch & ~is_loading(profile)) | (between_ns[pieces.pause] <= NEAR_NS)
    returned_ns = np.full(len(between_ns), np.iinfo(np.int64).max)
    np.minimum.at(returned_ns, pieces.pause[is_draining], end[is_draining])
    is_of_launch &= start >= returned_ns[pieces.pause]
    return np.where(is_late & is_of_launch, _NAMES.index(_SYNCHRONISING), causes)


# The call, operation, range, stream or device that takes most of some pauses, empty where too
# little is in one place, and its share of them; how long a pause lasts on average; and the share of
# them in which the host was in nothing that was recorded.
_Place = tuple[str, float, float, float]


def _place(scope: Scope, pieces: Pieces, rows: Int64s, lengths: Int64s) -> _Place:
    mean_ns = float(lengths.sum() / len(different(pieces.pause[rows])))
    sums = np.bincount(pieces.stretches.label[rows], lengths, len(pieces.labels))
    is_unnamed = np.array([kind == _UNNAMED for kind, _ in pieces.labels])
    unnamed_share = float(sums[is_unnamed].sum() / sums.sum())
    for label in np.argsort(-sums, kind="stable").tolist():
        kind, detail = pieces.labels[label]
        share = float(sums[label] / sums.sum())
        if share < _LEAST_PLACE:
            break
        # Of work that was launched in time the call that launched it is no place to look at.
        if detail is not None and kind != "launch" and not scope.is_mark(detail):
            return detail, share, mean_ns, unnamed_share
    return "", 0.0, mean_ns, unnamed_share


def _finding(cause: str, scope: Scope, cost_ns: int, place: _Place, function: str) -> Finding:
    phrase, means, suggestion = _CAUSES[cause]
    if cause == "idle" and not host_clock(scope.profile.unrestricted).is_known:
        phrase, suggestion = _CLOCKS_APART
    name, share, mean_ns, unnamed_share = place
    is_long, is_unnamed = mean_ns >= _LONG_NS, unnamed_share >= _MOST
    if name and not (function and is_of_program(name)):
        way = "for" if cause.startswith("waits_for") else "in"
        phrase += f", {say_share(share)} of it {way} {name}"
    elif is_unnamed and is_long and not function:
        phrase += f", {say_share(unnamed_share)} of it in no call or range that was recorded"
    phrase += function if "of it in" not in phrase else function.replace(", ", " and ", 1)
    if cause == "waits_for_device":
        of_phase = [s.compute_ns for s in scopes(scope.profile) if s.phase == scope.phase]
        # Devices that compute for about as long do not wait for each other.
        if min(of_phase) >= (1 - _UNEQUAL) * max(of_phase):
            means, suggestion = "overlap", _START_EARLIER
    if cause in {_HOST_LATE, _BETWEEN_STEPS}:
        if is_long if cause == _HOST_LATE else not name:
            # Most of the host's work between its calls may be unrecorded.
            host = _RECORD_HOST.get(scope.profile.origin.reader, f"{_NSYS} --sample=process-tree")
            how = host if is_unnamed else "--table pauses, a profile of the CPU"
            suggestion = _OTHER_WORK.format(how=how)
        suggestion = (share >= _LEAST_ADVISED and _advice(name)) or suggestion
    # What the host does in longer pauses, and other calls, cost as much without launches.
    is_launching = suggestion == _CAUSES[_HOST_LATE][-1]
    return Finding(
        cause, scope, phrase, cost_ns, cost_ns, means, suggestion, "pauses", name,
        () if is_launching else None, is_sure=cause != "idle",
    )  # fmt: skip


def _after_reading(finding: Finding, pieces: Pieces, rows: Int64s, lengths: Int64s) -> Finding:
    """A host that is late, with why it does not work ahead: each step reads a number back.

    That is so where it waited for the device at the begin of most of these pauses. ``rows`` are the
    pieces of pauses in which it is late, ``lengths`` what the scope has of each.
    """
    scope = finding.scope
    is_place_known = bool(_advice(finding.where))
    if is_place_known or not (size := _copied(scope, HOST, _FLAG_BYTES)):
        return finding
    here = pieces_on(scope.profile, scope.device.number)
    waited = here[_causes_of_pieces(scope.profile)[here] == _NAMES.index(_SYNCHRONISING)]
    is_after = np.isin(pieces.pause[rows], pieces.pause[waited])
    if lengths[is_after].sum() < _MOST * lengths.sum():
        return finding
    return finding._replace(
        phrase=f"{finding.phrase}, after it waited to read {say_bytes(size)} back in each step",
        suggestion=_NOT_EACH_STEP[framework(scope.profile)],
    )


def _advice(name: str) -> str:
    """What to try against a host that is late in a place whose name tells it; else nothing."""
    return next((text for pattern, text in _LATE_IN.items() if re.search(pattern, name)), "")


def _idle(scope: Scope, pauses: Intervals) -> Finding:
    """Pauses of a device, in a recording without the calls of its host."""
    cost_ns = scope.per_step(pauses)
    longest_ns = int((pauses.end - pauses.start).max(initial=0))
    # Of steps a single long pause tells nothing.
    is_one = not scope.has_steps and len(pauses) > 1 and longest_ns >= _MOST * cost_ns
    once = f", {say_ns(longest_ns)} of it at once" if is_one else ""
    operations = _operations(scope.profile.unrestricted, pauses)
    named = " and ".join(f"{n} ({say_share(share)} of it)" for n, share in operations.items())
    beside = f"{',' if once else ''} while the host runs {named}" if named else ""
    how = _RECORD_CALLS.get(scope.profile.origin.reader, _NSYS)
    suggestion = next(filter(None, map(_advice, operations)), f"record these calls, too ({how})")
    return Finding(
        "idle", scope, f"is idle{once}{beside}, and no calls of the host were recorded to tell why",
        cost_ns, cost_ns, _CAUSES["idle"][1], suggestion, "gaps", is_sure=False,
    )  # fmt: skip


def _operations(profile: Profile, pauses: Intervals) -> dict[str, float]:
    """The operations that the host ran in most of some pauses, with their shares of these."""
    if not len(pauses):
        return {}
    operations = ranges_of(profile).of_kind(is_operation=True)
    inside = covered_within(pauses, operations.start_ns, operations.end_ns)
    sums = np.bincount(operations.label, inside, len(operations.labels))
    shares: dict[str, float] = {}
    for label in np.argsort(-sums, kind="stable")[:_MOST_OPERATIONS].tolist():
        rows = np.flatnonzero(operations.label == label)
        ran = union(operations.start_ns[rows], operations.end_ns[rows])
        share = intersection(ran, pauses).length / pauses.length
        if share >= _LEAST_PLACE:
            shares[operations.labels[label][0]] = share
    return shares


def _waited(scope: Scope, pieces: Pieces, rows: Int64s, lengths: Int64s) -> tuple[str, str, str]:
    """In which call the host waited before most of some pauses, and the short gaps of the scope.

    ``rows`` are the pieces that calls which wait brought about, ``lengths`` what the scope has of
    each.

    Returns:
        The name of the call, empty where none is known; what it reads back or copies each time,
        in words, empty where that is much; and what to do.
    """
    times = Counter[str]()
    if len(rows):
        # A pause counts for the call that its first piece is of.
        order = np.lexsort((pieces.stretches.start_ns[rows], pieces.pause[rows]))
        rows, lengths = rows[order], lengths[order]
        first = np.flatnonzero(np.diff(pieces.pause[rows], prepend=-1))
        label = pieces.stretches.label[rows[first]]
        sums = np.bincount(label, np.add.reduceat(lengths, first), len(pieces.labels)).tolist()
        for (kind, detail), ns in zip(pieces.labels, sums, strict=True):
            if kind == "synchronising_call" and detail is not None and ns:
                times[detail] = int(ns)
    gaps, of_gap, names = short_waits(scope.profile)[scope.device.device_id]
    if len(gaps):
        inside = covered_within(Intervals(scope.start_ns, scope.end_ns), gaps.start, gaps.end)
        sums = np.bincount(of_gap, inside, len(names)).tolist()
        times.update({name: int(ns) for name, ns in zip(names, sums, strict=True) if ns})
    call = max(times, key=lambda name: times[name], default="")
    if size := _copied(scope, HOST, _FLAG_BYTES):
        words = f", as it reads {say_bytes(size)} back in each step"
        return call, words, _NOT_EACH_STEP[framework(scope.profile)]
    is_mostly_idle = scope.compute_ns < _LITTLE_COMPUTE * scope.step_ns
    if is_mostly_idle and (size := _copied(scope, scope.device.number, _PIECE_BYTES)):
        return call, f", as it copies {say_bytes(size)} to the device in each step", _AT_ONCE
    return call, "", _READ_LATER


def _copied(scope: Scope, dst: int, most_bytes: int) -> int:
    """Bytes that each step copies between host and device where these are few; else 0.

    To ``dst``, which is `HOST` or the number of the device.
    """
    if not scope.has_steps or not scope.profile.unrestricted.has("memcpys"):
        return 0
    copies = copy_rows(scope.profile.unrestricted)
    src = scope.device.number if dst == HOST else HOST
    rows = np.flatnonzero((copies.dst == dst) & (copies.src == src) & (copies.moved_bytes > 0))
    step = scope.step_of(copies.start_ns[rows])
    rows, copying = rows[step >= 0], len(different(step[step >= 0]))
    if not copying or copying < _MOST_STEPS * len(scope.start_ns):
        return 0
    size = round(float(copies.moved_bytes[rows].sum()) / copying)
    return size if size <= most_bytes else 0
