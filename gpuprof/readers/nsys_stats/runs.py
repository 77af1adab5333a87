"""Which tables of a file belong to one recording, and what each is a table of."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from gpuprof.base import cuda
from gpuprof.readers.nsys_stats.blocks import Block

# Other reports have the same columns, so that names tell: cudaMalloc, cuMemAlloc_v2.
API_NAME: Final = re.compile(r"^cu(?:da)?[A-Z]")


# The tables of one recording by their kind.
Run = dict[str, list[Block]]


def kind(block: Block) -> str | None:
    """What a table is a table of; None for what is not read.

    The headings decide, since a title may be another process's where output is mixed.
    """
    headings = block.columns.keys()
    if "Start" in headings:
        return "api_trace" if "Result" in headings else "gpu_trace" if "Strm" in headings else None
    if headings & {"Range", "NVTX Range", "Style", "Kernel Name", "Kern Inst"}:
        return None
    if "Category" in headings:
        return "api_gpu" if "CUDA_API" in block.texts("Category") else "gpu"
    if "Total Time" not in headings:
        return "size"
    return _sum_kind(block)


def _sum_kind(block: Block) -> str | None:
    names = [name for name in block.texts("Name") if name is not None]
    if "GridXYZ" in block.columns:
        return "kernel_by_grid"
    if any(cuda.memcpy_kind(name) is not None or cuda.is_memset(name) for name in names):
        return "memory"
    if any(map(API_NAME.match, names)):
        return "api"
    return "kernel" if "Instances" in block.headings else None


def jobs(parts: Iterable[Block]) -> list[list[Run]]:
    """Tables of each recording, by kind; those of processes that printed at once together.

    A recording has one table of a kind, so the second of a kind begins another one. A file
    does not label the tables of processes that printed at once, as ranks of a job do; the first
    of each kind are then taken together.
    """
    groups: dict[tuple[int, str | None], list[Block]] = defaultdict(list)
    for part in parts:
        report = part.report
        groups[report.segment, report.source].append(part)
    jobs_of_groups: list[list[Run]] = []
    for group in groups.values():
        # Without the tables that say again, or in another way, what one before has said.
        distinct: list[Block] = []
        for part in group:
            report = part.report
            same_kind = [k for k in distinct if k.kind == part.kind and report.source is not None]
            is_another_view = any(k.report.name != report.name for k in same_kind)
            if not is_another_view and all(k.columns != part.columns for k in same_kind):
                distinct.append(part)
        runs = _runs(distinct)
        places = [
            [distinct.index(t) for tables in run.values() for t in tables if t.kind != "size"]
            for run in runs
        ]
        pairs = itertools.pairwise(places)
        is_mixed = any(before and after and max(before) > min(after) for before, after in pairs)
        jobs_of_groups += [runs] if is_mixed else [[run] for run in runs]
    return jobs_of_groups


def _runs(parts: Sequence[Block]) -> list[Run]:
    runs: list[Run] = []
    count: dict[str, int] = defaultdict(int)
    for part in (part for part in parts if part.kind != "size"):
        if count[part.kind] == len(runs):
            runs.append(defaultdict(list))
        runs[count[part.kind]][part.kind].append(part)
        count[part.kind] += 1
    for part in (part for part in parts if part.kind == "size"):
        # The sizes of copies belong to their times: those of the same copies, as often.
        waiting, counts = [run for run in runs if "size" not in run], _counts(part)
        alike = (r for r in waiting if any(_counts(t) == counts for t in r.get("memory", ())))
        run = next(itertools.chain(alike, waiting), None)
        if run is None:
            run = defaultdict(list)
            runs.append(run)
        run["size"] = [part]
    return runs


def _counts(block: Block) -> dict[str | None, str | None]:
    return dict(zip(block.texts("Name"), block.texts("Count"), strict=True))
