"""Tables -> text, files and charts: each output is one file and one name in `RENDERERS`.

Renderers compute nothing: all they show is a column of a table, in a unit for people.
"""

from importlib import import_module
from typing import Final

from gpuprof.render.contract import Renderer

# Names of modules here, of which one is imported when a text of its format is asked for.
RENDERERS: Final = ("terminal", "markdown", "csv", "json")


def renderer_named(name: str) -> Renderer:
    """The renderer of this name."""
    found: Renderer = import_module(f"gpuprof.render.{name}").RENDERER
    return found
