"""The documentation is run: commands of the console blocks, library examples, generated tables."""

import contextlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache

import click
import draw_recordings
import make_pictures
import pytest
from commands import ROOT, gpuprof, printed_by

import gpuprof as gpuprof_package
from gpuprof.api.metrics import METRICS, PREFIX
from gpuprof.api.values import keyword
from gpuprof.cli import cli
from gpuprof.cli.commands import COMMANDS, PAGES
from gpuprof.cli.help import TOPICS
from gpuprof.comparisons.result_tables import TABLES
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.findings.causes import CAUSES, family_of
from gpuprof.readers import all_readers, read_profile
from gpuprof.show.listing import formats_table, unit_of

README = ROOT / "README.md"
DOCS = ROOT / "gpuprof" / "docs"
FILES = [README, *sorted(DOCS.glob("*.md"))]
CUT = "...\n"


def _text(path):
    return path.read_text(encoding="utf-8")


BLOCKS = [
    (path, language, text)
    for path in FILES
    for language, text in re.findall(
        r"^```(\w*)\n(.*?)^```$", _text(path), re.DOTALL | re.MULTILINE
    )
]


def _sessions():
    """Commands of the console blocks, each with its page and the output that is shown under it."""
    for path, language, text in BLOCKS:
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield path, command, shown


SESSIONS = list(_sessions())


def _expanded(word):
    """One word as bash expands its braces."""
    braces = re.search(r"\{([^}]*)\}", word)
    if not braces:
        return [word]
    return [word[: braces.start()] + part + word[braces.end() :] for part in braces[1].split(",")]


def _words(command):
    return [word for part in shlex.split(command) for word in _expanded(part)]


def test_the_readme_is_short_and_shows_commands():
    assert len(_text(README).splitlines()) <= 250
    assert sum(path == README for path, _, _ in SESSIONS) >= 2


@pytest.mark.parametrize(
    ("path", "command", "shown"), SESSIONS, ids=[f"{p.name}: {c}" for p, c, _ in SESSIONS]
)
def test_a_command_prints_what_is_shown(request, path, command, shown):
    """``pytest --update-expected tests/test_docs.py`` writes what it prints, in as many lines."""
    program, *arguments = _words(command)
    assert program == "gpuprof"

    done = _once(*arguments)

    assert (done.returncode, done.stderr) == (0, "")
    if request.config.getoption("--update-expected"):
        before, shown = shown, _as_long(shown, done.stdout)
        session = f"$ {command}\n"
        text = _text(path)
        assert text.count(session + before) == 1
        path.write_text(text.replace(session + before, session + shown), encoding="utf-8")
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?s:.*)".join(parts), done.stdout), done.stdout


@cache
def _once(*arguments):
    """What a command prints that several pages show."""
    return gpuprof(*arguments)


def _as_long(shown, output):
    """An output, with as many lines before and after a cut as were shown."""
    head, cut, tail = shown.partition(CUT)
    lines = output.splitlines(keepends=True)
    first, last = head.count("\n"), tail.count("\n")
    return "".join([*lines[:first], CUT, *lines[len(lines) - last :]]) if cut else output


def _commands(text):
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("gpuprof ")]


WORKFLOWS = [text for _, language, text in BLOCKS if language == "yaml"]
SHOWN = [
    command for _, language, text in BLOCKS if language == "bash" for command in _commands(text)
] + [
    command
    for text in WORKFLOWS
    for command in _commands(re.sub(r"^ *run: (?=gpuprof)", "", text, flags=re.MULTILINE))
]
EXAMPLES = [
    command
    for name in COMMANDS
    for command in _commands(cli.get_command(click.Context(cli), name).help)
]


