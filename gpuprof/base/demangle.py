"""C++ names as their authors wrote them, by the C++ library that the machine has anyway."""

import ctypes
import ctypes.util
import re
from collections.abc import Callable
from functools import cache
from typing import Final

_MANGLED: Final = re.compile(r"^_Z[A-Za-z0-9_$.]+$")
# The library reads names recursively: no name of a compiler's comes near this.
_LONGEST_NAME: Final = 16_384


def demangled(name: str) -> str:
    """A name without C++'s mangling; itself where it has none or nothing here can read it."""
    if not is_mangled(name) or len(name) > _LONGEST_NAME:
        return name
    read = _library()
    return name if read is None else read(name) or name


def is_mangled(name: str) -> bool:
    """Whether a name is one that a C++ compiler made up for the linker."""
    return _MANGLED.match(name) is not None


@cache
def _library() -> Callable[[str], str | None] | None:
    for library in ("stdc++", "c++abi", "c++"):
        path = ctypes.util.find_library(library)
        if path is None:
            continue
        try:
            return _reader(ctypes.CDLL(path))
        except (OSError, AttributeError):
            continue
    return None


def _reader(library: ctypes.CDLL) -> Callable[[str], str | None]:
    function = library["__cxa_demangle"]
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)

    def read(name: str) -> str | None:
        address = function(name.encode(), None, None, None)
        if not address:
            return None
        text = ctypes.string_at(address).decode(errors="replace")
        free(address)
        return text

    return read
