"""Compiled functions: columns of SQLite files and nsys reports, events of JSON, unions of times.

They are C without Python's API, called through ctypes, which lets other threads run meanwhile.
``pip install`` compiles them where a C compiler is, and wheels carry them; all else works without
them, and gives the same results. `library` says whether they are there.
"""

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

# Set to 0, as for a comparison, the other ways are taken although the functions are there.
SWITCH: Final = "GPUPROF_COMPILED"
# Functions that came last: what was built from older sources lacks them.
_NEWEST: Final = ("report_texts", "scan_rows", "walk_back")


@cache
def library() -> ctypes.CDLL | None:
    """The compiled functions; None where they were not built, or are switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    folder = Path(__file__).parent
    files = (folder / f"_core{suffix}" for suffix in EXTENSION_SUFFIXES)
    for file in files:
        if file.exists():
            try:
                functions = ctypes.CDLL(str(file))
            except OSError:
                return None  # built for another machine
            return functions if all(hasattr(functions, name) for name in _NEWEST) else None
    return None
