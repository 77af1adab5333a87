"""Variants against a baseline: their figures, the differences, and what they come to.

(Not ``compare.py``: a module of that name would hide the function `gpuprof.compare`.)
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof.analyses.activity_summary import with_summary
from gpuprof.analyses.top_activities import merged_runs
from gpuprof.errors import UsageError
from gpuprof.metrics import VARIANTS, Metrics, metrics
from gpuprof.profile import Profile, to_frame
from gpuprof.readers import read_profile
from gpuprof.reports import cannot, recording_notes
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.verdicts import headline, verdict

if TYPE_CHECKING:
    import pandas as pd

DIFFERENCES: Final = Schema(
    "differences",
    "one metric of one candidate against the baseline; only where both are known",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "metric": Column(TEXT, "", "A column of `variants`.", required=True),
        "baseline": Column(FLOAT, "as the metric", "The baseline's figure.", required=True),
        "candidate": Column(FLOAT, "as the metric", "The candidate's figure.", required=True),
        "difference": Column(FLOAT, "as the metric", "candidate - baseline.", required=True),
        "percent": Column(FLOAT, "%", "100 * difference / baseline; null where that is 0."),
    },
)
ACTIVITIES: Final = Schema(
    "activities",
    "one kernel, kind of copy or memset of the baseline or a candidate",
    {
        "variant": Column(TEXT, "", "The candidate.", required=True),
        "activity_kind": Column(TEXT, "", "kernel, memcpy, memset or api.", required=True),
        "name": Column(TEXT, "", "Kernel or API name; memcpy kind for copies.", required=True),
        "status": Column(TEXT, "", "common; new or gone where one side has no row."),
        "baseline_calls": Column(INT, "1", "Null where the baseline has no row."),
        "candidate_calls": Column(INT, "1", "Null where the candidate has no row."),
        "baseline_ns": Column(INT, "ns", "Total; null where the baseline has no row."),
        "candidate_ns": Column(INT, "ns", "Total; null where the candidate has no row."),
        "difference_ns": Column(
            INT, "ns", "Candidate's total - baseline's; null where a missing row is unknown."
        ),
    },
)


@dataclass(frozen=True)
class Comparison:
    """Variants side by side.

    Args:
        baseline: Label of the variant that the others are compared with.
        variants: One row per variant in the order given, columns as in `VARIANTS`.
        differences: Each candidate's metrics against the baseline's, as in `DIFFERENCES`.
        activities: Each candidate's activities joined to the baseline's, as in `ACTIVITIES`.
        verdict: What it comes to, in a sentence or two.
        headline: Its core in one line, as the title of a chart.
        notes: What a reader must know to trust the figures.
    """

    baseline: str
    variants: pa.Table
    differences: pa.Table
    activities: pa.Table
    verdict: str
    headline: str
    notes: tuple[str, ...]


METRICS: Final = tuple(
    name for name, column in VARIANTS.columns.items() if column.dtype in {INT, FLOAT}
)
_Key = tuple[str, str]
_Rows = Mapping[_Key, dict[str, Any]]
Recording = str | Path | Profile | tuple[str, str | Path | Profile]


def compare(
    recordings: Sequence[Recording],
    baseline: str | None = None,
    epoch_seconds: Mapping[str, float] | None = None,
) -> "pd.DataFrame":
    """Set recordings of one program in several variants side by side.

    Args:
        recordings: Paths or profiles, each alone or as ``(label, path or profile)``. Without a
            label it is the recorded variant's name, or the file's name without its suffix.
        baseline: Label of the variant to compare with; the first one where None.
        epoch_seconds: Measured seconds per epoch by label, where no recording has them.

    Returns:
        One row per variant, indexed by its label. Columns as in `gpuprof.metrics.VARIANTS`
        (times in integer ns, sizes in bytes, shares 0 to 1, NA where unknown), and for each
        metric ``<metric>_difference`` (candidate - baseline, same unit) where both are known.
        ``frame.attrs`` has ``baseline``, ``verdict`` and ``notes``.

    Raises:
        GpuprofError: A recording cannot be read, or the labels do not fit together.
    """
    found = comparison(labelled(recordings), baseline, epoch_seconds)
    frame = to_frame(found.variants).set_index("variant")
    wide = to_frame(found.differences).pivot_table(
        index="variant", columns="metric", values="difference", sort=False
    )
    frame = frame.join(wide.add_suffix("_difference"))
    frame.attrs = {"baseline": found.baseline, "verdict": found.verdict, "notes": found.notes}
    return frame


def labelled(recordings: Sequence[Recording]) -> dict[str, Profile]:
    """Profiles by label; what has no label is named after its variant or its file.

    Raises:
        GpuprofError: A recording cannot be read.
        UsageError: Two were given the same label.
    """
    given = [r if isinstance(r, tuple) else (None, r) for r in recordings]
    asked = Counter(label for label, _ in given if label is not None)
    twice = [label for label, count in asked.items() if count > 1]
    if twice:
        msg = f"label {twice[0]} is given to {asked[twice[0]]} recordings"
        raise UsageError(msg, "Give each recording a label of its own: --label NAME=FILE.")
    profiles = [r if isinstance(r, Profile) else read_profile(r) for _, r in given]
    names = [label or _name(p) for (label, _), p in zip(given, profiles, strict=True)]
    return dict(zip(_distinct(names, profiles, asked.keys()), profiles, strict=True))


def _name(profile: Profile) -> str:
    return profile.origin.variant or profile.origin.source.stem


def _distinct(names: list[str], profiles: list[Profile], asked: Collection[str]) -> list[str]:
    """Names told apart by their folders where these differ, else by a number."""
    count = Counter(names)
    places = Counter(
        (name, _folder(profile)) for name, profile in zip(names, profiles, strict=True)
    )
    seen: Counter[str] = Counter()
    distinct = []
    for name, profile in zip(names, profiles, strict=True):
        is_told = count[name] > places[name, _folder(profile)] and name not in asked
        shown = f"{_folder(profile)}/{name}" if is_told else name
        seen[shown] += 1
        distinct.append(shown if seen[shown] == 1 else f"{shown} ({seen[shown]})")
    return distinct


def _folder(profile: Profile) -> str:
    return profile.origin.source.absolute().parent.name


def comparison(
    profiles: Mapping[str, Profile],
    baseline: str | None = None,
    epoch_seconds: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare recordings by label; see `compare`.

    Raises:
        UsageError: Fewer than two recordings, or a label that none of them has.
    """
    chosen = _baseline(profiles, baseline)
    seconds = _checked_seconds(profiles, epoch_seconds or {})
    profiles = {label: with_summary(profile) for label, profile in profiles.items()}
    found = {label: metrics(profile) for label, profile in profiles.items()}
    for label in seconds:
        found[label]["seconds_per_epoch"] = seconds[label]
    same = {label for label in profiles if _is_same(profiles[chosen], profiles[label])} - {chosen}
    return Comparison(
        chosen,
        VARIANTS.table([_origin(label, p) | found[label] for label, p in profiles.items()]),
        DIFFERENCES.table(_differences(chosen, found)),
        ACTIVITIES.table(_activities(chosen, profiles, found)),
        verdict(chosen, found, same),
        headline(chosen, found, same),
        _notes(profiles, found),
    )


