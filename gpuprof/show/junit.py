"""The conditions of a comparison as a JUnit file: one test per condition and candidate.

It keeps to the stricter of the two schemas in use, the one of Ant's JUnitReport, which wants
``package``, ``id``, ``hostname``, ``properties``, ``system-out`` and ``system-err`` as well.
Source: https://github.com/windyroad/JUnit-Schema
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as ET

from gpuprof.comparisons.judge.gate import Check
from gpuprof.comparisons.result_tables import Comparison
from gpuprof.show import cells

# What no XML may hold beside control characters.
_NO_CHARACTERS: Final = str.maketrans("", "", "\ufffe\uffff")


def clean(text: str) -> str:
    """Text from a recording as XML may hold it."""
    return cells.clean(text).translate(_NO_CHARACTERS)


def junit(result: Comparison, checks: Sequence[Check], now: datetime | None = None) -> str:
    """The text of the file.

    Args:
        result: The comparison; its verdict becomes the suite's output.
        checks: Its conditions; those that could not be tested are errors.
        now: When it was made; now where None.
    """
    suites = ET.Element("testsuites")
    failed = [check for check in checks if check.reason is not None]
    head = {
        "name": "gpuprof compare",
        "package": "gpuprof",
        "id": "0",
        "hostname": "localhost",
        "timestamp": (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S"),
        "tests": str(len(checks)),
        "failures": str(sum(check.is_known for check in failed)),
        "errors": str(sum(not check.is_known for check in failed)),
        "time": "0",
    }
    suite = ET.SubElement(suites, "testsuite", head)
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", {"name": "baseline", "value": clean(result.baseline)})
    for check in checks:
        _add(suite, check)
    ET.SubElement(suite, "system-out").text = clean(result.verdict)
    ET.SubElement(suite, "system-err").text = "\n".join(map(clean, result.notes))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _add(suite: ET.Element, check: Check) -> None:
    name = {"name": check.condition.text, "classname": clean(check.variant), "time": "0"}
    case = ET.SubElement(suite, "testcase", name)
    if check.reason is not None:
        kind = "failure" if check.is_known else "error"
        attributes = {"message": clean(check.reason), "type": kind}
        ET.SubElement(
            case, kind, attributes
        ).text = f"{check.condition.text}: {clean(check.reason)}"
