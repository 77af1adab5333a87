"""Where each known way of getting the numbers of a GPU profile wrong is guarded.

Each was found in a tool or in a file. A test that guards one may be changed or moved, and the
list with it, but not lost. The list has what goes wrong and, in lines of their own, the tests that
would fail.
"""

import ast
import csv
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def guards():
    """The tests of each trap, as pairs of file and name."""
    found = {}
    with (TESTS / "traps.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            found.setdefault(row["trap"], []).append(row["guard"].split("::"))
    return found


@cache
def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("tests", guards().values(), ids=guards())
def test_trap_is_guarded(tests):
    for file, name in tests:
        assert name in functions(TESTS / file)
