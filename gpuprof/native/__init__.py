"""Compiled functions: columns of SQLite files and nsys reports, events of JSON, unions of times.

They are C without Python's API, called through ctypes, which lets other threads run meanwhile.
``pip install`` compiles them where a C compiler is, and wheels carry them; all else works without
them, and gives the same results. `library` says whether they are there.
"""

import ctypes
import os
from collections.abc import Mapping
from ctypes import addressof, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Final, Self

# Set to 0, as for a comparison, the other ways are taken although the functions are there.
SWITCH: Final = "GPUPROF_COMPILED"
# Functions that came last: what was built from older sources lacks them.
_NEWEST: Final = (
    "distances",
    "event_columns",
    "intersection_of",
    "report_texts",
    "scan_rows",
    "unions_of_keys",
    "walk_back",
)


def address(array: Any) -> int:
    """Where the values of an array are; ``array.ctypes`` takes four times as long."""
    try:
        return addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):  # read-only, empty, or with gaps
        return int(array.ctypes.data)


class ValueArray(c_void_p):
    """Where the values of an array are, all of the width that a function expects."""

    array: Any

    @classmethod
    def from_param(cls, array: Any) -> Self:
        """An argument of a function; a copy of an array that has gaps."""
        values = array if array.flags.c_contiguous else array.copy()
        argument = cls(address(values))
        argument.array = values  # which ctypes keeps until the function returns
        return argument


class IntegerArray(ctypes.Structure):
    """An array of signed integers of any width; as in ``arrays.h``."""

    _fields_ = (("values", c_void_p), ("width", c_size_t), ("count", c_size_t))

    @classmethod
    def from_param(cls, array: Any) -> Self:
        """An argument of a function; a copy of an array that has gaps."""
        values = array if array.flags.c_contiguous else array.copy()
        argument = cls(address(values), values.itemsize, len(values))
        argument.array = values  # as above
        return argument


# Addresses of starts and of ends, and how many intervals: numbers take less time than structures.
_SET: Final = (c_void_p, c_void_p, c_size_t)
# What functions take, other than statuses and numbers that fit an int.
_ARGUMENTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "unions_of_keys": (*[IntegerArray] * 3, c_size_t, *[ValueArray] * 2),
    "difference_of": (*_SET, *_SET, c_int64, c_void_p, c_size_t),
    **dict.fromkeys(("intersection_of", "union_of"), (*_SET, *_SET, c_void_p, c_size_t)),
    "covered_before": (*_SET, c_void_p),
    "covered_within": (*_SET, *[c_void_p] * 3, c_size_t, c_void_p),
    "pair_places": (IntegerArray, IntegerArray, ValueArray, ValueArray, c_size_t, ValueArray),
    "id_places": (IntegerArray, IntegerArray, ValueArray, c_size_t, ValueArray),
    "chain_ids": (
        *[IntegerArray] * 2,
        ValueArray,
        *[c_size_t] * 2,
        *[ValueArray] * 2,
    ),
    "take_chains": (
        *[IntegerArray] * 3,
        ValueArray,
        *[c_size_t] * 2,
        *[ValueArray] * 2,
        c_void_p,
    ),
    "open_ranges": (IntegerArray, IntegerArray, IntegerArray, c_int, ValueArray),
    "extents": (*[IntegerArray] * 5, ValueArray, ValueArray),
    "gather_groups": (IntegerArray, IntegerArray, c_size_t, ValueArray, IntegerArray),
    "replay": (c_void_p, c_void_p, c_void_p, c_int, c_void_p, IntegerArray, c_void_p),
    "walk_back": (*(c_void_p, c_void_p, IntegerArray, c_int64, ValueArray, ValueArray, c_size_t),),
    "texts_free": (c_void_p,),
    "texts_count": (c_void_p,),
    "texts_bytes": (c_void_p,),
    "texts_ends": (c_void_p,),
    "leaf_pages": (c_void_p, c_uint32, c_void_p, c_void_p),
    "decode_leaves": (*[c_void_p] * 2, c_size_t, c_void_p, c_size_t, *[c_void_p] * 2),
    "distances": (ValueArray, c_size_t, c_size_t, ValueArray, ValueArray),
    "spread_meanings": (ValueArray, c_size_t, ValueArray, ValueArray),
    "scan_free": (c_void_p,),
    "scan_is_complete": (c_void_p,),
    "scan_piece": (c_void_p, c_char_p, c_size_t, c_void_p),
    "scan_members": (c_void_p, c_void_p),
    "scan_rows": (c_void_p, c_size_t),
    "event_places": (ValueArray, c_size_t, c_void_p, c_void_p, c_void_p),
    "event_columns": (*[ValueArray] * 3, c_size_t, ValueArray, c_size_t, c_void_p),
}
_RETURNED: Final[Mapping[Any, tuple[str, ...]]] = {
    c_void_p: ("texts_new", "texts_bytes", "texts_ends", "scan_new", "scan_rows", "scan_members"),
    c_size_t: ("texts_count", "most_rows", "distances", "event_places"),
    c_int64: ("difference_of", "intersection_of", "union_of", "walk_back"),
}


@cache
def library() -> ctypes.CDLL | None:
    """The compiled functions; None where they were not built, or are switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    folder = Path(__file__).parent
    files = (folder / f"_core{suffix}" for suffix in EXTENSION_SUFFIXES)
    file = next((file for file in files if file.exists()), None)
    if file is None:
        return None
    try:
        functions = ctypes.CDLL(str(file))
    except OSError:
        return None  # built for another machine
    if not all(hasattr(functions, name) for name in _NEWEST):
        return None
    # What functions take and return: without it, ctypes would cut pointers in half.
    for name, arguments in _ARGUMENTS.items():
        getattr(functions, name).argtypes = arguments
    for kind, names in _RETURNED.items():
        for name in names:
            getattr(functions, name).restype = kind
    return functions
