"""What this machine can record, what prevents recording, and the fix: one function per check.

A check is a function of a `Machine`, and one line in `checks.CHECKS`.
"""

import json
import textwrap
from dataclasses import asdict
from typing import Final

from gpuprof.doctor.checks import CHECKS
from gpuprof.doctor.examined_machine import Finding, Machine

FORMAT_VERSION: Final = 1


def findings(machine: Machine) -> tuple[Finding, ...]:
    """The findings of all checks of a machine, in the order of `CHECKS`."""
    return tuple(check(machine) for check in CHECKS)


def as_text(findings: tuple[Finding, ...], width: int) -> str:
    """One paragraph per finding: its state, its name, its text, and the fix."""
    stated = max(len(f.state) for f in findings)
    named = max(len(f.name) for f in findings)
    indent = " " * (stated + named + 4)
    lines = []
    for finding in findings:
        head = f"{finding.state:{stated}}  {finding.name:{named}}  "
        lines += textwrap.wrap(finding.text, width, initial_indent=head, subsequent_indent=indent)
        if finding.fix:
            # Commands in a fix are to be copied: no line ends within a word.
            lines += textwrap.wrap(
                f"Fix: {finding.fix}",
                width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines) + "\n"


def as_json(machine: Machine, findings: tuple[Finding, ...]) -> str:
    """``format_version``, ``findings`` and the facts of the ``machine`` under them."""
    facts = asdict(machine) | {
        "gpus": [gpu._asdict() for gpu in machine.gpus],
        "peers": [[*pair, reaches] for pair, reaches in machine.peers.items()],
        "links": [[*pair, way] for pair, way in machine.links.items()],
    }
    document = {
        "format_version": FORMAT_VERSION,
        "findings": [finding._asdict() for finding in findings],
        "machine": facts,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
