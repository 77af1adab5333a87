"""Runs first in every Python that inherits PYTHONPATH from a recording; then the user's own one.

It waits until the script imports the framework to record, so that other programs pay nothing. It
must work in any Python 3.8 or newer, without gpuprof installed, and must never break the script.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

from gpuprof_importing import when_imported

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_users_own() -> None:
    """Run the sitecustomize that this one hides."""
    elsewhere = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _say(run_dir: str, name: str, text: str = "") -> None:
    """Add a text to a file of the run; one that is gone or full does not stop the program."""
    try:
        with open(os.path.join(run_dir, name), "a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pass


def _tell_of_isolated_children(run_dir: str, recorder: str, subprocess: Any) -> None:
    """Note children that load no recorder because they ask for it."""
    start = subprocess.Popen.__init__

    def init(self: Any, args: Any, *positional: Any, **named: Any) -> None:
        option = _isolation(args)
        if option:
            note = f"a child that ran as python {option} was not recorded\n"
            _say(run_dir, f"{recorder}-{os.getpid()}.notes", note)
        start(self, args, *positional, **named)

    subprocess.Popen.__init__ = init


def _isolation(args: Any) -> "str | None":
    """The option by which a Python ignores PYTHONPATH or this module; None where there is none."""
    arguments = args if isinstance(args, (list, tuple)) else ()
    words = [str(word) for word in arguments if not isinstance(word, bytes)]
    if not words or not os.path.basename(words[0]).startswith("python"):
        return None
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--"):
            return None
        for letter in word[1:]:
            if letter in "IES":
                return f"-{letter}"
            if letter in "cmWX":  # what follows is no option
                break
    return None


def _install(recorder: str) -> Any:
    module = importlib.import_module(f"gpuprof_{recorder}")
    return module.install(os.environ["GPUPROF_RUN_DIR"])


def _record(run_dir: str, recorder: str) -> None:
    """Put the recorder behind the import of its framework; CUPTI's waits for none."""
    # Tells a program without the framework from one that ignores PYTHONPATH.
    _say(run_dir, "python-started")
    when_imported("subprocess", lambda m: _tell_of_isolated_children(run_dir, recorder, m))
    if recorder != "cupti":
        when_imported(recorder, lambda module: _install(module.__name__))
        return
    recording = _install(recorder)
    for framework in ("torch", "tensorflow", "jax"):
        when_imported(framework, lambda module: recording.watch(module.__name__))


if os.environ.get("GPUPROF_RUN_DIR"):
    _record(os.environ["GPUPROF_RUN_DIR"], os.environ.get("GPUPROF_RECORDER", "tensorflow"))
_run_the_users_own()
