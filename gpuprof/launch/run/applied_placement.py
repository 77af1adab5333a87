"""A placement that `gpuprof place` wrote, to be applied while the program is recorded."""

from pathlib import Path
from typing import Final

from gpuprof.base import json_input
from gpuprof.base.errors import InputError, UsageError
from gpuprof.base.json_values import mapping

# Of the program, for `inject/gpuprof_placement.py`.
PLACEMENT_VARIABLE: Final = "GPUPROF_PLACEMENT"
_FORMAT: Final = "gpuprof-placement"
_RECORDER: Final = "tensorflow"


def placement_environment(path: Path | None, recorder: str) -> dict[str, str]:
    """The variable that names the file to the program; none without a file.

    Raises:
        UsageError: The recorder applies no placement.
        InputError: The file cannot be read, or `gpuprof place` did not write it.
    """
    if path is None:
        return {}
    if recorder != _RECORDER:
        msg = f"--placement needs the recorder tensorflow, not {recorder}"
        raise UsageError(msg, "Give --recorder tensorflow.")
    hint = "Write one with `gpuprof place RUN --output FILE`."
    try:
        document = mapping(json_input.load(path)) or {}
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg, hint) from error
    except ValueError as error:
        msg = f"{path} is not JSON: {error}"
        raise InputError(msg, hint) from error
    parts = [mapping(document.get(part)) for part in ("layers", "scopes")]
    devices = [device for part in parts if part is not None for device in part.values()]
    is_whole = None not in parts and all(isinstance(device, str) for device in devices)
    if document.get("format") != _FORMAT or not is_whole:
        msg = f"{path} is no placement"
        raise InputError(msg, hint)
    return {PLACEMENT_VARIABLE: str(path.resolve())}
