"""The README is run: each console block's commands, the library example, the generated tables."""

import re
import shlex
import subprocess
import sys

import click
import pytest
from commands import ROOT, gpuprof

from gpuprof.analyses.findings.causes import CAUSES, MENDS
from gpuprof.cli import COMMANDS, cli
from gpuprof.comparisons.tables import TABLES
from gpuprof.metrics import VARIANTS
from gpuprof.readers import all_readers
from gpuprof.render.listing import formats_table, unit_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def _sessions():
    """Commands of the console blocks, each with the output that is shown under it."""
    for language, text in BLOCKS:
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown


SESSIONS = list(_sessions())


def _expanded(word):
    """One word as bash expands its braces."""
    found = re.search(r"\{([^}]*)\}", word)
    if not found:
        return [word]
    return [word[: found.start()] + one + word[found.end() :] for one in found[1].split(",")]


def _words(command):
    return [word for part in shlex.split(command) for word in _expanded(part)]


def test_the_readme_shows_commands():
    assert len(SESSIONS) >= 2


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[c for c, _ in SESSIONS])
def test_a_command_of_the_readme_prints_what_is_shown(command, shown):
    program, *arguments = _words(command)
    assert program == "gpuprof"

    done = gpuprof(*arguments)

    assert (done.returncode, done.stderr) == (0, "")
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?s:.*)".join(parts), done.stdout), done.stdout


def _commands(text):
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("gpuprof ")]


SHOWN = [command for language, text in BLOCKS if language == "bash" for command in _commands(text)]
EXAMPLES = [
    command
    for name in COMMANDS
    for command in _commands(cli.get_command(click.Context(cli), name).help)
]


@pytest.mark.parametrize("command", [*SHOWN, *EXAMPLES])
def test_commands_that_are_not_run_have_options_that_exist_with_values_that_they_take(command):
    plain = shlex.join(shlex.split(command, comments=True))
    command, (_, *words) = cli, _words(plain)
    while isinstance(command, click.Group):
        command, words = command.get_command(click.Context(command), words[0]), words[1:]

    command.make_context("gpuprof", words)


def test_the_library_example_runs():
    (code,) = [text for language, text in BLOCKS if language == "python" and "compare(" in text]

    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(frame.loc['dual', 'peer_transfer_ns'])"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "10097800000\n", done.stderr


def columns_table(schema):
    """A table's columns as a markdown table."""
    rows = [f"| `{n}` | {unit_of(c)} | {c.meaning} |" for n, c in schema.columns.items()]
    return "\n".join(["| key | unit | meaning |", "|---|---|---|", *rows, ""])


def keys_table(tables, known):
    """The columns of several tables by their keys, as a markdown table.

    Args:
        tables: Key to table.
        known: A table whose columns are documented already.
    """
    rows = [
        f"| `{key}` | `{name}` | {unit_of(column)} | {column.meaning} |"
        for key, schema in tables.items()
        for name, column in schema.columns.items()
        if known.columns.get(name) != column
    ]
    head = ["| table | key | unit | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def causes_table():
    """The causes of findings, with the changes that mend them, as a markdown table."""
    rows = [f"| `{cause}` | {meaning} | {change_of(cause)} |" for cause, meaning in CAUSES.items()]
    return "\n".join(["| cause | what it means | replayed |", "|---|---|---|", *rows, ""])


def change_of(cause):
    """The change that a replay makes against a cause."""
    return f"`{MENDS[cause].change.format(names='NAMES')}`" if cause in MENDS else ""


GENERATED = {
    "causes": causes_table(),
    "formats": formats_table(all_readers()),
    "metrics": columns_table(VARIANTS),
    "compared": keys_table(TABLES, VARIANTS),
}


@pytest.mark.parametrize("mark", GENERATED)
def test_a_generated_table_is_the_one_in_the_code(request, mark):
    """``pytest --update-expected tests/test_docs.py`` writes it anew."""
    path = ROOT / "README.md"
    table = re.compile(rf"(<!-- {mark}.*?-->\n)(.*?)(<!-- end -->)", re.DOTALL)
    if request.config.getoption("--update-expected"):
        text = path.read_text(encoding="utf-8")
        path.write_text(table.sub(lambda m: m[1] + GENERATED[mark] + m[3], text), encoding="utf-8")

    assert table.search(path.read_text(encoding="utf-8"))[2] == GENERATED[mark]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    command = cli.get_command(click.Context(cli), name)

    assert "Example:" in command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} has no help"


def test_help_names_every_command():
    done = gpuprof("--help")

    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert "..." not in done.stdout.partition("Commands:")[2]  # no sentence is cut


def test_help_imports_nothing_heavy():
    code = (
        "import sys, contextlib, io\n"
        "from gpuprof.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['--help'])\n"
        "heavy = {'tensorflow', 'matplotlib', 'pandas', 'duckdb', 'pyarrow', 'numpy', 'rich',"
        " 'email', 'json', 'logging', 'sqlite3', 'gpuprof.launch.recording'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "[]\n"


def test_every_table_is_documented_by_a_command():
    done = gpuprof("formats", "--schema")

    assert "peer_transfer_ns" in done.stdout
    assert "[ns] Copies between two devices" in done.stdout
