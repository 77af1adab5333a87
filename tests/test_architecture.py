"""Imports point one way, from base and model to show, api and cli."""

import ast
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import gpuprof
from gpuprof import readers
from gpuprof.analyses import ANALYSES, LONG, all_analyses
from gpuprof.launch import RECORDERS, all_recorders
from gpuprof.readers import READERS, all_readers
from gpuprof.show import RENDERERS, renderer_named

PACKAGE = Path(__file__).parent.parent / "gpuprof"
ROOT = {"__init__.py", "__main__.py", "annotate.py", "sql.py"}
# Rooms whose modules import from themselves alone and from what stands before them.
ROOMS = {"base", "model"}
LAYERS = (
    ("errors", "machine"),
    ("native",),
    (
        "units",
        "labels",
        "short_texts",
        "temporary_files",
        "cuda",
        "kernel_names",
        "gpu_models",
        "signals",
        "startup",
        "statistics",
    ),
    ("secrets", "nsight", "json_input", "manifest"),
    ("sweep_cells",),
    ("schema",),
    ("data_model", "intervals", "origin"),
    ("derived",),
    ("words",),
    ("borders",),
    ("pairs", "arrow_values"),
    ("stored",),
    ("table",),
    ("spilling",),
    ("profile",),
    ("analysis",),
    ("readers",),
    ("facts",),
    ("analyses",),
    ("predict",),
    ("findings", "place"),
    ("sql",),
    ("ranks",),
    ("comparisons",),
    ("sweeps",),
    ("show",),
    ("api",),
    ("cli",),
)
# Of folders with folders within: each imports from itself and from those before it. Modules that
# lie beside the folders are no part of this.
FOLDERS = {
    "readers": (
        *(
            ("common",),
            ("sqlite",),
            ("nsys",),
            ("nsys_report", "nvprof", "nsys_stats", "kineto", "xplane"),
        ),
        ("gpuprof",),
    ),
    "launch": (("run",), ("recorders",)),
    "comparisons": (("measure",), ("words",)),
}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# They meet the rest in a file on disk; the training script imports annotate and towers.
APART = {
    "launch": {
        "errors",
        "labels",
        "units",
        "native",
        "secrets",
        "json_input",
        "manifest",
        "nsight",
        "signals",
        "temporary_files",
        "launch",
        "annotate",
    },
    "doctor": {"errors", "native", "units", "nsight", "launch", "doctor"},
    "annotate": {"errors", "manifest", "launch", "annotate"},
    "towers": {"errors", "towers"},
}


MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def _imports(path: Path) -> set[str]:
    names = set()
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gpuprof":
            of_names = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {_part(name.split(".")[1:]) for name in of_names}
    return names & (RANK.keys() | APART.keys())


def _part(names: Sequence[str]) -> str:
    """The module or folder that an import, or a path in the package, names."""
    return names[1] if names[0] in ROOMS and len(names) > 1 else names[0]


def _broken(faults: Callable[[Path], set[str]], paths: Iterable[Path] = MODULES):
    """The modules with faults, and what they are."""
    return {str(p.relative_to(PACKAGE)): found for p in paths if (found := faults(p))}


def _higher(path: Path) -> set[str]:
    """What a module imports from above itself."""
    part = _part([name.removesuffix(".py") for name in path.relative_to(PACKAGE).parts])
    if part in APART:
        return _imports(path) - APART[part]
    if part not in RANK or part == "cli":
        return set()
    # `gpuprof.record` starts programs, as the command does.
    allowed = {"launch"} if part == "api" else set()
    return {n for n in _imports(path) - allowed if n in APART or RANK[n] > RANK[part]}


def test_imports_point_down():
    assert _broken(_higher) == {}


