import pytest
from goldens import commands, differences, parsed, place, recordings_in


@pytest.mark.parametrize(
    ("kept", "now", "cells"),
    [
        pytest.param({"a": [1, 2]}, {"a": [1, 2]}, [], id="equal"),
        pytest.param({"a": [1, 2]}, {"a": [1, 3]}, [".a[1]"], id="cell"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [".a"], id="rows"),
        pytest.param({"a": 1}, {"b": 1}, [".a", ".b"], id="columns"),
        pytest.param({"a": 1}, {"a": 1.0}, [".a"], id="types"),
        pytest.param({"a": 1.0}, {"a": 1.0 + 1e-14}, [], id="last-digits"),
        pytest.param({"a": 1.0}, {"a": 1.001}, [".a"], id="floats"),
        pytest.param({"a": None}, {"a": 0}, [".a"], id="unknown-is-not-zero"),
    ],
)
def test_differences_name_each_cell(kept, now, cells):
    assert [of.split("\n")[0] for of in differences(kept, now)] == cells


def test_text_is_compared_by_lines_and_json_by_cells():
    assert parsed('{"output": "one\\ntwo\\n"}')["output"] == ["one", "two"]
    assert parsed('{"output": "{\\"a\\": 1}"}')["output"] == {"a": 1}


def test_each_command_has_an_answer_of_its_own(tmp_path):
    for name in ("a.sqlite", "b.sqlite", "c.sqlite"):
        (tmp_path / name).touch()
    (tmp_path / "README.md").touch()
    recordings = recordings_in([tmp_path])
    cases = commands(recordings, [tmp_path])

    assert [path.name for path in recordings] == ["a.sqlite", "b.sqlite", "c.sqlite"]
    assert len({place(tmp_path, case) for case in cases}) == len(cases)
    assert ("compare", str(recordings[0]), str(recordings[1]), "--format", "json") in cases
