"""What Nsight Systems and its importer print where they cannot open a file, in one line.

The importer prints progress bars, and C++ exceptions with their places in its sources; what they
mean for the file is in one of their fields.
"""

import re
from typing import Final

_PROGRESS: Final = re.compile(
    r"(?:Processing|\[\d+/\d+\]) *\[[= ]*\d+%|Importing\.\.\.|Saved report file|\[libprotobuf"
)
_PLACE: Final = re.compile(r"[: ]*/\S+\(\d+\): Throw in function.*")
# From the most to the least telling.
_DETAILS: Final = (
    re.compile(r"tag_message\*\] = (?!Status:)(.+)"),
    re.compile(r'ErrorText\s+Value: "(?!/\S+\(\d+\): Throw)([^"\n]+)'),
    re.compile(r"std::exception::what: (\S.*)"),
)


def reason(output: str, status: int) -> str:
    """Why a command failed: its own words, else its exit status.

    Args:
        output: What it printed.
        status: Its exit status.
    """
    # Texts within fields have their lines' ends escaped.
    printed = (line.strip() for line in output.replace("\\n", "\n").splitlines())
    lines = [line for line in printed if line and not _PROGRESS.match(line)]
    if not lines:
        return f"exit status {status}"
    head = _PLACE.sub("", lines[0]).strip("* :")
    text = "\n".join(lines)
    matches = (pattern.search(text) for pattern in _DETAILS)
    detail = next((match[1].strip(' "') for match in matches if match), None)
    return f"{head.rstrip('.')}: {detail.rstrip(':')}" if detail else head
