"""Why each device paused: its pauses summed up by cause."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.numbers import Numbers, groups, sums_by_number
from gpuprof.facts.pause_causes import CAUSE_READS, SHORT, Label, Pieces, pieces_of, pieces_on
from gpuprof.facts.pauses import Pauses, pauses_of
from gpuprof.facts.timeline import DEVICE_ID, DeviceTimeline, timelines
from gpuprof.model.analysis import by, per_file
from gpuprof.model.intervals import Int64s, covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema, instant_column

PAUSES: Final = Schema(
    "pauses",
    "all time for one cause in which a device does nothing",
    {
        "device_id": DEVICE_ID,
        "cause": Column(
            TEXT,
            "",
            "After the launch the device waited: waits_for_stream, waits_for_device,"
            " waits_for_unknown, or launch for what began within 20 µs of its call's return."
            " Before it the host was late, in mpi_call, nccl_call, synchronising_call, cuda_call,"
            " ucx_call, os_call, operation, range or python_function, or in nothing that was"
            " recorded: host_late (python_function only where that is 5 % of a span or more)."
            " unknown: which call launched, or when, cannot be told. short: pauses of at most"
            " 10 µs.",
            required=True,
        ),
        "detail": Column(
            TEXT, "", "Name of the stream, device, call, operation or range; null for none."
        ),
        "pauses": Column(INT, "1", "Pauses with such time; a pause may have several causes."),
        "total_ns": Column(INT, "ns", "This time; all rows of a device are its idle time."),
        "longest_ns": Column(INT, "ns", "The most of it in one pause."),
        "longest_start_ns": instant_column("Start of that pause."),
        "span_share": Column(FLOAT, "1", "Share of the device's span."),
    },
)
# Of one cause on one device; more would hide the others.
_MOST_DETAILS: Final = 10


@per_file(
    PAUSES,
    by(device_id="ascending", total_ns="descending", cause="ascending", detail="ascending"),
    needs=("kernels", "memcpys", "api_calls"),
    device_texts=("detail",),
)
def pauses(profile: Profile) -> pa.Table:
    """Say why each device did nothing, instant by instant.

    Args:
        profile: Needs ``kernels``, ``memcpys`` and ``api_calls``; ``host_calls``,
            ``nvtx_ranges`` and ``synchronizations`` tell more.

    Returns:
        One row per device, cause and detail, the longest total of a device first, columns as in
        `PAUSES`. The totals of a device add up to its idle time in ``breakdown``.
    """
    all_pauses, pieces = pauses_of(profile), pieces_of(profile)
    recorded = {timeline.device_id: timeline for timeline in timelines(profile.unrestricted)}
    rows = []
    for device in timelines(profile):
        of_device = pieces_on(profile, device.number)
        device_rows = _rows(device, all_pauses, pieces, of_device)
        # Short ones are those of the whole recording. There may be millions.
        recorded_device = recorded[device.device_id]
        gaps = recorded_device.short_gaps
        lengths = gaps.end - gaps.start
        if device is not recorded_device:
            lengths = covered_within(device.idle, gaps.start, gaps.end)
        if (is_in := lengths > 0).any():
            device_rows.append(_row(device, SHORT, lengths[is_in], gaps.start[is_in]))
        rows += sorted(
            device_rows, key=lambda row: (-row["total_ns"], row["cause"], row["detail"] or "")
        )
    return PAUSES.table(rows)


def _rows(
    device: DeviceTimeline, all_pauses: Pauses, pieces: Pieces, chosen: Numbers
) -> list[dict[str, Any]]:
    """The rows of some pieces, which are of one device."""
    parts = pieces.stretches.take(chosen)
    lengths = covered_within(device.idle, parts.start_ns, parts.end_ns)
    filled = np.flatnonzero(lengths)
    pause, label, lengths = pieces.pause[chosen][filled], parts.label[filled], lengths[filled]
    # Of each cause the longest details have rows of their own, and all others one.
    labels = [*pieces.labels]
    totals = sums_by_number(label, lengths, len(labels))
    by_cause: dict[str, list[int]] = {}
    for number in np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)].tolist():
        by_cause.setdefault(labels[number][0], []).append(number)
    renamed = np.arange(len(labels))
    for cause, numbers in by_cause.items():
        if shorter := numbers[_MOST_DETAILS:]:
            renamed[shorter] = len(labels)
            labels.append((cause, f"{len(shorter):,} others"))
    label = renamed[label]
    rows = []
    for of_label in groups(label):
        # A pause may have many pieces of one cause.
        _, first, index = np.unique(pause[of_label], return_index=True, return_inverse=True)
        sums = sums_by_number(index, lengths[of_label], len(first))
        starts = all_pauses.start_ns[pause[of_label][first]]
        rows.append(_row(device, labels[int(label[of_label[0]])], sums, starts))
    return rows


def _row(device: DeviceTimeline, label: Label, sums: Int64s, starts: Int64s) -> dict[str, Any]:
    longest = int(sums.argmax())
    return {
        "device_id": device.device_id,
        "cause": label[0],
        "detail": label[1],
        "pauses": len(sums),
        "total_ns": int(sums.sum()),
        "longest_ns": int(sums[longest]),
        "longest_start_ns": int(starts[longest]),
        "span_share": int(sums.sum()) / device.span.length,
    }


ANALYSIS: Final = pauses.analysis("Why devices paused", CAUSE_READS)
