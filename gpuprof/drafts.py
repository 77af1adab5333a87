"""What is being written, which must not stay behind when the work ends early."""

import atexit
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path


@contextmanager
def removed_at_last(draft: Path) -> Iterator[Path]:
    """Remove a file or folder after its use, or at the process's end if that comes first."""
    remove = partial(_remove, draft)
    atexit.register(remove)
    try:
        yield draft
    finally:
        remove()
        atexit.unregister(remove)


def _remove(draft: Path) -> None:
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)
