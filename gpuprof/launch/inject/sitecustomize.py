"""Runs first in every Python that inherits PYTHONPATH from a recording; then the user's own one.

It waits until the script imports the framework to record, so that other programs pay nothing. It
must work in any Python 3.8 or newer, without gpuprof installed, and must never break the script.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 5 ms


class _WhenImported:
    """A finder that steps aside at the first import of a framework and records what follows."""

    def __init__(self, framework: str, then: Callable[[str], Any]) -> None:
        self.framework = framework
        self.then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """The module's own spec, with the recorder behind its execution."""
        if name != self.framework:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.then(name)

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - of this one loader
        return spec


def _run_the_users_own() -> None:
    """Run the sitecustomize that this one hides."""
    elsewhere = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _say_that_it_ran(run_dir: str) -> None:
    """Let the recording tell a program without the framework from one that ignores PYTHONPATH."""
    try:
        with open(os.path.join(run_dir, "python-started"), "a", encoding="utf-8"):  # noqa: PTH118, PTH123
            pass
    except OSError:
        pass


def _install(recorder: str) -> Any:
    module = importlib.import_module(f"gpuprof_{recorder}")
    return module.install(os.environ["GPUPROF_RUN_DIR"])


def _record(recorder: str) -> None:
    """Put the recorder behind the import of its framework; CUPTI's waits for none."""
    if recorder != "cupti":
        sys.meta_path.insert(0, _WhenImported(recorder, _install))
        return
    recording = _install(recorder)
    for framework in ("torch", "tensorflow", "jax"):
        sys.meta_path.insert(0, _WhenImported(framework, recording.watch))


if os.environ.get("GPUPROF_RUN_DIR"):
    _say_that_it_ran(os.environ["GPUPROF_RUN_DIR"])
    _record(os.environ.get("GPUPROF_RECORDER", "tensorflow"))
_run_the_users_own()
