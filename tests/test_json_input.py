"""Every JSON text is decoded within limits, and fields of other types than usual refuse nothing."""

import json

import msgspec
import pytest

from gpuprof.base import json_input
from gpuprof.base.json_input import JsonError, ShapeError

DEEP = "[" * 100_000 + "]" * 100_000
# Below Python's own limit, so that a decoder makes objects of it.
RATHER_DEEP = "[" * 300 + "]" * 300


class Inner(msgspec.Struct):
    size: json_input.Scalar = 3


class Outer(msgspec.Struct):
    events: list[msgspec.Raw]
    inner: Inner = msgspec.field(default_factory=Inner)
    names: list[str] = []


@pytest.mark.parametrize("text", [DEEP, RATHER_DEEP, f'{{"a": {DEEP}}}', "[" * 100_000])
def test_a_deep_document_is_one_error(text):
    with pytest.raises(JsonError, match="nested deeper than 200 levels"):
        json_input.loads(text)


def test_a_document_as_deep_as_allowed_is_read():
    text = "[" * json_input.DEEPEST + "]" * json_input.DEEPEST

    assert json_input.loads(text) == json.loads(text)
    with pytest.raises(JsonError, match="nested deeper"):
        json_input.loads(f"[{text}]")


@pytest.mark.parametrize("place", ["events", "inner", "names", "unknown"])
def test_a_deep_part_of_a_trace_is_one_error(place):
    parts = {"events": "[]", place: DEEP}
    text = "{" + ",".join(f'"{name}": {value}' for name, value in parts.items()) + "}"

    with pytest.raises(JsonError, match="nested deeper than 200 levels"):
        json_input.lenient(text.encode(), Outer)


def test_a_deep_value_in_the_midst_of_a_text_is_one_error():
    with pytest.raises(JsonError, match="nested deeper"):
        json_input.first(f"rows: {RATHER_DEEP}", 6)


def test_more_text_than_the_limit_is_refused_before_it_is_decoded(monkeypatch, tmp_path):
    monkeypatch.setattr(json_input, "LARGEST_DOCUMENT_BYTES", 3 << 20)
    monkeypatch.setattr(json_input, "LARGEST_TRACE_BYTES", 3 << 20)
    text = b" " * (3 << 20)
    path = tmp_path / "large.json"
    path.write_bytes(text + b"[]")

    assert json_input.loads(text[:-2] + b"[]") == []
    with pytest.raises(JsonError, match="larger than 3 MiB"):
        json_input.load(path)
    with pytest.raises(JsonError, match="larger than"):
        json_input.decode(text + b"[]", list[int])


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[1,]", b"9" * 5000, b'"\xed\xa0\x80"'])
def test_what_is_no_json_is_one_error(text):
    with pytest.raises(JsonError):
        json_input.loads(text)


def test_what_is_no_number_in_json_is_null():
    assert json_input.loads('{"a": NaN, "b": [-Infinity]}') == {"a": None, "b": [None]}
    assert json_input.decode(b'{"events": [], "x": -nan}', Outer).events == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"a\uDC00b"', "a\ufffdb"),
        (r'"\ud83d\ude00"', "\N{GRINNING FACE}"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\N{GRINNING FACE}"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\u00e9\n"', "\u00e9\n"),
    ],
)
def test_half_a_character_is_replaced(text, expected):
    assert json_input.loads(text) == expected


@pytest.mark.parametrize("inner", ['"text"', "[]", "3", "null", '{"size": {"a": 1}}'])
def test_a_field_of_another_type_has_its_default(inner):
    text = f'{{"events": [1], "inner": {inner}, "names": 5}}'.encode()
    read = json_input.lenient(text, Outer)

    assert (len(read.events), read.inner.size, read.names) == (1, 3, [])


@pytest.mark.parametrize("text", [b"[]", b'{"events": 5}', b'{"inner": {}}', b"7"])
def test_a_field_without_a_default_is_needed(text):
    with pytest.raises(ShapeError):
        json_input.lenient(text, Outer)


def test_lines_that_broke_off_are_left_out(tmp_path):
    file = tmp_path / "marks.jsonl"
    assert [*json_input.lines(file)] == []

    file.write_text('{"epoch": 1}\n{"epo\n"two"\n{"epoch"')

    assert [*json_input.lines(file)] == [{"epoch": 1}, "two"]
