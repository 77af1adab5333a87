"""Recordings that every reader is tried on, and the figures that a recording comes to."""

import csv
from pathlib import Path

import pyarrow.compute as pc
import pytest

from gpuprof.analyses.activity_summary import activity_summary
from gpuprof.base import cuda
from gpuprof.facts.activity_sums import TABLES
from gpuprof.model import data_model
from gpuprof.readers import all_readers, find_reader

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_logs"
CORPUS = ROOT.parent / "shared" / "corpus"
# Only the installed nsys can open streams.
TOOL_NEEDED = {".qdstrm"}
MEMORY_KINDS = frozenset(cuda.NSYS_MEMORY_KINDS.values())
# An older word for the same is in no recording.
MEMCPY_KINDS = frozenset(cuda.MEMCPY_KINDS.values()) | {"UVM_DtoD"}
EXPECTATIONS = ROOT / "tests" / "readers" / "corpus_expectations.tsv"
# Copies are ``kind:calls:ns:bytes``; ``-`` where nothing says.
HEADINGS = (
    "path", "reader", "runs", "kernel_names", "kernels", "kernel_ns", "copies", "memsets",
    "memset_ns", "api_names", "api_calls", "api_ns", "ranges", "resolution_ns", "schema_version",
    "warnings", "refusal",
)  # fmt: skip


def sample_recordings():
    """Every sample: a file, or a folder that a recorder made."""
    return sorted(_recordings(SAMPLES)) if SAMPLES.is_dir() else []


def _recordings(folder):
    for path in folder.iterdir():
        if path.is_file() and path.name != "README.md":
            yield path
        elif path.is_dir():
            yield from [path] if _is_recording(path) else _recordings(path)


def _is_recording(folder):
    try:
        return bool(find_reader(folder))
    except Exception:  # noqa: BLE001 - whatever a reader does wrong is a file's test to say
        return False


def corpus_files():
    """Every real file that other people recorded; none where the corpus is not here."""
    return sorted(p for p in CORPUS.rglob("*") if p.is_file() and p.name != "INDEX.tsv")


def params(paths):
    """Recordings by their names; those that only the installed nsys can open are marked so."""
    return [
        pytest.param(
            path,
            id=name_of(path),
            marks=[pytest.mark.profilers] if path.suffix in TOOL_NEEDED else [],
        )
        for path in paths
    ]


def few_of_each_writer(paths, count):
    """The smallest real files of each reader and version of its schema, of those that are read."""
    rows, kept = expectations(), {}
    for path in sorted(paths, key=lambda path: path.stat().st_size):
        _, reader, *_, version, _, refusal = rows[name_of(path)]
        if refusal == "-" and path.suffix not in TOOL_NEEDED:
            kept.setdefault((reader, version), []).append(path)
    return sorted(path for alike in kept.values() for path in alike[:count])


def name_of(path):
    """A recording's path within the corpus or the checkout."""
    return str(path.relative_to(CORPUS if path.is_relative_to(CORPUS) else ROOT))


def expectations():
    """What real files come to: a row by each path."""
    with EXPECTATIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert tuple(rows[0]) == HEADINGS
    return {row[0]: row for row in rows[1:]}


def check_error(error):
    """An error is a message of one line, with a hint of one line or none."""
    assert error.message
    assert "\n" not in error.message
    assert error.hint is None or "\n" not in error.hint


def check_tables(profile):
    """Tables are those that the reader gives, with the columns, times and words of the schema."""
    gives = next(r.gives for r in all_readers() if r.name == profile.origin.reader)
    assert set(profile.sources) <= set(gives)
    for name in profile.sources:
        table = profile.table(name)
        spec = data_model.BY_NAME[name]
        assert table.schema == spec.arrow, name
        for column, meaning in spec.columns.items():
            assert not (meaning.required and table.column(column).null_count), (name, column)
        _check_times(name, table)
        _check_words(name, table)


def _check_times(name, table):
    if "start_ns" not in table.column_names or not table.num_rows:
        return
    start = table.column("start_ns")
    if "end_ns" in table.column_names:  # an instant has none
        assert pc.all(pc.less_equal(start, table.column("end_ns"))).as_py(), name
    assert pc.all(pc.less_equal(start[:-1], start[1:])).as_py() in (True, None), name


def _check_words(name, table):
    words = {"memcpy_kind": MEMCPY_KINDS, "src_memory_kind": MEMORY_KINDS}
    words |= {"dst_memory_kind": MEMORY_KINDS, "memory_kind": MEMORY_KINDS}
    words |= {"path": {"direct", "staged"}, "api": {"runtime", "driver"}}
    words |= {"activity_kind": {"kernel", "memcpy", "memset", "api"}}
    for column in words.keys() & set(table.column_names):
        found = set(pc.unique(table.column(column)).to_pylist()) - {None}
        assert found <= words[column], (name, column)


def figures(profile):
    """Calls, times and bytes of a recording by kind, as words; ``-`` where nothing says."""
    of_kind = {"kernel": [], "memcpy": [], "memset": [], "api": []}
    if any(profile.has(table) for table in TABLES):
        for row in activity_summary(profile).to_pylist():
            of_kind[row["activity_kind"]].append(row)
    kernels, copies, memsets, calls = of_kind.values()
    of_copies = {}
    for row in copies:
        of_copies.setdefault(row["name"], []).append(row)
    sums_of_copies = [
        ":".join([name, *(_sum(rows, column) for column in ("calls", "total_ns", "bytes"))])
        for name, rows in sorted(of_copies.items())
    ]
    return [
        _rows(profile, "runs"),
        str(len(kernels)), _sum(kernels, "calls"), _sum(kernels, "total_ns"),
        " ".join(sums_of_copies) or "-",
        _sum(memsets, "calls"), _sum(memsets, "total_ns"),
        str(len(calls)), _sum(calls, "calls"), _sum(calls, "total_ns"),
        _rows(profile, "nvtx_ranges"),
        str(profile.origin.start_resolution_ns), profile.origin.schema_version or "-",
    ]  # fmt: skip


def _sum(rows, column):
    known = [row[column] for row in rows if row[column] is not None]
    return str(sum(known)) if known else "-"


def _rows(profile, table):
    return str(profile.table(table).num_rows) if profile.has(table) else "-"
