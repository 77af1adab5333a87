"""Tables -> text, files and charts: each output is one file and one line in `RENDERERS`.

Renderers compute nothing: all they show is a column of a table, in a unit for people.
"""

from typing import Final

from gpuprof.render import csv, json, markdown, terminal
from gpuprof.render.contract import Renderer

RENDERERS: Final[tuple[Renderer, ...]] = (
    terminal.RENDERER,
    markdown.RENDERER,
    csv.RENDERER,
    json.RENDERER,
)


def renderer_named(name: str) -> Renderer:
    """The renderer of this name."""
    return next(renderer for renderer in RENDERERS if renderer.name == name)
