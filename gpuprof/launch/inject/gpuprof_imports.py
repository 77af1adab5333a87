"""Does something once the script has imported a module, which costs other scripts nothing.

It must work in any Python 3.8 or newer.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class WhenImported:
    """A finder that steps aside at the first import of a module and does something after it."""

    def __init__(self, name: str, then: Callable[[ModuleType], Any]) -> None:
        self.name = name
        self.then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """The module's own spec, with what is to follow behind its execution."""
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
