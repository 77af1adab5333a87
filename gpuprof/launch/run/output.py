"""The program's output: shown as it comes, and kept."""

import os
import selectors
from dataclasses import dataclass, field
from typing import IO, Final

STDOUT: Final = 1
STDERR: Final = 2


@dataclass
class Output:
    """Where the program's output goes: to gpuprof's own streams and to a log.

    A stream whose reader has left (``| head``) is given up; the log goes on. A log that cannot
    be written is given up and its error kept; the program goes on.
    """

    log: IO[bytes]
    size: int = 0
    log_error: OSError | None = None
    _gone: set[int] = field(default_factory=set)

    def write(self, stream: int, data: bytes) -> None:
        """Pass bytes on as they are."""
        self.size += len(data)
        # Kept before it is shown: what was seen is there after a kill.
        if self.log_error is None:
            try:
                _write_all(self.log.fileno(), data)  # a full disk takes a part without an error
            except OSError as error:
                self.log_error = error
        if stream not in self._gone:
            try:
                _write_all(stream, data)
            except OSError:
                self._gone.add(stream)


def _write_all(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        try:
            remaining = remaining[os.write(descriptor, remaining) :]
        except BlockingIOError:
            # Another program made the terminal non-blocking.
            with selectors.DefaultSelector() as selector:
                selector.register(descriptor, selectors.EVENT_WRITE)
                selector.select()