def test_the_root_holds_what_users_import_and_no_other_module():
    assert {path.name for path in PACKAGE.glob("*.py")} <= ROOT
    of_rooms = {path.stem for room in ROOMS for path in (PACKAGE / room).glob("[!_]*.py")}
    assert of_rooms <= RANK.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_within_a_folder_point_down(folder):
    rank = {name: rank for rank, names in enumerate(FOLDERS[folder]) for name in names}
    assert rank.keys() == {p.parent.name for p in (PACKAGE / folder).glob("*/__init__.py")}
    imported = {
        (path.parent.name, node.module.split(".")[2])
        for path in (PACKAGE / folder).glob("*/*.py")
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"gpuprof.{folder}.")
    }

    up = {pair for pair in imported if rank.keys() >= {*pair} and rank[pair[0]] < rank[pair[1]]}
    beside = {
        pair
        for pair in imported
        if rank.keys() >= {*pair} and pair[0] != pair[1] and rank[pair[0]] == rank[pair[1]]
    }
    assert (up, beside) == (set(), set())


def _open_to_others(path: Path) -> set[str]:
    nodes = _nodes(path)
    imported = {
        a.name.partition(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names
    }
    imported |= {str(n.module).partition(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
    used = {ast.unparse(n) for n in nodes if isinstance(n, ast.Attribute)}
    named = {n.arg for n in nodes if isinstance(n, ast.keyword)}
    return (
        imported & {"socket", "socketserver", "http", "asyncio", "xmlrpc", "urllib"}
        | used & {"os.system", "os.popen", "subprocess.getoutput"}
        | named & {"shell"}
    )


def test_nothing_listens_on_a_network_and_no_shell_takes_a_text():
    assert _broken(_open_to_others) == {}


def test_analyses_are_functions_of_arrays_and_ask_no_query():
    folders = {"facts", "analyses", "predict", "findings", "place", "comparisons"}
    paths = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in folders]
    query = re.compile(r"\.(?:query|batches|arrays)\(|\bSELECT\b")

    assert len(paths) > 50
    assert _broken(lambda path: {*query.findall(path.read_text())}, paths) == {}


def test_json_is_decoded_in_one_module_alone():
    decoders = re.compile(
        r"((msgspec\.)?json\.(loads?|decode|JSONDecoder|Decoder)|.*read_json\w*)"
        r"|from (json|msgspec\.json|orjson|ujson) import .*|from msgspec import .*\bjson\b.*"
    )

    def decoding(path: Path) -> set[str]:
        nodes = (n for n in _nodes(path) if isinstance(n, (ast.Attribute, ast.ImportFrom)))
        return {text for text in map(ast.unparse, nodes) if decoders.fullmatch(text)}

    # What runs inside of users' programs has no gpuprof.
    decoders_apart = [path for path in _broken(decoding) if "inject" not in str(path)]
    assert decoders_apart == ["base/json_input.py"]


def test_no_module_asks_arrow_for_what_imports_pandas_in_its_older_versions():
    def asking(path: Path) -> set[str]:
        names = {n.attr for n in _nodes(path) if isinstance(n, ast.Attribute)}
        return names & {"empty_table", "to_pandas_dtype"}

    assert _broken(asking) == {}


def test_every_file_that_is_no_module_is_in_a_wheel():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = project["tool"]["setuptools"]["package-data"]
    patterns = [
        f"{package.replace('.', '/')}/{name}"
        for package, names in packaged.items()
        for name in names
    ]
    files = [
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*.*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".so", ".gpuprof"}
    ]

    assert len(files) > 20
    assert [f for f in files if not any(fnmatch(f, pattern) for pattern in patterns)] == []


def test_what_is_asked_for_by_a_name_bears_it():
    assert [a.name for a in all_analyses()] == [*ANALYSES, *LONG]
    assert [reader.name for reader in all_readers()] == [*READERS]
    of_folders = {reader.name for reader in all_readers() if reader.recognises_folder}
    assert of_folders == {*readers._FOLDERS}  # noqa: SLF001 - the only ones that are asked
    assert [recorder.name for recorder in all_recorders()] == [*RECORDERS]
    assert all(
        renderer_named(name).report and renderer_named(name).comparison for name in RENDERERS
    )


def test_type_checkers_and_completion_see_the_public_names_and_no_others():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (typed, _) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert imported == vars(gpuprof)["_HOME"]
    assert sorted(imported) == gpuprof.__all__
    assert set(imported) <= set(dir(gpuprof))
