"""The figures of one variant that comparisons set side by side."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses import breakdown
from gpuprof.analyses.placement import PER_STEP_ANALYSIS, per_step, tensor_transfers
from gpuprof.analyses.totals import totals
from gpuprof.base.sweep_cells import skipped_epochs_of
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.activity_sums import TABLES
from gpuprof.facts.moves import backward_peer_share
from gpuprof.facts.step_times import warm_up_steps
from gpuprof.facts.timeline import TRANSFER, timelines
from gpuprof.model.intervals import covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import (
    FLOAT,
    INT,
    Bytes,
    Column,
    Count,
    Flag,
    Kind,
    Ns,
    Schema,
    Share,
    Text,
)

_GPU: Final = "summed over devices; null where not recorded or where rows may be missing"
_BUSIEST: Final = "on the device that is busy longest; null for summaries"


VARIANTS: Final = Schema(
    "variants",
    "one variant: its name, where it comes from, and its figures, null where unknown",
    {
        "variant": Text("Label.", required=True),
        "source": Text("File or folder that was read.", required=True),
        "tool": Text("Tool that recorded it.", required=True),
        "runs": Count("Its runs; the figures are those of the median one."),
        "devices": Count("Devices that did any work; null for summaries."),
        "device_names": Text("Their models; null where not recorded."),
        "gpu_activity_ns": Ns(f"All kernels, copies and memsets, {_GPU}.", label="GPU activity"),
        "implied_gpu_activity_ns": Ns(
            "What an excerpt's printed shares imply for it; null for whole tables.",
            label="Implied GPU activity",
        ),
        "unlisted_gpu_activity_ns": Ns(
            "The implied total less what an excerpt tells; null for whole tables.",
            label="Unlisted GPU activity",
        ),
        "kernel_ns": Ns(f"Kernels, {_GPU}."),
        "kernel_calls": Count("Kernels."),
        "communication_kernel_ns": Ns("Kernels of NCCL and similar libraries among them."),
        "transfer_ns": Ns(f"Copies between two memories, {_GPU}."),
        "transfer_calls": Count("Copies between two memories."),
        "transfer_bytes": Bytes("Their bytes; null where one is unknown."),
        "peer_transfer_ns": Ns("Copies between two devices, including staged ones."),
        "peer_transfer_calls": Count("Copies between two devices; a staged one once."),
        "peer_transfer_bytes": Bytes("Their bytes; null where one is unknown."),
        "peer_transfer_mean_ns": Column(FLOAT, "ns", "peer_transfer_ns / peer_transfer_calls."),
        "htod_ns": Ns("Copies from host to device, without halves of staged copies.", label="HtoD"),
        "dtoh_ns": Ns("Copies from device to host, without halves of staged copies.", label="DtoH"),
        "managed_transfer_ns": Ns("Migrations of managed memory from and to host."),
        "local_copy_ns": Ns("Copies within one memory."),
        "unknown_copy_ns": Ns("Copies of kinds that no table of CUDA names."),
        "memset_ns": Ns("Memsets."),
        "api_call_ns": Ns("CUDA API calls on the host; not part of GPU time.", label="API call"),
        "peer_share": Share("peer_transfer_ns / gpu_activity_ns, or / the implied total."),
        "backward_peer_share": Share(
            "Part of peer_transfer_ns that ranges naming gradients or the backward pass launched;"
            " null where none did."
        ),
        "transfer_share": Share("transfer_ns / gpu_activity_ns."),
        "transfer_to_kernel_ratio": Column(FLOAT, "1", "transfer_ns / kernel_ns.", kind=Kind.RATIO),
        "exposed_transfer_ns": Ns(
            "Transfers while no kernel runs, on the device that waits longest; null for summaries."
        ),
        "exposed_transfer_share": Share(
            "The same as a share of that device's span; null for summaries."
        ),
        "span_ns": Ns(f"Time of the compared steps, or from first start to last end, {_BUSIEST}."),
        "step_ns": Column(
            FLOAT,
            "ns",
            f"Median over the compared steps, {_BUSIEST}; span_ns / steps where only their number"
            " is known, null where steps are not compared.",
        ),
        "compute_ns": Ns(f"A compute kernel runs, {_BUSIEST}."),
        "exposed_communication_ns": Ns(
            f"A communication kernel runs, and no compute kernel, {_BUSIEST}."
        ),
        "idle_ns": Ns(f"Nothing runs, {_BUSIEST}."),
        "seconds_per_epoch": Column(
            FLOAT,
            "s",
            "Wall time of an epoch: as given, or median of those marked, past the warm-up.",
        ),
        "epochs": Count("Epochs that the script marked."),
        "steps": Count("Training steps that were recorded, or those compared."),
        "peer_transfer_calls_per_step": Column(
            FLOAT,
            "1",
            "Copies between devices in a step; null where collectives ran.",
            kind=Kind.MEAN,
        ),
        "peer_transfer_bytes_per_step": Column(FLOAT, "B", "Their bytes; null where unknown."),
        "gradient_bytes_per_step": Column(FLOAT, "B", "Those that only gradients need."),
        "forward_bytes_per_step": Column(FLOAT, "B", "The others of them."),
        "largest_scope": Text(
            "Part of the model, by the scope of its names, whose copies move most bytes."
        ),
        "largest_scope_is_gradient": Flag("Whether its gradients make these copies."),
        "largest_scope_bytes_per_step": Column(FLOAT, "B", "Bytes of these copies in a step."),
    },
)

# These add up to gpu_activity_ns without remainder.
COMPONENTS: Final = (
    "kernel_ns", "peer_transfer_ns", "htod_ns", "dtoh_ns", "managed_transfer_ns",
    "local_copy_ns", "memset_ns", "unknown_copy_ns",
)  # fmt: skip
# What grows with the number of steps; all else is counted apart, a share, a mean, or of a step.
EXTENSIVE: Final = frozenset(
    name for name, column in VARIANTS.columns.items() if column.dtype == INT
) - {"runs", "devices", "epochs", "steps"}

# What times of one run are shares of others.
SHARES: Final = (
    "peer_share",
    "backward_peer_share",
    "transfer_share",
    "transfer_to_kernel_ratio",
    "exposed_transfer_share",
)

# Metric -> activity group of `totals` and its column.
_FROM_TOTALS: Final = {
    "gpu_activity_ns": ("gpu_activities", "total_ns"),
    "implied_gpu_activity_ns": ("gpu_activities", "implied_ns"),
    "kernel_ns": ("kernels", "total_ns"),
    "kernel_calls": ("kernels", "calls"),
    "communication_kernel_ns": ("communication_kernels", "total_ns"),
    "transfer_ns": ("transfers", "total_ns"),
    "transfer_calls": ("transfers", "calls"),
    "transfer_bytes": ("transfers", "bytes"),
    "peer_transfer_ns": ("peer_transfers", "total_ns"),
    "peer_transfer_calls": ("peer_transfers", "calls"),
    "peer_transfer_bytes": ("peer_transfers", "bytes"),
    "peer_transfer_mean_ns": ("peer_transfers", "mean_ns"),
    "peer_share": ("peer_transfers", "share"),
    "transfer_share": ("transfers", "share"),
    "local_copy_ns": ("local_copies", "total_ns"),
    "memset_ns": ("memsets", "total_ns"),
    "api_call_ns": ("api_calls", "total_ns"),
}
# Metrics of kinds that `totals` lists only where they happened.
_FROM_KINDS: Final = {
    "htod_ns": ("HtoD", "HtoA"),
    "dtoh_ns": ("DtoH", "AtoH"),
    "managed_transfer_ns": ("UVM_HtoD", "UVM_DtoH"),
    "unknown_copy_ns": ("unknown_copies",),
}

Metrics = dict[str, Any]


def of_medians(variants: pa.Table, figures: pa.Table) -> pa.Table:
    """`VARIANTS` with the medians over the runs in place of one run's figures."""
    medians: dict[str, Metrics] = {}
    for row in figures.to_pylist():
        is_whole = VARIANTS.columns[row["metric"]].dtype == INT
        value = round(row["median"]) if is_whole else row["median"]
        medians.setdefault(row["variant"], {})[row["metric"]] = value
    return VARIANTS.table([row | medians.get(row["variant"], {}) for row in variants.to_pylist()])


