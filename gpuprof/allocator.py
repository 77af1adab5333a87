"""Settings of the C library's allocator, for a process that reads large recordings.

Columns and results are arrays of some megabytes that come and go. By default glibc gives each back
to the system, which clears its pages for the next one: on virtual machines that takes longer than
to compute what is in them. What was freed is kept for the next array instead.
"""

import ctypes
import sys
from contextlib import suppress
from typing import Final

# As in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
# Larger arrays are given back.
_LARGEST: Final = 1 << 30


def keep_freed_memory() -> None:
    """Keep freed memory for the arrays that follow, before NumPy is imported.

    Nothing happens where the C library is not glibc.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # musl has no such function
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in (
            (_MMAP_THRESHOLD, _LARGEST),
            (_TRIM_THRESHOLD, _LARGEST),
            # What one thread frees serves the others, too. Threads that a library starts before
            # have memory of their own, which others then take turns with.
            (_ARENA_MAX, 1),
        ):
            mallopt(parameter, value)
