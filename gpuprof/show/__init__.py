"""Tables -> text, files and charts: each output is one file and one name in `RENDERERS`.

Renderers compute nothing: all they show is a column of a table, in a unit for people.
"""

from importlib import import_module
from typing import Final

from gpuprof.show.contract import Renderer

# Names of modules in this folder; each is imported when its format is first used.
RENDERERS: Final = ("terminal", "markdown", "csv", "json")


def renderer_named(name: str) -> Renderer:
    """The renderer of this name."""
    renderer: Renderer = import_module(f"gpuprof.show.{name}").RENDERER
    return renderer
