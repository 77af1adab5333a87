r"""A plan from a file, ``sweep.toml``, or from words and a grid.

name = "placements"                 # of the folder under gpuprof-sweeps
command = ["scripts/deepconn.py", "--placement", "{placement}", "--batch-size", "{batch}"]
repeat = 3
warmup = 1                          # runs of each cell that do not count
skipped_epochs = 1                  # epochs at the start of each run that do not count; 0: all do,
                                    # no key: all but the warm-up that is found
recorder = "auto"                   # or "none", which only times
baseline = { placement = "single" }
seed = 7                            # of the order of runs

[grid]
placement = ["single", "dual"]
batch = [64, 128]

[figures]                           # read from what the program prints
loss = 'loss (\S+)$'
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpuprof.base.errors import InputError, UsageError
from gpuprof.readers.inputs import check_ends
from gpuprof.sweeps.plan import Plan, near

_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "name": (str, "a string"),
    "command": (list, "a list of words"),
    "repeat": (int, "an integer"),
    "warmup": (int, "an integer"),
    "skipped_epochs": (int, "an integer"),
    "recorder": (str, "a string"),
    "baseline": (dict, "a table"),
    "seed": (int, "an integer"),
    "grid": (dict, "a table"),
    "figures": (dict, "a table"),
}
_PLAIN: Final = ("repeat", "warmup", "skipped_epochs", "recorder", "seed", "figures")


def read_sweep_file(path: Path) -> Plan:
    """The plan in a file.

    Raises:
        InputError: It cannot be read, or is not valid TOML.
        UsageError: A key is unknown or of the wrong kind, or the plan contradicts itself.
    """
    check_ends(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    except RecursionError as error:
        msg = f"{path} is nested too deeply"
        raise InputError(msg) from error
    except ValueError as error:  # TOML, or its encoding
        msg = f"{path} is not valid TOML: {error}"
        raise InputError(msg) from error
    try:
        _check(values)
        return Plan(
            command=tuple(map(value_text, values["command"])),
            axes={name: tuple(map(value_text, axis)) for name, axis in values["grid"].items()},
            baseline={
                name: value_text(value) for name, value in values.get("baseline", {}).items()
            },
            name=values.get("name", path.stem),
            **{key: values[key] for key in _PLAIN if key in values},
        )
    except UsageError as error:
        msg = f"{path}: {error.message}"
        raise UsageError(msg, error.hint) from error


def _check(values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if key not in _KINDS:
            msg = f"unknown key {key}"
            raise UsageError(msg, near(key, _KINDS))
        kind, words = _KINDS[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            msg = f"{key} must be {words}"
            raise UsageError(msg)
    for key in ("command", "grid"):
        if key not in values:
            msg = f"{key} is missing"
            raise UsageError(msg, f"{key} is {_KINDS[key][1]}.")
    for name, axis in values["grid"].items():
        if not isinstance(axis, list):
            msg = f"the axis {name} must be a list of values"
            raise UsageError(msg, f"{name} = [{axis!r}]")


def value_text(value: object) -> str:
    """A value of an axis as a word of the command: ``true`` and ``false`` of flags."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def planned(
    words: tuple[str, ...],
    axes: Mapping[str, tuple[str, ...]] | None,
    options: Mapping[str, Any],
    *,
    grid: str,
    advice: str,
) -> Plan:
    """The plan of a sweep file, or of a command and its grid.

    Args:
        words: The name of a file in TOML, or a command with placeholders.
        axes: Each axis and its values.
        options: Fields of the plan in place of the file's; None or empty for those not given.
        grid: What the user calls the axes.
        advice: How to give some.

    Raises:
        GpuprofError: The file cannot be read, or the arguments contradict each other.
    """
    changes = {name: value for name, value in options.items() if value not in (None, {})}
    if len(words) == 1 and words[0].endswith(".toml"):
        if axes is not None:
            msg = f"{grid} cannot be combined with {words[0]}"
            raise UsageError(msg, "Add the axis to [grid] in the file.")
        return replace(read_sweep_file(Path(words[0])), **changes)
    if not axes:
        msg = "the sweep has no grid"
        raise UsageError(msg, advice)
    program = next((word for word in words if word.endswith(".py")), *words[:1] or ["sweep"])
    return Plan(words, axes, name=Path(program).stem, **changes)
