"""What a process that is gpuprof's alone does first and last."""

import atexit
import ctypes
import gc
import os
import sys
import threading
from contextlib import suppress
from typing import Final

_ROWS_BEFORE_COLLECTING: Final = 100_000
# As in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
# Larger arrays are given back one by one: few come and go, and what follows does not fill them.
_LARGEST: Final = 1 << 24
# So much lies freed at most.
_MOST_FREED: Final = 1 << 30


def prepare() -> None:
    """Keep Python and its libraries from work that no command needs, before NumPy is imported.

    Columns and results are arrays of some megabytes that come and go. By default glibc gives each
    back to the system, which clears its pages for the next one: on virtual machines that takes
    longer than to compute what is in them. So freed memory is kept, where the C library is glibc.
    """
    sys.meta_path.insert(0, _NoPandas)
    # Rows of tables hold no cycles that the collector would find: it costs a tenth of the time
    # where there are twenty thousand of them.
    gc.set_threshold(_ROWS_BEFORE_COLLECTING)
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # musl has no such function
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in (
            (_MMAP_THRESHOLD, _LARGEST),
            (_TRIM_THRESHOLD, _MOST_FREED),
            # What one thread frees serves the others, too. Threads that a library starts before
            # have memory of their own, which others then take turns with.
            (_ARENA_MAX, 1),
        ):
            mallopt(parameter, value)


def give_back_freed_memory() -> None:
    """Give back to the system what lies freed between arrays, where the C library can."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def end(status: object) -> None:
    """End the process once what is temporary is removed; return where Python must do it.

    By itself Python takes apart what modules and libraries hold, piece by piece, before the system
    frees all of it at once: 0.1 s, and more the larger the recording is.

    Args:
        status: The exit status, if it is a number.
    """
    # Threads, and profilers of Python, have something left to do.
    is_awaited = threading.active_count() > 1 or sys.gettrace() or sys.getprofile()
    if os.name != "posix" or is_awaited or not isinstance(status, int):
        return
    with suppress(AttributeError, OSError, ValueError):
        atexit._run_exitfuncs()  # noqa: SLF001 - os._exit would leave temporary files behind
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class _NoPandas:
    """Lets pyarrow and DuckDB take pandas for not installed.

    Both import it as soon as they are handed a list or a table, only to see that it is none of
    its kinds: 0.3 s, more than most files take to be read. No command makes a DataFrame.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """End an import of pandas; leave any other to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
