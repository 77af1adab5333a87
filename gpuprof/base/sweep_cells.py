"""Where a sweep keeps the runs of its cells, for all that reads them.

sweep.json         the plan, which makes a folder one of a sweep
runs/CELL/NUMBER   a run of a cell, as `gpuprof record` leaves it; warm-ups have other names
"""

import re
from pathlib import Path
from typing import Any, Final

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError
from gpuprof.base.json_input import integer, mapping, texts
from gpuprof.base.manifest import MANIFEST, is_run, read_manifest
from gpuprof.base.secrets import masked_words

PLAN: Final = "sweep.json"
FORMAT: Final = "gpuprof-sweep"
RUNS: Final = "runs"
# A run, its cell, `RUNS` and the folder of the sweep.
_DEPTH: Final = 3
_NUMBER: Final = re.compile(r"[1-9][0-9]*")
_DIGITS: Final = re.compile(r"([0-9]+)")


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (folder / PLAN).is_file()


def read_plan(path: Path) -> dict[str, Any]:
    """The plan of a sweep's folder: the fields of `sweeps.plan.Plan` as its JSON has them.

    Secrets in the command are masked; the seed is that of the order of its runs.

    Raises:
        CorruptFileError: It is not the plan of a sweep.
    """
    try:
        document = mapping(json_input.load(path)) or {}
        seed = integer(document.get("seed"))
    except (OSError, ValueError, OverflowError) as error:
        msg = f"{path} cannot be read as the plan of a sweep"
        raise CorruptFileError(msg, "Was the file edited? --force starts a new sweep.") from error
    plan = mapping(document.get("plan"))
    if document.get("format") != FORMAT or plan is None or seed is None or seed < 0:
        msg = f"{path} is not the plan of a sweep"
        raise CorruptFileError(msg, "Was the file edited? --force starts a new sweep.")
    return plan | {
        "seed": seed,
        "command": [*masked_words(texts(plan.get("command")) or ())],
        "axes": mapping(plan.get("axes")) or {},
        "baseline": mapping(plan.get("baseline")) or {},
    }


def skipped_epochs_of(run: Path) -> int | None:
    """How many epochs at the start of a run its sweep leaves out.

    None where these are the warm-up that is found, as for a run of no sweep.

    Raises:
        CorruptFileError: The plan of the sweep cannot be read.
    """
    places = run.absolute().parents
    if len(places) < _DEPTH or places[1].name != RUNS or not is_sweep(places[2]):
        return None
    return integer(read_plan(places[2] / PLAN).get("skipped_epochs"))


def cell_runs(cell: Path) -> tuple[Path, ...]:
    """The runs of a cell that ended well, in their order; none in a folder that is no cell."""
    if not cell.is_dir() or is_run(cell):
        return ()
    numbered = {int(run.name): run for run in cell.iterdir() if _NUMBER.fullmatch(run.name)}
    ended = [run for _, run in sorted(numbered.items()) if (run / MANIFEST).is_file()]
    return tuple(run for run in ended if not read_manifest(run).exit_status)


def cells_of(folder: Path) -> dict[str, Path]:
    """The cells of a sweep that have runs which ended well, by name, the baseline's first.

    Raises:
        CorruptFileError: The plan or a run's manifest cannot be read.
    """
    baseline = read_plan(folder / PLAN)["baseline"]
    # ``batch=64`` comes before ``batch=128``.
    places = sorted(
        folder.glob(f"{RUNS}/*"),
        key=lambda place: [
            (part.isdecimal(), int(part) if part.isdecimal() else 0, part)
            for part in _DIGITS.split(place.name)
        ],
    )
    runs = {place: ended for place in places if (ended := cell_runs(place))}
    cells = {read_manifest(ended[0]).variant or place.name: place for place, ended in runs.items()}
    # A cell's name is ``placement=dual,batch=64``.
    marks = [f",{axis}={value}," for axis, value in baseline.items()]
    first = sorted(cells, key=lambda name: not all(mark in f",{name}," for mark in marks))
    return {name: cells[name] for name in first}
