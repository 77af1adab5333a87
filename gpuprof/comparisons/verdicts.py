"""What a comparison comes to, in a sentence or two."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from gpuprof.metrics import COMPONENTS, TRANSFER_COMPONENTS, Metrics
from gpuprof.units import NS_PER_S, format_bytes, format_count, say_ns, say_share

_WORDS: Final = {
    "kernel_ns": "kernels",
    "peer_transfer_ns": "PtoP",
    "htod_ns": "HtoD",
    "dtoh_ns": "DtoH",
    "managed_transfer_ns": "migrations of managed memory",
    "local_copy_ns": "local copies",
    "memset_ns": "memsets",
    "unknown_copy_ns": "copies of unknown kind",
}
_NAMED: Final = 3  # Candidates that a sentence names; the table has all.
_SAME: Final = 0.05  # Kernel times closer than this are called the same, with the figure.
_NOTHING: Final = 0.005  # A smaller difference has no cause worth naming.
_PRACTICALLY_ALL: Final = 0.9
_MOST: Final = 0.5

Found = Mapping[str, Metrics]
Labels = Sequence[str]


def verdict(baseline: str, found: Found, same: Collection[str] = ()) -> str:
    """Say how much the variants differ and what makes the difference.

    Args:
        baseline: Label of the variant that the others are compared with.
        found: Each variant's metrics, as `gpuprof.metrics.metrics` gives them.
        same: Labels of candidates that hold the very recording of the baseline.
    """
    said: dict[Callable[[str, Labels, Found], str], list[str]] = {}
    for label in found:
        if label != baseline:
            basis = _same if label in same else _basis(found[baseline], found[label])
            said.setdefault(basis, []).append(label)
    return " ".join(say(baseline, labels, found) for say, labels in said.items())


def headline(baseline: str, found: Found, same: Collection[str] = ()) -> str:
    """The verdict's core in one short line: the candidate that differs most, and why."""
    base = found[baseline]
    labels = [label for label in found if label != baseline and label not in same]
    whole = [label for label in labels if _basis(base, found[label]) in {_whole, _implied}]
    if whole:
        base_ns = _gpu_ns(base) or 0
        (label,) = _largest(whole, lambda x: (_gpu_ns(found[x]) or 0) - base_ns, 1)
        change = _change((_gpu_ns(found[label]) or 0) - base_ns, base_ns)
        return f"{label} takes {change} GPU time than {baseline}{_why(base, found[label])}"
    counted = [label for label in labels if _basis(base, found[label]) is _per_step]
    if counted:
        (label,) = _largest(counted, lambda x: found[x]["peer_transfer_calls_per_step"], 1)
        return f"In each step {_step_copies(label, found[label])} between devices"
    return f"{baseline} and {_list(labels or sorted(same))}"


def _why(base: Metrics, candidate: Metrics) -> str:
    if not _has("gpu_activity_ns", base, candidate):
        return ", as printed shares imply"
    if abs(_growth("gpu_activity_ns", base, candidate)) < _NOTHING:
        return ""
    size, top = _cause(base, candidate)
    return f": {size} is {_WORDS[top]}"


def _basis(base: Metrics, candidate: Metrics) -> Callable[[str, Labels, Found], str]:
    """The best figures that both sides have, as the function that puts them into words."""
    if _has("gpu_activity_ns", base, candidate):
        return _whole
    if _gpu_ns(base) and _gpu_ns(candidate):
        return _implied
    if _has("peer_transfer_calls_per_step", base, candidate):
        return _per_step
    return _unknown


def _has(name: str, *sides: Metrics) -> bool:
    return all(side.get(name) is not None for side in sides)


def _gpu_ns(found: Metrics) -> int | None:
    whole: int | None = found["gpu_ns"]
    return whole


def _same(baseline: str, labels: Labels, _: Found) -> str:
    are = "is" if len(labels) == 1 else "are"
    return f"{_list(labels)} {are} the same recording as {baseline}: nothing differs."


def _unknown(baseline: str, labels: Labels, _: Found) -> str:
    return (
        f"{_list(labels)} and {baseline} have no figure in common that tells which is slower:"
        " neither GPU time nor copies per step are known on both sides."
    )


def _whole(baseline: str, labels: Labels, found: Found) -> str:
    base = found[baseline]
    named = _largest(
        labels, lambda label: found[label]["gpu_activity_ns"] - base["gpu_activity_ns"]
    )
    more = _list([_more(label, base, found[label]) for label in named])
    causes = _causes(baseline, named, found)
    return f"Against {baseline}, {more}{_others(labels, named)}. {causes}"


def _more(label: str, base: Metrics, candidate: Metrics) -> str:
    """``dual takes 2.045 s (10.0 %) more per epoch and 10.84 s (27.5 %) more GPU time``."""
    gpu = _change(candidate["gpu_activity_ns"] - base["gpu_activity_ns"], base["gpu_activity_ns"])
    if not _has("seconds_per_epoch", base, candidate):
        return f"{label} takes {gpu} GPU time"
    difference = candidate["seconds_per_epoch"] - base["seconds_per_epoch"]
    epoch = _change(difference * NS_PER_S, base["seconds_per_epoch"] * NS_PER_S)
    return f"{label} takes {epoch} per epoch and {gpu} GPU time"


def _change(difference: float, base: float) -> str:
    direction = "more" if difference >= 0 else "less"
    share = f" ({say_share(abs(difference) / base)})" if base else ""
    return f"{say_ns(abs(difference))}{share} {direction}"


