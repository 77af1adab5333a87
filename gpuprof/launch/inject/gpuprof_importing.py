"""Calls back when a program has imported a module; must work in any Python 3.8 or newer."""

import importlib.util
import sys
from types import ModuleType
from typing import Any, Callable  # noqa: UP035 - of Python 3.8, too


def when_imported(name: str, then: Callable[[ModuleType], Any]) -> None:
    """Call this with a module: at once where it is imported, else when the program imports it."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, then))


class _Finder:
    """Steps aside at the first import of the module."""

    def __init__(self, name: str, then: Callable[[ModuleType], Any]) -> None:
        self.name = name
        self.then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """The module's own spec, with the call behind its execution."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.then(module)

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - of this one loader
        return spec
