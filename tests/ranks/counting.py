"""Work that tests of the engine do: it counts lines of text files, and fails as they tell it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, InputError


@dataclass(frozen=True)
class Counting:
    """Keeps the place, the rank and the number of lines of each file, in the order of merges."""

    key: str = "lines"
    pause_s: float = 0.0

    def reduce(self, file):
        if not file.path.exists():
            message = f"{file.path}: no such file"
            raise InputError(message)
        text = file.path.read_text()
        time.sleep(self.pause_s)
        _obey(file.path, text)
        counts = {"place": file.place, "rank": file.rank, "lines": text.count("\n")}
        return {"counts": pa.Table.from_pylist([counts]), "shape": _shape(str(file.place))}

    def merge(self, partials):
        shapes = [partial["shape"]["shape"][0].as_py() for partial in partials]
        return {
            "counts": pa.concat_tables([partial["counts"] for partial in partials]),
            "shape": _shape(f"({' '.join(shapes)})"),
        }


class Failing(Counting):
    """Cannot merge."""

    def merge(self, partials):
        raise ZeroDivisionError(len(partials))


def _obey(path, text):
    words = text.split()
    if "corrupt" in words:
        message = f"{path}: broken at byte 7"
        raise CorruptFileError(message)
    if "nothing" in words:
        message = f"{path}: nothing was recorded"
        raise EmptyRecordingError(message)
    if "bug" in words:
        {}["oops"]
    if "die" in words:
        os.kill(os.getpid(), signal.SIGKILL)
    if "grow" in words:
        with Path(path).open("a") as file:
            file.write("more\n")
    if "hog" in words:
        bytearray(400_000_000)[::4096] = b"x" * len(range(0, 400_000_000, 4096))
        time.sleep(1)


def _shape(text):
    """How partial results were merged: ``((0 1 2 3) (4 5))``."""
    return pa.table({"shape": [text]})