def _baseline(profiles: Mapping[str, Profile], baseline: str | None) -> str:
    if len(profiles) < 2:  # noqa: PLR2004 - a comparison has two sides
        msg = f"{len(profiles)} recording given, and a comparison needs two"
        raise UsageError(msg, "See one recording alone with `gpuprof report`.")
    if baseline is None:
        return next(iter(profiles))
    return _known_label(profiles, baseline, "baseline")


def _known_label(profiles: Mapping[str, Profile], label: str, role: str) -> str:
    if label not in profiles:
        msg = f"{role} {label} is no label of the recordings"
        raise UsageError(msg, f"Labels: {', '.join(profiles)}.")
    return label


def _checked_seconds(
    profiles: Mapping[str, Profile], epoch_seconds: Mapping[str, float]
) -> Mapping[str, float]:
    for label, seconds in epoch_seconds.items():
        _known_label(profiles, label, "epoch seconds:")
        if not (isfinite(seconds) and seconds > 0):
            msg = f"epoch seconds of {label}: {seconds} is no time"
            raise UsageError(msg, "Give seconds above 0: --epoch-seconds LABEL=20.455.")
    return epoch_seconds


def _is_same(first: Profile, second: Profile) -> bool:
    """Whether two recordings are one and the same: the file, or every figure in it."""
    if first.origin.source.absolute() == second.origin.source.absolute():
        return True
    if not (first.has("activity_summary") and second.has("activity_summary")):
        return False
    rows, others = first.table("activity_summary"), second.table("activity_summary")
    return rows.num_rows > 0 and bool(rows.equals(others))