def metrics(profile: Profile) -> Metrics:
    """One recording's figures by the names of `VARIANTS`; those that it cannot tell are absent."""
    figures = _from_totals(profile) if any(profile.has(table) for table in TABLES) else {}
    if figures.get("peer_transfer_ns"):
        figures["backward_peer_share"] = backward_peer_share(profile)
    if profile.has("devices"):
        names = profile.table("devices").column("name").to_pylist()
        figures["device_names"] = ", ".join(sorted({name for name in names if name})) or None
    if profile.all_have(*breakdown.ANALYSIS.needs):
        waits = _waits_for_transfers(profile)
        figures["devices"] = len(waits)
        # A peer copy is exposed on both its ends: the devices' times must not be added up.
        figures["exposed_transfer_ns"] = max((exposed_ns for exposed_ns, _ in waits), default=0)
        shares = [exposed_ns / span_ns for exposed_ns, span_ns in waits if span_ns]
        figures["exposed_transfer_share"] = max(shares, default=None)
    recording = profile.unrestricted
    if recording.has("epochs"):
        # As the script marked them.
        epochs = recording.table("epochs").to_pylist()
        seconds, steps = ([epoch[name] for epoch in epochs] for name in ("seconds", "steps"))
        skipped = skipped_epochs_of(recording.origin.source)
        figures["epochs"] = len(epochs)
        figures["seconds_per_epoch"] = time_of_epochs(seconds, skipped)[0]
        figures["steps"] = sum(steps) if steps and None not in steps else None
    return figures | _steps(profile)


