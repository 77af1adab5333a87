"""How many towers, from a file: ``towers.toml`` with a table ``[towers]``.

[towers]
n_gpus = 2          # or: devices = ["/GPU:0", "/GPU:1"]
"""

import tomllib
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from gpuprof.base.errors import InputError, UsageError

_TABLE: Final = "towers"


@dataclass(frozen=True)
class TowersConfig:
    """The table ``[towers]`` of a file.

    Args:
        n_gpus: How many towers; logical CPU devices stand in where there are too few GPUs.
        devices: Their devices by name; empty to take the first ``n_gpus``.
    """

    n_gpus: int = 1
    devices: tuple[str, ...] = ()


def read_config(path: str | Path) -> TowersConfig:
    """The table ``[towers]`` of a TOML file, which may hold other tables too.

    Raises:
        InputError: The file cannot be read, or is not valid TOML.
        UsageError: It has no such table, or one with an unknown key or a wrong value.
    """
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    except ValueError as error:
        msg = f"{path} is not valid TOML: {error}"
        raise InputError(msg) from error
    table = values.get(_TABLE)
    if not isinstance(table, dict):
        msg = f"{path} has no table [{_TABLE}]"
        raise UsageError(msg, f"[{_TABLE}]\nn_gpus = 2")
    keys = [field.name for field in fields(TowersConfig)]
    if unknown := [key for key in table if key not in keys]:
        near = get_close_matches(unknown[0], keys, n=1, cutoff=0)
        msg = f"{path}: [{_TABLE}] has no key {unknown[0]}"
        raise UsageError(msg, f"Did you mean {near[0]}?")
    devices = table.get("devices", [])
    if not isinstance(devices, list) or not all(isinstance(name, str) for name in devices):
        msg = f"{path}: devices must be a list of names"
        raise UsageError(msg, 'devices = ["/GPU:0", "/GPU:1"]')
    n_gpus = table.get("n_gpus", len(devices) or 1)
    if type(n_gpus) is not int or n_gpus < 1:
        msg = f"{path}: n_gpus must be a positive integer, not {n_gpus!r}"
        raise UsageError(msg)
    if devices and n_gpus != len(devices):
        msg = f"{path}: n_gpus is {n_gpus}, but devices names {len(devices)}"
        raise UsageError(msg, "Give only one of the two.")
    return TowersConfig(n_gpus, tuple(devices))
