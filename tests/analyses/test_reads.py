"""What every analysis owes: it reads what it declares, in one pass, and answers for nothing."""

from collections import Counter

import nsys_export
import pytest
from drawing import draw
from nsys_export import DTOH, HTOD, KERNEL, MEMCPY, MEMSET, NVTX, PAGEABLE, PTOP, RUNTIME, STRINGS
from recordings import trace

from gpuprof.analyses import all_analyses
from gpuprof.analyses.notes import OVERVIEW
from gpuprof.analyses.reports import report
from gpuprof.model.analysis import reads
from gpuprof.model.data_model import BY_NAME
from gpuprof.model.table import Table
from gpuprof.readers import read_profile
from gpuprof.readers.sqlite.source import SqliteFile

NAMES = ("gemm", "ncclDevKernel_AllReduce", "cudaLaunchKernel", "cudaMemcpyAsync", "step", "relu")
EVENTS = ("kernels", "memcpys", "memsets", "api_calls", "nvtx_ranges", "graph_launches")


def _call(start, number, name):
    return {
        "start": start,
        "end": start + 5,
        "nameId": name,
        "globalTid": nsys_export.pid(9) + 9,
        "correlationId": number,
        "eventClass": 0,
    }


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """Six steps on two devices: kernels, a collective, copies of all directions, and ranges."""
    tables = {table: [] for table in (KERNEL, MEMCPY, MEMSET, RUNTIME, NVTX)}
    for step in range(6):
        start, number = 1000 + step * 10_000, step * 10
        tables[NVTX].append(
            {"start": start, "end": start + 900, "eventType": 59, "text": f"step {step}"}
            | {"globalTid": nsys_export.pid(9) + 9}
        )
        for device in (0, 1):
            for place, name in enumerate((1, 6, 2)):
                at, own = start + 1000 + place * 800, number + device * 3 + place
                tables[RUNTIME].append(_call(start + place * 20 + device, own, 3))
                tables[KERNEL].append(
                    nsys_export.kernel(at, at + 700, name, deviceId=device, correlationId=own)
                )
        copies = (
            (HTOD, {"srcKind": PAGEABLE}),
            (DTOH, {}),
            (PTOP, {"srcDeviceId": 0, "dstDeviceId": 1}),
        )
        for place, (kind, ends) in enumerate(copies, 6):
            at = start + place * 1000
            tables[RUNTIME].append(_call(start + place * 20, number + place, 4))
            tables[MEMCPY].append(
                nsys_export.memcpy(at, at + 500, kind, 4096, correlationId=number + place, **ends)
            )
        tables[MEMSET].append(
            {"start": start + 9000, "end": start + 9010, "bytes": 64, "deviceId": 0}
            | {"globalPid": nsys_export.pid(9), "correlationId": 0}
        )
    names = [{"id": place, "value": name} for place, name in enumerate(NAMES, 1)]
    folder = tmp_path_factory.mktemp("training")
    return nsys_export.write(folder / "training.sqlite", {STRINGS: names} | tables)


def _asked_of(path, analysis, monkeypatch):
    """The columns of events that an analysis asks for, by table."""
    asked = {}
    pieces = Table.pieces

    def noted(table, names, *more, **options):
        asked.setdefault(table.schema.name, set()).update(names)
        return pieces(table, names, *more, **options)

    profile = read_profile(path)
    monkeypatch.setattr(Table, "pieces", noted)
    rows = analysis.run(profile).num_rows
    return rows, {table: asked[table] for table in EVENTS if table in asked}


@pytest.mark.parametrize("analysis", all_analyses(), ids=lambda analysis: analysis.name)
def test_an_analysis_asks_for_what_it_declares_and_no_more(training, analysis, monkeypatch):
    profile = read_profile(training)
    if reason := analysis.missing(profile):
        pytest.skip(f"a recording of CUDA has no {reason}")

    _, asked = _asked_of(training, analysis, monkeypatch)

    declared = reads(analysis.reads, analysis.reads_of_small)
    beyond = {table: asked[table] - declared.get(table, set()) for table in asked}
    assert {table: columns for table, columns in beyond.items() if columns} == {}


@pytest.mark.parametrize(
    "names", [None, OVERVIEW, ["kernel_summary"], ["breakdown", "peer_matrix"]], ids=str
)
def test_a_report_reads_each_table_of_a_file_in_one_pass(training, names, monkeypatch):
    passes = []
    read = SqliteFile.read

    def noted(file, table, kinds):
        passes.append(table)
        return read(file, table, kinds)

    monkeypatch.setattr(SqliteFile, "read", noted)
    profile = read_profile(training)
    known = None if names is None else [n for n in names if n != "marked_epochs"]

    tables = report(profile, known).tables

    assert {table: n for table, n in Counter(passes).items() if n > 1} == {}
    assert KERNEL in passes
    assert any(table is not None and table.num_rows for table in tables.values())


def test_kernels_of_a_small_export_are_decoded_in_one_pass(tmp_path, monkeypatch):
    """Also where SQLite would take longer to see whether all of them have times."""
    kernels = [nsys_export.kernel(at, at + 7, 1) for at in range(10, 50_010, 10)]
    tables = {STRINGS: [{"id": 1, "value": "gemm"}], KERNEL: kernels}
    path = nsys_export.write(tmp_path / "small.sqlite", tables)
    passes = []
    read = SqliteFile.read

    def noted(file, table, kinds):
        passes.append(table)
        return read(file, table, kinds)

    monkeypatch.setattr(SqliteFile, "read", noted)

    (row,) = report(read_profile(path), ["kernel_summary"]).tables["kernel_summary"].to_pylist()

    assert (row["calls"], row["total_ns"]) == (5_000, 35_000)
    assert passes.count(KERNEL) == 1


def test_answers_are_the_same_in_any_order(training):
    forth, back = read_profile(training), read_profile(training)
    analyses = [analysis for analysis in all_analyses() if not analysis.missing(forth)]

    first = {analysis.name: forth.once(analysis.run) for analysis in analyses}
    last = {analysis.name: back.once(analysis.run) for analysis in reversed(analyses)}

    assert [name for name, table in first.items() if not table.equals(last[name])] == []
    assert sum(table.num_rows > 0 for table in first.values()) > len(first) / 2


@pytest.mark.parametrize("analysis", all_analyses(), ids=lambda analysis: analysis.name)
def test_where_nothing_ran_a_table_has_its_columns_and_no_rows(analysis):
    """But for sums, which are zero, and for the sentence that nothing was seen."""
    empty = trace(**{name: [] for name in BY_NAME})

    for nothing in (empty, draw()):
        if not analysis.missing(nothing):
            table = analysis.run(nothing)
            assert table.schema == analysis.schema.arrow
            is_told = analysis.name == "totals" or (analysis.name, nothing) == (
                "bottom_line",
                empty,
            )
            assert (table.num_rows > 0) == is_told
