"""Recordings drawn by hand: the rows of each table, with what the test does not care about."""

from itertools import accumulate, pairwise
from pathlib import Path

from gpuprof.model.data_model import BY_NAME
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

_USUAL = {"device_id": 0, "context_id": 1, "stream_id": 7, "process_id": 100}
USUAL = {
    "kernels": _USUAL | {"name": "matmul"},
    "memcpys": _USUAL | {"memcpy_kind": "HtoD"},
    "memsets": _USUAL,
    "synchronizations": _USUAL,
    "graph_launches": _USUAL,
    "api_calls": {"api": "runtime", "name": "cudaLaunchKernel", "process_id": 100, "thread_id": 1},
    "nvtx_ranges": {"domain": "", "range_kind": "push_pop", "process_id": 100, "thread_id": 1},
}


def _row(table, row):
    times, rest = (row[:2], row[2:]) if isinstance(row, tuple) else ((), (row,))
    given = dict(zip(("start_ns", "end_ns"), times, strict=False))
    return USUAL.get(table, {}) | given | (rest[0] if rest else {})


def draw(**tables):
    """A recording whose rows are ``(start, end)``, ``(start, end, {...})`` or ``{...}``."""
    recorded = {"kernels": [], "memcpys": []} | tables
    return Profile(
        Origin(Path("drawn.sqlite"), "drawn", "by hand"),
        {
            name: BY_NAME[name].table([_row(name, r) for r in rows])
            for name, rows in recorded.items()
        },
    )


def stepped(*lengths_ns, idle_ns=10, text="step {}", **tables):
    """Steps one after the other that ranges mark, each with a launch of a kernel.

    Args:
        lengths_ns: Of each step.
        idle_ns: How long before its step a kernel ends.
        text: That of a range, with a place for the number of the step.
        tables: Further tables.
    """
    spans = [*pairwise(accumulate(lengths_ns, initial=0))]
    called = [{"correlation_id": number} for number in range(len(spans))]
    return draw(
        kernels=[(s, e - idle_ns, call) for (s, e), call in zip(spans, called, strict=True)],
        api_calls=[(s, s + 1, call) for (s, _), call in zip(spans, called, strict=True)],
        nvtx_ranges=[(*span, {"text": text.format(n)}) for n, span in enumerate(spans)],
        **tables,
    )


def copied(*copies, **tables):
    """Copies that were launched one after the other, each in a range of its own.

    Args:
        copies: ``(start, end, {...}, text)``; the text may be a row of ranges, None is no range.
        tables: Further tables.
    """
    rows = {"memcpys": [], "api_calls": [], "nvtx_ranges": []}
    for number, (start, end, row, text) in enumerate(copies):
        at, call = 10 * number, {"correlation_id": number}
        rows["memcpys"].append((start, end, row | call))
        rows["api_calls"].append((at, at + 1, call))
        if text is not None:
            said = text if isinstance(text, dict) else {"text": text}
            rows["nvtx_ranges"].append((at, at + 9, said))
    return draw(**rows, **tables)