def _causes(baseline: str, labels: Labels, found: Found) -> str:
    """What the kernels did, then what makes each difference: one clause where all agree."""
    base = found[baseline]
    kernels = _kernels(base, [found[label] for label in labels])
    real = [x for x in labels if abs(_growth("gpu_activity_ns", base, found[x])) >= _NOTHING]
    if not real:
        return f"{kernels}, and no difference is large enough to name its cause."
    causes = {label: _cause(base, found[label]) for label in real}
    amounts = [f"{_amount(causes[x][1], base, found[x])} in {x}" for x in real]
    if len(set(causes.values())) == 1:
        size, top = causes[real[0]]
        return f"{kernels}, and {size} is {_WORDS[top]}: {_list(amounts)}."
    parts = [
        f"{causes[label][0]} is {_WORDS[causes[label][1]]}, {amount}"
        for label, amount in zip(real, amounts, strict=True)
    ]
    return f"{kernels}; {'; '.join(parts)}."


def _growth(name: str, base: Metrics, candidate: Metrics) -> float:
    """Difference as a share of the baseline; all of it where the baseline is 0."""
    difference: float = candidate[name] - base[name]
    return difference / base[name] if base[name] else float(bool(difference))


def _kernels(base: Metrics, candidates: Sequence[Metrics]) -> str:
    growths = [_growth("kernel_ns", base, candidate) for candidate in candidates]
    if max(map(abs, growths)) <= _SAME:
        return f"Kernel time is the same within {say_share(max(map(abs, growths)))}"
    return f"Kernel time changes by {_list([f'{growth * 100:+.1f} %' for growth in growths])}"


def _parts(base: Metrics, candidate: Metrics) -> dict[str, int]:
    return {name: candidate[name] - base[name] for name in COMPONENTS}


def _cause(base: Metrics, candidate: Metrics) -> tuple[str, str]:
    """How much of the difference one component makes, in words, and which it is."""
    whole = candidate["gpu_activity_ns"] - base["gpu_activity_ns"]
    parts = _parts(base, candidate)
    top = max(parts, key=lambda name: parts[name] / whole)
    share = parts[top] / whole
    if share >= _PRACTICALLY_ALL:
        return "practically the whole difference", top
    return ("most" if share >= _MOST else "the largest part") + " of the difference", top


def _amount(top: str, base: Metrics, candidate: Metrics) -> str:
    """``10.10 s of 10.84 s``, and how much all transfers make where they are not the cause."""
    parts = _parts(base, candidate)
    whole = candidate["gpu_activity_ns"] - base["gpu_activity_ns"]
    said = f"{say_ns(abs(parts[top]))} of {say_ns(abs(whole))}"
    if top in TRANSFER_COMPONENTS:
        return said
    moved = sum(parts[name] for name in TRANSFER_COMPONENTS)
    return f"{said} (transfers: {say_ns(moved)})"


def _implied(baseline: str, labels: Labels, found: Found) -> str:
    """From excerpts: the totals that the printed shares imply, and the peer rows listed."""
    base_ns = _gpu_ns(found[baseline]) or 0
    named = _largest(labels, lambda label: (_gpu_ns(found[label]) or 0) - base_ns)
    more = [
        f"{label} takes {_change((_gpu_ns(found[label]) or 0) - base_ns, base_ns)} GPU time"
        f" ({say_ns(_gpu_ns(found[label]))})"
        for label in named
    ]
    return (
        f"By the totals that the printed shares imply, against {baseline} ({say_ns(base_ns)})"
        f" {_list(more)}{_others(labels, named)}. {_listed([baseline, *named], found)}"
    )


def _listed(labels: Labels, found: Found) -> str:
    told = [label for label in labels if found[label].get("peer_transfer_ns")]
    untold = [label for label in labels if found[label].get("peer_transfer_ns") is None]
    times = [
        f"{say_ns(found[label]['peer_transfer_ns'])} ({say_share(found[label]['peer_share'])})"
        f" in {label}"
        for label in told
    ]
    rest = f"for {_list(untold)} it is not listed" if untold else ""
    parts = [f"PtoP takes {_list(times)}" if times else "", rest]
    said = "; ".join(part for part in parts if part)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _per_step(baseline: str, labels: Labels, found: Found) -> str:
    """From recordings that count copies between devices and cannot time them."""
    named = _largest(labels, lambda label: found[label]["peer_transfer_calls_per_step"])
    counts = [_step_copies(label, found[label]) for label in (baseline, *named)]
    behind = [part for label in named for part in _scope(label, found[label])]
    return (
        f"In each step {_list(counts)} between devices{_others(labels, named)}."
        f" {_list(behind)}{'; what' if behind else 'What'} the copies would take between GPUs"
        " is not known from this recording."
    )


def _scope(label: str, found: Metrics) -> list[str]:
    """``99.5 % of dual's bytes are for gradients of item_tower``."""
    scope, size = found.get("largest_scope"), found.get("peer_transfer_bytes_per_step")
    if not (scope and size):
        return []
    part = say_share(found["largest_scope_bytes_per_step"] / size)
    what = "gradients" if found["largest_scope_is_gradient"] else "the forward pass"
    return [f"{part} of the bytes in {label} go to {what} of {scope}"]


def _step_copies(label: str, found: Metrics) -> str:
    calls = found["peer_transfer_calls_per_step"]
    if not calls:
        return f"{label} copies nothing"
    size = found.get("peer_transfer_bytes_per_step")
    moved = "an unknown amount" if size is None else format_bytes(size)
    return f"{label} copies {moved} in {format_count(calls)} copies"


def _largest(labels: Labels, size: Callable[[str], float], count: int = _NAMED) -> list[str]:
    """The few labels with the largest differences, in their own order."""
    chosen = sorted(labels, key=lambda label: -abs(size(label)))[:count]
    return [label for label in labels if label in chosen]


def _others(labels: Labels, named: Labels) -> str:
    left = len(labels) - len(named)
    return f"; {left} others are in the table" if left else ""


def _list(words: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
