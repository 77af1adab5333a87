"""What a step of a TensorFlow program copies between devices, in a sentence."""

from collections import Counter
from typing import Any

from gpuprof.analyses.tensor_transfers import per_step, tensor_transfers
from gpuprof.base.units import counted, format_bytes, say_share
from gpuprof.model.profile import Profile


def tensor_line(profile: Profile) -> str:
    """Say how many copies a step makes, of how many bytes, for what, and most of them where to.

    Bytes are unknown where the size of a copy is, or where collective operations move data.
    """
    copies = profile.once(tensor_transfers).to_pylist()
    rows = profile.once(per_step).to_pylist()
    if not rows:
        return f"No training step was seen whole. {_ways(copies)}"
    (step,) = rows
    steps = counted(step["steps"], "step", "steps")
    if step["copies_per_step"] is None:
        return (
            "A step moves data between devices in collective operations, whose bytes TensorFlow"
            f" does not show ({steps})"
        )
    if not step["copies_per_step"]:
        return f"A step copies nothing between devices ({steps})"
    calls, size = step["copies_per_step"], step["bytes_per_step"]
    copied = f"{calls:,.4g} {'copy' if calls == 1 else 'copies'}"
    if size is None:
        unknown = f"{step['unknown_copies_per_step']:,.4g} of them of unknown size"
        return f"A step makes {copied} between devices, {unknown} ({steps}). {_ways(copies)}"
    of_gradients = step["gradient_bytes_per_step"]
    gradients = f", {say_share(of_gradients / size)} of it for gradients" if of_gradients else ""
    return (
        f"A step copies {format_bytes(size)} between devices in {copied} ({steps}){gradients}."
        f" {_ways(copies)}"
    )


def _ways(copies: list[dict[str, Any]]) -> str:
    """From which device most goes to which: of the bytes where these are known, else of copies."""
    if not copies:
        return "Nothing is copied between devices"
    has_bytes = any(row["bytes_per_step"] for row in copies)
    column = "bytes_per_step" if has_bytes else "calls"
    amounts = Counter[tuple[str, str]]()
    for row in copies:
        amounts[row["src_device"], row["dst_device"]] += row[column] or 0
    ((src, dst), amount), *_ = amounts.most_common(1)
    share = say_share(amount / max(amounts.total(), 1))
    unit = "bytes" if has_bytes else "copies"
    return f"The largest part goes from {src} to {dst}: {share} of the {unit}"
