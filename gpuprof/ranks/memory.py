"""How much memory other processes take."""

import importlib.util
from pathlib import Path
from typing import Final

from gpuprof.base.errors import MissingToolError

_STATUS: Final = "/proc/{}/status"
# What a process reads through the page cache is not its own.
_PRIVATE: Final = ("RssAnon:", "RssShmem:")
_MOST: Final = "VmHWM:"


def check_measurable() -> None:
    """See that the memory of other processes can be measured here.

    Raises:
        MissingToolError: It cannot.
    """
    if not _fields("self") and importlib.util.find_spec("psutil") is None:
        msg = "--memory-limit needs the package psutil on this system"
        raise MissingToolError(msg, "Install it: pip install psutil")


def memory_bytes(process_id: int | str) -> int:
    """The memory that a process takes now beside files that it reads; 0 where it has ended."""
    fields = _fields(process_id)
    if fields:
        return sum(fields.get(name, 0) for name in _PRIVATE)
    try:
        psutil = importlib.import_module("psutil")
        rss_bytes: int = psutil.Process(process_id).memory_info().rss
    except Exception:  # noqa: BLE001 - it is not installed, or the process has ended
        return 0
    return rss_bytes


def peak_bytes() -> int:
    """The most memory that this process has taken so far; 0 where the system does not say."""
    return _fields("self").get(_MOST, 0)


def _fields(process_id: int | str) -> dict[str, int]:
    """The fields of a process' memory as Linux names them, in bytes; empty where there are none."""
    try:
        lines = Path(_STATUS.format(process_id)).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    return {name: int(kibibytes) * 1024 for name, kibibytes, _ in sizes}