@pytest.mark.parametrize("command", [*SHOWN, *EXAMPLES])
def test_commands_that_are_not_run_have_options_that_exist_with_values_that_they_take(command):
    plain = shlex.split(command, comments=True)
    redirection = plain.index(">") if ">" in plain else None
    command, (_, *words) = cli, _words(shlex.join(plain[:redirection]))
    while isinstance(command, click.Group):
        command, words = command.get_command(click.Context(command), words[0]), words[1:]

    with contextlib.suppress(click.exceptions.Exit):  # after --help
        command.make_context("gpuprof", words)


def test_a_workflow_records_both_sides_and_fails_beyond_noise():
    (workflow,) = WORKFLOWS
    commands = [c for c in SHOWN if c in " ".join(workflow.replace("\\\n", " ").split("\n"))]

    assert [shlex.split(c)[1] for c in commands] == ["record", "record", "compare"]
    assert "beyond noise" in commands[-1]


# No profiler is needed to try what records.
ONLY_TIMED = """
import functools, gpuprof
for name in ("record", "sweep"):
    setattr(gpuprof, name, functools.partial(getattr(gpuprof, name), recorder="none"))
"""


def test_the_library_examples_run(tmp_path):
    code = "\n".join(
        text for path, language, text in BLOCKS if (path.name, language) == ("python.md", "python")
    )
    for folder in ("sample_logs", "gpuprof/docs"):
        (tmp_path / folder).parent.mkdir(exist_ok=True)
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "train.py").write_text("import gpuprof\nwith gpuprof.epoch():\n    pass\n")
    figures = "print(result.variants.loc['dual', 'peer_transfer_ns'], len(sweep['runs']))"

    done = subprocess.run(
        [sys.executable, "-c", f"{ONLY_TIMED}\n{code}\n{figures}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.stdout == "10097800000 4\n", done.stderr


def test_the_example_of_an_analysis_answers():
    (code,) = (text for path, language, text in BLOCKS
               if (path.name, language) == ("extend.md", "python"))  # fmt: skip
    module = {"__name__": "largest_copies"}
    exec(code, module)  # noqa: S102 - what the page says a file is
    analysis = module["ANALYSIS"]

    rows = analysis.run(read_profile(DOCS / "recordings" / "staged.gpuprof")).to_pylist()

    assert f'"{analysis.name}": "analyses.{analysis.name}",' in _text(DOCS / "extend.md")
    assert len(rows) == 10
    assert rows[0]["bytes"] == max(row["bytes"] for row in rows) > 4_000_000


def _places(path):
    """The anchors of a page's headings, as GitHub makes them of their words."""
    headings = re.findall(r"^#+ (.*)$", _text(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = [
    (path, target)
    for path in FILES
    for target in re.findall(r'(?:\]\(|src(?:set)?=")([^)"\s]+)[)"]', _text(path))
    if not target.startswith("https://")
]


@pytest.mark.parametrize(("path", "target"), LINKS, ids=[f"{p.name}: {t}" for p, t in LINKS])
def test_a_link_leads_somewhere(path, target):
    file, _, place = target.partition("#")
    linked = (path.parent / file) if file else path

    assert linked.is_file()
    assert not place or place in _places(linked)


def test_every_page_has_a_title_and_is_in_the_readme():
    assert {path.stem for path in DOCS.glob("*.md")} == {*TOPICS}
    for topic in TOPICS:
        title = _text(DOCS / f"{topic}.md").splitlines()[0].removeprefix("# ")
        assert f"| [{title}](gpuprof/docs/{topic}.md) | `{topic}` |" in _text(README)


def test_every_picture_is_small_and_is_shown_by_a_page():
    pictures = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}

    assert max(pictures.values()) < 100_000
    assert pictures.keys() == {target.rpartition("/")[2] for _, target in LINKS if "png" in target}
    assert pictures.keys() == {*make_pictures.CHARTS, make_pictures.PAGE_PICTURE}


def test_the_pictures_can_be_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(make_pictures.subprocess, "run", _without_a_start)

    make_pictures.draw_all(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {*make_pictures.CHARTS}
    assert all(path.stat().st_size > 5_000 for path in tmp_path.iterdir())


def _without_a_start(command, **_):
    """Run ``python -m gpuprof`` in a process that has imported it."""
    gpuprof(*command[3:]).check_returncode()


def test_the_recordings_are_those_that_the_script_draws():
    for name in draw_recordings.NAMES:
        drawn = draw_recordings.recording(name)
        shipped = read_profile(DOCS / "recordings" / f"{name}.gpuprof")

        for table in drawn.tables:
            drawn_rows, shipped_rows = (
                profile.tables[table].sort_values(["start_ns", "end_ns"], ignore_index=True)
                for profile in (drawn, shipped)
            )
            assert shipped_rows.equals(drawn_rows)


def columns_table(columns, prefix=""):
    """A table's columns as a markdown table."""
    rows = [f"| `{prefix}{n}` | {unit_of(c)} | {c.meaning} |" for n, c in columns.items()]
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
    rows = [
        f"| `{name}` | `{family_of(name)}` | {cause.meaning} | {change_of(cause)} |"
        for name, cause in CAUSES.items()
    ]
    return "\n".join(
        ["| cause | family | what it means | replayed |", "|---|---|---|---|", *rows, ""]
    )


def keywords_table():
    """The keywords of the functions with what the options of their commands say."""
    functions = {}
    for name in ("report", "compare", "plot", "record", "sweep"):
        parameters = inspect.signature(getattr(gpuprof_package, name)).parameters
        taken = {word for word, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
        for option in COMMANDS[name].params:
            word = keyword(option)
            if isinstance(option, click.Option) and word in taken:
                functions.setdefault((word, option.help), []).append(name)
    rows = [
        f"| `{word}` | {', '.join(f'`{name}`' for name in names)} | {meaning} |"
        for (word, meaning), names in functions.items()
    ]
    return "\n".join(["| keyword | of | meaning |", "|---|---|---|", *rows, ""])


def change_of(cause):
    """The change that a replay makes against a cause."""
    return f"`{cause.mend[0].format(names='NAMES')}`" if cause.mend[0] else ""


# Mark -> its page and what belongs there.
GENERATED = {
    "causes": ("findings", causes_table()),
    "formats": ("formats", formats_table(all_readers())),
    "metrics": ("json", columns_table(VARIANTS.columns)),
    "compared": ("json", keys_table(TABLES, VARIANTS)),
    "tracked": ("python", columns_table(METRICS, PREFIX)),
    "keywords": ("python", keywords_table()),
}


@pytest.mark.parametrize("mark", GENERATED)
def test_a_generated_table_is_the_one_in_the_code(request, mark):
    """``pytest --update-expected tests/test_docs.py`` writes it anew."""
    topic, rows = GENERATED[mark]
    path = DOCS / f"{topic}.md"
    table = re.compile(rf"(<!-- {mark}.*?-->\n)(.*?)(<!-- end -->)", re.DOTALL)
    if request.config.getoption("--update-expected"):
        path.write_text(table.sub(lambda m: m[1] + rows + m[3], _text(path)), encoding="utf-8")

    assert table.search(_text(path))[2] == rows


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_two_examples_and_a_page(name):
    command = cli.get_command(click.Context(cli), name)
    examples = command.help.partition("Example:\n")[2]

    assert examples.count("gpuprof ") >= 2
    assert command.epilog == f"Documentation: gpuprof help {PAGES[name]}"
    assert PAGES[name] in TOPICS
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} has no help"


def test_help_names_every_command():
    done = gpuprof("--help")

    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert "..." not in done.stdout.partition("Commands:")[2]  # no sentence is cut


def test_help_and_the_package_import_nothing_heavy():
    code = (
        "import sys, contextlib, io\n"
        "from gpuprof.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['--help'])\n"
        "heavy = {'tensorflow', 'torch', 'matplotlib', 'pandas', 'duckdb', 'pyarrow', 'numpy',"
        " 'rich', 'email', 'json', 'logging', 'sqlite3', 'gpuprof.launch.recording'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )

    assert printed_by(code) == "[]\n"
