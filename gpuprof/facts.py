"""What is derived from the data model and asked for again and again, each fact declared once.

Queries, also those of users, name these columns as if they were recorded.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpuprof.cuda import COMMUNICATION_PATTERN, WAITING_CALLS


class Fact(NamedTuple):
    """A column that depends on the name of a kernel or API call alone.

    Args:
        sql: SQL over ``name``; matched once per name where a file numbers its names.
        doc: What it says.
    """

    sql: str
    doc: str


# Table -> column -> fact; null where the name is unknown.
OF_NAMES: Final[Mapping[str, Mapping[str, Fact]]] = {
    "kernels": {
        "is_communication": Fact(
            f"regexp_matches(name, '{COMMUNICATION_PATTERN}', 'i')",
            "Whether it moves data between devices (NCCL and its kin) in place of computing.",
        ),
        "name_hash": Fact("(hash(name) >> 1)::BIGINT", "A number of the name, in every recording."),
    },
    "api_calls": {
        "is_waiting": Fact(
            f"regexp_matches(name, '{WAITING_CALLS}')",
            "Whether the call returns when work on a device has ended.",
        ),
        "is_async": Fact("name LIKE '%Async%'", "Whether the call says that it does not wait."),
    },
}
