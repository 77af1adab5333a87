"""``gpuprof demo``: recordings of two placements, and the first commands to try on them."""

import contextlib
import io
import shlex
from importlib import resources
from pathlib import Path
from textwrap import fill
from types import SimpleNamespace
from typing import Final

from gpuprof.cli import cli
from gpuprof.show.output import prepare_folder, write_stdout

_RECORDINGS: Final = ("direct.gpuprof", "staged.gpuprof")
_WHAT_THEY_ARE: Final = (
    "Two GPUs train one model. In {folder}/direct.gpuprof they copy to each other directly, in "
    "{folder}/staged.gpuprof through the host. Both recordings were drawn by a script, and their "
    "times are invented."
)
_TOUR: Final = (
    ("How much slower is the second one, and where does the time go?",
     "compare {folder}/direct.gpuprof {folder}/staged.gpuprof"),
    ("What should change?", "report {folder}/staged.gpuprof"),
    ("What would a link of 40 GB/s win?", "predict {folder}/staged.gpuprof --what link=3us,40GB/s"),
)  # fmt: skip
_NEXT: Final = (
    ("view {folder}/staged.gpuprof", "the report as a page in the browser"),
    ("doctor", "what can be recorded on this machine"),
    ("help", "the documentation"),
)
_SHOWN_LINES: Final = 16


def demo(values: SimpleNamespace) -> None:
    """Write the recordings, run each command of the tour, and print how its answer begins."""
    folder = str(Path(values.folder))
    prepare_folder(folder, _is_demo, is_forced=True).save(_write)
    places = {"folder": shlex.quote(folder)}
    write_stdout(fill(_WHAT_THEY_ARE.format(**places), 80, break_long_words=False) + "\n")
    for question, words in _TOUR:
        command = words.format(**places)
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            cli.main(shlex.split(command), "gpuprof", standalone_mode=False)
        lines = answer.getvalue().splitlines()
        shown = [*lines[:_SHOWN_LINES], *(["..."] if len(lines) > _SHOWN_LINES else [])]
        write_stdout("\n".join(["", question, f"$ gpuprof {command}", *shown, ""]))
    commands = [(f"gpuprof {words.format(**places)}", meaning) for words, meaning in _NEXT]
    width = max(len(command) for command, _ in commands)
    lines = [f"  {command:<{width}}  {meaning}\n" for command, meaning in commands]
    write_stdout("\n" + "".join(["The commands above print more. Next:\n", *lines]))


def _is_demo(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} <= {*_RECORDINGS}


def _write(folder: Path) -> None:
    for name in _RECORDINGS:
        recording = resources.files("gpuprof") / "docs" / "recordings" / name
        (folder / name).write_bytes(recording.read_bytes())
