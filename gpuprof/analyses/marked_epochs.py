"""How long each epoch took that the script marked, by the clock of the host."""

from typing import Final

import pyarrow as pa

from gpuprof.base.units import NS_PER_S
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, Column, Schema

MARKED_EPOCHS: Final = Schema(
    "marked_epochs",
    "one epoch as the script marked it",
    {
        "epoch": Column(INT, "1", "0 for the first.", required=True),
        "wall_ns": Column(INT, "ns", "By the clock of the host; null where it is unknown."),
        "steps": Column(INT, "1", "Steps marked within it; null where none were marked."),
        "step_wall_ns": Column(INT, "ns", "Null where unknown, or where no steps were marked."),
    },
)


def marked_epochs(profile: Profile) -> pa.Table:
    """List the marked epochs; the first ones are often longer, as they warm up.

    Args:
        profile: Needs ``epochs``, which a run of ``gpuprof record`` holds whose script marks them.

    Returns:
        Columns as in `MARKED_EPOCHS`.
    """
    rows = profile.table("epochs").sort_by("epoch").to_pylist()
    for row in rows:
        if row["seconds"] is not None:
            wall_ns = row["seconds"] * NS_PER_S
            row["wall_ns"] = int(wall_ns + 0.5)
            row["step_wall_ns"] = int(wall_ns / row["steps"] + 0.5) if row["steps"] else None
    return MARKED_EPOCHS.table(rows)


ANALYSIS: Final = Analysis("Marked epochs", MARKED_EPOCHS, ("epochs",), marked_epochs, reads())
