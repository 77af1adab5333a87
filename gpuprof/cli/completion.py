"""``gpuprof completion``: what the shell completes on the Tab key."""

from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_VARIABLE: Final = "_GPUPROF_COMPLETE"
_LIST: Final = "@"
# A shell without zsh's own completion has no compdef yet.
_ZSH_COMPDEF: Final = "    compdef _gpuprof_completion"
_ZSH_BEGIN: Final = (
    _ZSH_COMPDEF,
    f"    (( $+functions[compdef] )) || {{ autoload -U compinit; compinit -i }}\n{_ZSH_COMPDEF}",
)
# Folders under which `record` and `sweep` put runs.
_RUN_FOLDERS: Final = ("gpuprof-runs/*", "gpuprof-sweeps/*")


@click.command(name="completion", no_args_is_help=True)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(*, shell: str) -> None:
    """Print the code that completes gpuprof's words in a shell.

    Commands, options, names of tables and charts, topics of help, files and run folders. bash
    must be 4.4 or newer.

    \b
    Example:
      source <(gpuprof completion bash)      in ~/.bashrc
      source <(gpuprof completion zsh)       in ~/.zshrc
      gpuprof completion fish > ~/.config/fish/completions/gpuprof.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - start-up of --help

    from gpuprof.cli import cli  # noqa: PLC0415 - it imports this module

    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101 - click knows the shells of the choice above
    click.echo(completion(cli, {}, "gpuprof", _VARIABLE).source().replace(*_ZSH_BEGIN))


def table_names(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Names of tables that begin so."""
    from gpuprof.analyses import ANALYSES  # noqa: PLC0415 - start-up time of --help

    return _beginning(start, ANALYSES)


def data_table_names(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Names of a recording's own tables that begin so."""
    from gpuprof.model.schema import BY_NAME  # noqa: PLC0415 - start-up time of --help

    return _beginning(start, BY_NAME)


def chart_names(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Names of charts that begin so."""
    from gpuprof.show.charts import CHARTS  # noqa: PLC0415 - start-up time of --help

    return _beginning(start, (chart.name for chart in CHARTS))


def named_charts(context: click.Context, option: click.Parameter, start: str) -> list[str]:
    """``NAME=`` of charts that begin so."""
    return [f"{name}=" for name in chart_names(context, option, start)]


def topic_names(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Topics of help that begin so."""
    from gpuprof.cli.pages import TOPICS  # noqa: PLC0415 - start-up time of --help

    return _beginning(start, TOPICS)


def recordings(
    _context: click.Context, _option: click.Parameter, start: str
) -> "list[CompletionItem]":
    """Run folders that begin so, where that names some; else files and folders; lists after @."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - start-up time of --help

    if start.startswith(_LIST):
        return [*map(CompletionItem, _lists(start.removeprefix(_LIST)))]
    runs = _beginning(start, sorted(_runs())) if start else []
    return [CompletionItem(run) for run in runs] or [CompletionItem(start, type="file")]


def _lists(start: str) -> list[str]:
    """Files and folders that begin so, as lists."""
    folder, _, name = start.rpartition("/")
    paths = sorted(Path(f"{folder}/" if start.startswith("/") else folder).glob(f"{escape(name)}*"))
    return [f"{_LIST}{path.as_posix()}{'/' if path.is_dir() else ''}" for path in paths]


def _runs() -> Iterator[str]:
    for pattern in _RUN_FOLDERS:
        yield from (path.as_posix() for path in Path().glob(pattern) if path.is_dir())


def _beginning(start: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]