def _origin(label: str, profile: Profile) -> Metrics:
    return {"variant": label, "source": str(profile.origin.source), "tool": profile.origin.tool}


def _differences(baseline: str, found: Mapping[str, Metrics]) -> list[dict[str, Any]]:
    base = found[baseline]
    return [
        _difference(label, name, base[name], candidate[name])
        for label, candidate in found.items()
        for name in METRICS
        if label != baseline and base.get(name) is not None and candidate.get(name) is not None
    ]


def _difference(label: str, name: str, base: float, candidate: float) -> dict[str, Any]:
    difference = candidate - base
    return {
        "variant": label,
        "metric": name,
        "baseline": base,
        "candidate": candidate,
        "difference": difference,
        "percent": 100 * difference / base if base else None,
    }


def _activities(
    baseline: str, profiles: Mapping[str, Profile], found: Mapping[str, Metrics]
) -> list[dict[str, Any]]:
    """Outer joins: what only one side has is kept."""
    rows = {label: _rows_by_name(profile) for label, profile in profiles.items()}
    base = rows[baseline]
    return [
        {"variant": label, "activity_kind": key[0], "name": key[1]}
        | _joined(base.get(key), rows[label].get(key))
        | {
            "difference_ns": _time_difference(
                key, (base, rows[label]), (found[baseline], found[label])
            )
        }
        for label in profiles
        if label != baseline
        for key in base | rows[label]
    ]


def _rows_by_name(profile: Profile) -> dict[_Key, dict[str, Any]]:
    if not profile.has("activity_summary"):
        return {}
    rows = merged_runs(profile.table("activity_summary").to_pylist())
    return {(row["activity_kind"], row["name"]): row for row in rows}


def _joined(base: dict[str, Any] | None, candidate: dict[str, Any] | None) -> dict[str, Any]:
    status = "new" if base is None else "gone" if candidate is None else "common"
    return {
        "status": status,
        "baseline_calls": base and base["calls"],
        "candidate_calls": candidate and candidate["calls"],
        "baseline_ns": base and base["total_ns"],
        "candidate_ns": candidate and candidate["total_ns"],
    }


def _time_difference(
    key: _Key, sides: tuple[_Rows, _Rows], found: tuple[Metrics, Metrics]
) -> int | None:
    """Candidate's time less the baseline's; a missing row is 0 only where all were printed."""
    whole = "api_call_ns" if key[0] == "api" else "gpu_activity_ns"
    base, candidate = (
        rows[key]["total_ns"] if key in rows else 0 if known.get(whole) is not None else None
        for rows, known in zip(sides, found, strict=True)
    )
    return None if base is None or candidate is None else candidate - base


def _notes(profiles: Mapping[str, Profile], found: Mapping[str, Metrics]) -> tuple[str, ...]:
    """Each recording's notes under its label, and what no recording here can tell."""
    said: dict[str, list[str]] = {}
    for label, profile in profiles.items():
        for note in recording_notes(profile):
            said.setdefault(note, []).append(label)
    shared = [note for note, labels in said.items() if len(labels) == len(found)]
    own = [f"{', '.join(labels)}: {note}" for note, labels in said.items() if note not in shared]
    notes = [*own, *shared]
    untold = [label for label, known in found.items() if known.get("exposed_transfer_ns") is None]
    reasons = {cannot(profiles[label]) for label in untold} - {""}
    if untold:
        which = "" if len(untold) == len(found) else f" for {', '.join(untold)}"
        notes.append(f"Exposed transfer time is n/a{which}. {' '.join(sorted(reasons))}".strip())
    notes.append("One recording of each variant: how much runs differ by chance is not known.")
    return tuple(notes)
