from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from commands import DUAL as OTHER_EXCERPT
from commands import SINGLE as EXCERPT
from commands import gpuprof
from drawing import draw
from recordings import DUAL, SINGLE, summary

from gpuprof.base.errors import GateError, UsageError
from gpuprof.comparisons import comparison
from gpuprof.comparisons.gate import checks, fail, parse
from gpuprof.show.comparison import junit

EXAMPLE = (
    'Write it as "exposed_transfer_share > 0.10", "step_ns > 1.05x beyond noise" or'
    ' "idle_ns > 2ms".'
)


def _result():
    return comparison({"single": summary(*SINGLE), "dual": summary(*DUAL)})


CONDITIONS = {
    "times-the-baseline": ("step_ns > 1.05x", 1.05, True),
    "milliseconds": ("step_ns>=2ms", 2e6, False),
    "base-unit": ("step_ns > 2000", 2000, False),
    "seconds-column": ("seconds_per_epoch < 500ms", 0.5, False),
    "bytes": ("peer_transfer_bytes > 1.5GB", 1.5e9, False),
    "percent": ("peer_share > 10 %", 0.1, False),
    "exponent": ("kernel_calls <= 1e3", 1000, False),
}


@pytest.mark.parametrize(("text", "limit", "is_ratio"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_is_read(text, limit, is_ratio):
    condition = parse(text)

    assert condition.limit == pytest.approx(limit)
    assert condition.is_ratio == is_ratio


REFUSED = {
    "near": (
        "exposed_transfer_shar > 0.1",
        '"exposed_transfer_shar > 0.1": there is no metric exposed_transfer_shar',
        "Did you mean exposed_transfer_share or exposed_transfer_ns or transfer_share?",
    ),
    "a-part": (
        "Exposed > 1",
        '"Exposed > 1": there is no metric Exposed',
        "Did you mean exposed_transfer_ns or exposed_transfer_share or exposed_communication_ns?",
    ),
    "far": (
        "zzz > 1",
        '"zzz > 1": there is no metric zzz',
        "`gpuprof formats --schema` lists them.",
    ),
    "text-column": (
        "variant > 1",
        '"variant > 1": there is no metric variant',
        "`gpuprof formats --schema` lists them.",
    ),
    "operator": ("step_ns == 1", '"step_ns == 1" is not a condition', EXAMPLE),
    "nan": ("step_ns > nan", '"step_ns > nan" is not a condition', EXAMPLE),
    "unit": (
        "peer_share > 10ms",
        '"peer_share > 10ms": peer_share has no unit "ms"',
        "It may have: %, x.",
    ),
    "percent-of-a-time": (
        "step_ns > 5%",
        '"step_ns > 5%": step_ns has no unit "%"',
        "It may have: ns, us, µs, μs, ms, s, x.",
    ),
}


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_condition_is_refused(text, message, hint):
    with pytest.raises(UsageError) as caught:
        parse(text)

    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("peer_share > 10%", "it is 20.08 %"),
        ("gpu_activity_ns > 1.05x", "it is 50.294 s, 1.275x of 39.452 s"),
        ("kernel_ns > 1.05x", None),
        ("peer_transfer_ns > 100x", "it is 10.098 s, and the baseline has none"),
        ("communication_kernel_ns > 1.0x", None),  # Nothing is as much as nothing.
    ],
)
def test_a_condition_that_holds_says_by_how_much(condition, reason):
    assert [check.reason for check in checks(_result(), [parse(condition)])] == [reason]


def test_a_figure_that_is_not_known_fails():
    results = checks(_result(), [parse("step_ns > 1ms")])

    assert [(c.reason, c.is_known) for c in results] == [("step_ns of dual is not known", False)]


@pytest.fixture(scope="module", name="schema")
def _schema():
    return xmlschema.XMLSchema(Path(__file__).parent / "junit.xsd")


def test_hostile_labels_break_neither_the_file_nor_the_terminal(tmp_path, schema):
    label = "a\x1b[31m<b>&\uffff\u202e\U0001f600"

    completed = gpuprof(
        *("compare", "--label", f"base={EXCERPT}", "--label", f"{label}={OTHER_EXCERPT}"),
        *("--fail-if", "implied_gpu_activity_ns > 1.1x", "--junit", tmp_path / "out.xml"),
    )

    assert completed.returncode == 3
    assert completed.stderr.startswith("Error: a [31m<b>&\uffff \U0001f600 fails ")
    schema.validate(tmp_path / "out.xml")
    suite = ET.parse(tmp_path / "out.xml").getroot()[0]  # noqa: S314 - written above
    assert suite.find("testcase").get("classname") == "a [31m<b>& \U0001f600"


def test_repeats_are_tested_by_their_median():
    runs = [draw(kernels=[(0, end)]) for end in (10, 11, 90)]
    result = comparison({"base": draw(kernels=[(0, 10)]), "new": runs})

    (check,) = checks(result, [parse("span_ns > 1.2x")])

    assert check.reason is None


def test_the_error_names_every_candidate_and_condition():
    outcomes = checks(_result(), [parse("peer_share > 10%"), parse("step_ns > 1ms")])

    with pytest.raises(GateError) as raised:
        fail(outcomes)

    assert raised.value.exit_status == 3
    assert raised.value.message == (
        "dual fails peer_share > 10%: it is 20.08 %\n"
        "dual fails step_ns > 1ms: step_ns of dual is not known"
    )


def test_no_condition_no_error():
    fail(checks(_result(), [parse("peer_share > 90%")]))


def test_a_file_that_readers_do_not_take_is_refused(schema):
    text = junit(_result(), checks(_result(), [parse("peer_share > 10%")]))

    for needed in (' classname="dual"', ' type="failure"', ' time="0"'):
        assert needed in text
        assert not schema.is_valid(text.replace(needed, ""))


def test_a_junit_file_has_what_the_schema_asks_for(schema):
    conditions = ["peer_share > 10%", "step_ns > 1.05x", "kernel_ns > 1.05x"]
    result = _result()

    results = checks(result, [parse(text) for text in conditions])
    text = junit(result, results, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    schema.validate(text)
    (suite,) = ET.fromstring(text)  # noqa: S314 - our own text
    assert suite.get("timestamp") == "2026-01-02T03:04:05"
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == conditions
    assert all(case.get("classname") == "dual" and case.get("time") == "0" for case in cases)
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["error"], []]
