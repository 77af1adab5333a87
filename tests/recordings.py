"""Recordings made by hand, for tests of what comes after the readers."""

from itertools import count
from pathlib import Path

from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

_NUMBERS = count()


def trace(**tables):
    """A recording with trace tables: rows are dicts; times default to 0 to 1."""
    times = {"start_ns": 0, "end_ns": 1}
    sources = {
        name: data_model.BY_NAME[name].table([times | row for row in rows])
        for name, rows in tables.items()
    }
    return Profile(Origin(Path("trace.sqlite"), "made-by-hand", "hand"), sources)


def copy(kind, start, end, **columns):
    return {"memcpy_kind": kind, "start_ns": start, "end_ns": end, **columns}


def kernel(name, start, end, **columns):
    return {"name": name, "start_ns": start, "end_ns": end, **columns}


def row(name, calls, total_ns, share=None, **columns):
    """A row of a printed summary; its kind follows from the name."""
    kinds = {"HtoD": "memcpy", "DtoH": "memcpy", "DtoD": "memcpy", "PtoP": "memcpy"}
    kind = kinds.get(name, "memset" if name == "memset" else "kernel")
    return {
        "activity_kind": kind,
        "name": name,
        "calls": calls,
        "total_ns": total_ns,
        "mean_ns": total_ns / calls,
        "printed_share": share,
        **columns,
    }


def summary(*rows, source=None, variant=None, **tables):
    """A recording that holds only what a tool summed up, from a file of its own."""
    source = source or f"summary-{next(_NUMBERS)}.txt"
    sources = {"activity_summary": data_model.ACTIVITY_SUMMARY.table(list(rows))}
    sources |= {name: data_model.BY_NAME[name].table(found) for name, found in tables.items()}
    origin = Origin(Path(source), "nvprof-text", "nvprof", variant=variant)
    return Profile(origin, sources)


# What two K80s did for one model in three placements, as nvprof printed it, rounded to ms.
SINGLE = (
    row("conv", 527_471, 36_499_000_000, 0.9251),
    row("DtoD", 29_100, 2_327_000_000, 0.0590),
    row("HtoD", 37_357, 410_000_000, 0.0104),
    row("DtoH", 12_805, 118_000_000, 0.0030),
    row("memset", 24_740, 98_000_000, 0.0025),
)
DUAL = (
    row("conv", 535_711, 37_230_000_000, 0.7403),
    row("PtoP", 78_292, 10_098_000_000, 0.2008),
    row("DtoD", 29_100, 2_320_000_000, 0.0461),
    row("HtoD", 37_361, 430_000_000, 0.0085),
    row("DtoH", 12_805, 120_000_000, 0.0024),
    row("memset", 24_744, 96_000_000, 0.0019),
)
EXAGGERATED = (
    row("conv", 535_711, 37_232_000_000, 0.6989),
    row("PtoP", 94_774, 13_070_000_000, 0.2453),
    row("DtoD", 29_100, 2_320_000_000, 0.0435),
    row("HtoD", 37_361, 436_000_000, 0.0082),
    row("DtoH", 12_805, 121_000_000, 0.0023),
    row("memset", 24_744, 96_000_000, 0.0018),
)
# Three rows that an article printed of the same tables: nothing more is known.
PUBLISHED_SINGLE = (row("UnsortedSegmentCustomKernel", 4120, 6_921_090_000, 0.1754),)
PUBLISHED_DUAL = (row("PtoP", 78_292, 10_097_800_000, 0.2008),)
PUBLISHED_EXAGGERATED = (row("PtoP", 94_774, 13_069_600_000, 0.2453),)
