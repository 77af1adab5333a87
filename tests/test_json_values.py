"""Numbers and texts of JSON are read from either type, and nothing is made of another."""

import pytest

from gpuprof.base import json_input


@pytest.mark.parametrize(
    ("value", "integer", "number", "text"),
    [
        pytest.param(7, 7, 7.0, "7", id="int"),
        pytest.param("9216", 9216, 9216.0, "9216", id="digits"),
        pytest.param("0x0", 0, None, "0x0", id="null-pointer"),
        pytest.param("0x1f", 31, None, "0x1f", id="hex"),
        pytest.param("0xffffffffffffffff", None, None, "0xffffffffffffffff", id="above-int64"),
        pytest.param("-5", -5, -5.0, "-5", id="negative"),
        pytest.param(7.0, 7, 7.0, "7.0", id="float"),
        pytest.param(7.5, None, 7.5, "7.5", id="fraction"),
        pytest.param("7.5", None, 7.5, "7.5", id="fraction-in-text"),
        pytest.param("inf", None, None, "inf", id="infinity"),
        pytest.param("stream 7", None, None, "stream 7", id="words"),
        pytest.param("", None, None, "", id="empty"),
        pytest.param(True, None, None, None, id="bool"),
        pytest.param(None, None, None, None, id="null"),
        pytest.param([1], None, None, None, id="list"),
        pytest.param({"a": 1}, None, None, None, id="object"),
        pytest.param(2**63 - 1, 2**63 - 1, 2.0**63, str(2**63 - 1), id="largest"),
    ],
)
def test_a_value_is_read_from_either_type(value, integer, number, text):
    assert json_input.integer(value) == integer
    assert json_input.number(value) == number
    assert json_input.text(value) == text


@pytest.mark.parametrize(
    ("value", "texts", "mapping", "mappings", "words"),
    [
        pytest.param(["a", 5], ("a", "5"), None, None, None, id="texts"),
        pytest.param([], (), None, (), None, id="nothing"),
        pytest.param(["a", None], None, None, None, None, id="a-null-among-texts"),
        pytest.param({"a": 1, "b": []}, None, {"a": 1, "b": []}, None, {"a": "1"}, id="object"),
        pytest.param([{"a": 1}], None, None, ({"a": 1},), None, id="objects"),
        pytest.param([{"a": 1}, 2], None, None, None, None, id="a-number-among-objects"),
        pytest.param("a", None, None, None, None, id="text"),
        pytest.param(None, None, None, None, None, id="null"),
    ],
)
def test_a_value_of_another_shape_is_none(value, texts, mapping, mappings, words):
    assert json_input.texts(value) == texts
    assert json_input.mapping(value) == mapping
    assert json_input.mappings(value) == mappings
    assert json_input.words(value) == words


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400, 1e300])
def test_an_integer_that_no_column_holds_is_an_error(value):
    with pytest.raises(OverflowError, match="an integer is beyond 64 bits"):
        json_input.integer(value)