def _waits_for_transfers(profile: Profile) -> list[tuple[int, int]]:
    """How long each device that did any work waits for transfers, and its span, in ns."""
    part = profile.selection
    if part.windows is None:
        rows = breakdown.breakdown(profile).to_pylist()
        return [(row["exposed_transfer_ns"], row["span_ns"]) for row in rows]
    # Of millions of instants in steps only the sum is asked for.
    start, end = np.array(part.windows, np.int64).reshape(-1, 2).T
    times = (
        [
            int(covered_within(some, start, end).sum())
            for some in (line.exposed[TRANSFER], line.span)
        ]
        for line in timelines(profile.unrestricted)
        if part.device_id in {None, line.device_id}
    )
    return [(exposed_ns, span_ns) for exposed_ns, span_ns in times if span_ns]


def _from_totals(profile: Profile) -> Metrics:
    groups = {row["activity_group"]: row for row in profile.once(totals).to_pylist()}
    figures = {name: groups[group][column] for name, (group, column) in _FROM_TOTALS.items()}
    for name, kinds in _FROM_KINDS.items():
        times = [groups[kind]["total_ns"] for kind in kinds if kind in groups]
        is_known = None not in times and (times or figures["transfer_ns"] is not None)
        figures[name] = sum(times) if is_known else None
    if figures["implied_gpu_activity_ns"] is not None:
        listed_ns = sum(figures[name] or 0 for name in COMPONENTS)
        figures["unlisted_gpu_activity_ns"] = figures["implied_gpu_activity_ns"] - listed_ns
    if figures["transfer_ns"] is not None and figures["kernel_ns"]:
        figures["transfer_to_kernel_ratio"] = figures["transfer_ns"] / figures["kernel_ns"]
    return figures


def time_of_epochs(
    seconds: Sequence[float | None], skipped: int | None
) -> tuple[float | None, int]:
    """What an epoch of a run takes: the one figure of comparisons and sweeps.

    Args:
        seconds: Wall time of each epoch; None where it is unknown.
        skipped: How many at the start do not count; None for the warm-up that is found.

    Returns:
        The median of the others in seconds, None where one of them is unknown or none is left,
        and how many are set aside. See `warm_up_steps`: of two epochs none is.
    """
    if skipped is None:
        times_ns = np.array([s and s * NS_PER_S for s in seconds], np.float64)
        skipped = 0 if None in seconds else warm_up_steps(times_ns.astype(np.int64))
    counted = [of_epoch for of_epoch in seconds[skipped:] if of_epoch is not None]
    is_whole = counted and len(counted) == len(seconds[skipped:])
    return (float(median(counted)) if is_whole else None), skipped


def _steps(profile: Profile) -> Metrics:
    """Copies between devices in a training step, from recordings that know operations."""
    if PER_STEP_ANALYSIS.missing(profile):
        return {}
    steps = per_step(profile).to_pylist()
    if not steps:
        return {}
    (step,) = steps
    size, of_gradients = step["bytes_per_step"], step["gradient_bytes_per_step"]
    figures = {
        "steps": step["steps"],
        "peer_transfer_calls_per_step": step["copies_per_step"],
        "peer_transfer_bytes_per_step": size,
        "gradient_bytes_per_step": of_gradients,
        "forward_bytes_per_step": None if size is None else size - of_gradients,
    }
    # The part of the model whose forward pass or gradients copy most.
    moved: Counter[tuple[str | None, bool | None]] = Counter()
    for row in tensor_transfers(profile).to_pylist():
        moved[row["name_scope"], row["is_gradient"]] += row["bytes_per_step"] or 0
    for (scope, is_gradient), bytes_per_step in moved.most_common(1):
        if bytes_per_step and scope is not None:
            figures["largest_scope"] = scope
            figures["largest_scope_is_gradient"] = is_gradient
            figures["largest_scope_bytes_per_step"] = bytes_per_step
    return figures
