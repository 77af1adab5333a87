"""Columns beyond the budget of memory lie in temporary files, and give the same results."""

import gc
import json
import os
import subprocess
import sys
import tempfile

import nsys_export
import numpy as np
import pyarrow as pa
import pytest
from commands import ROOT, gpuprof

from gpuprof.base.errors import InputError, UsageError
from gpuprof.model import data_model, spilling
from gpuprof.model.profile import Profile
from gpuprof.model.spilling import BUDGET, KeptColumns, Packed, Spilled
from gpuprof.model.table import Part, Table
from tests.test_profile import ORIGIN

BATCH_ROWS = 4_096
ROWS = 2 * BATCH_ROWS + 3
TEXTS = pa.array(["a", "b", "c"])
# Of each type that readers give, in pieces of uneven lengths.
VALUES = {
    "start": pa.chunked_array([range(1000), range(1000, ROWS)], pa.int64()),
    "end": pa.chunked_array([range(1, ROWS), [ROWS]], pa.int64()),
    "small": pa.chunked_array([pa.array([None, 1, -5] * (ROWS // 3), pa.int8()), [7, 8]]),
    "text": pa.chunked_array([["x"] * 7, [None] * (ROWS - 7)], pa.string()),
    "code": pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(pa.array([0, None, 2], pa.int8()), TEXTS),
            pa.DictionaryArray.from_arrays(pa.array([1] * (ROWS - 3), pa.int8()), TEXTS),
        ]
    ),
    "codes": pa.chunked_array([["d", None], ["e"] * (ROWS - 2)]).dictionary_encode(),
    "other codes": pa.chunked_array(
        [
            pa.array(["f", None]).dictionary_encode(),
            pa.array(["g"] * (ROWS - 2)).dictionary_encode(),
        ]
    ),
    "share": pa.array([0.5] * ROWS),
    "nothing": pa.nulls(ROWS, pa.int16()),
}
TEXT = {"text", "code", "codes", "other codes"}
KINDS = {name: pa.string() if name in TEXT else pa.int64() for name in VALUES}
KINDS["share"] = pa.float64()
# Ends by Ctrl-C's brake while columns lie on the disk.
STOPPED = """
import os, tempfile
from tests.test_spilled_columns import columns
from gpuprof.base import signals
table = columns()
next(table.pieces(["start", "end"]))
print(*os.listdir(tempfile.gettempdir()), flush=True)
signals.end()
"""


@pytest.fixture(autouse=True)
def _few_rows_at_once(monkeypatch):
    """Pieces of which small tables have several."""
    monkeypatch.setattr(spilling, "BATCH_ROWS", BATCH_ROWS)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files go."""
    # What earlier tests left in cycles would count as in memory.
    gc.collect()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def export(tmp_path):
    """A recording with kernels, their calls and a copy."""
    path = tmp_path / "x.sqlite"
    kernels = [
        nsys_export.kernel(10 * i, 10 * i + 5 + i % 3, 1 + i % 2, correlationId=i)
        for i in range(7_000)
    ]
    calls = [
        {"start": 10 * i - 9, "end": 10 * i - 7, "eventClass": 1, "globalTid": nsys_export.pid(9),
         "correlationId": i, "nameId": 3} for i in range(7_000)
    ]  # fmt: skip
    texts = ["saxpy(float*)", "gemm", "cudaLaunchKernel_v7000"]
    strings = [{"id": i, "value": text} for i, text in enumerate(texts, 1)]
    copies = [nsys_export.memcpy(70_000, 70_050, nsys_export.HTOD)]
    return nsys_export.write(
        path,
        {
            nsys_export.STRINGS: strings,
            nsys_export.KERNEL: kernels,
            nsys_export.RUNTIME: calls,
            nsys_export.MEMCPY: copies,
        },
    )


def columns(passes=None, most_rows=lambda: ROWS):
    """Columns of a file, which notes what each pass reads."""

    def read(kinds):
        if passes is not None:
            passes.append([*kinds])
        # What stays alive counts as in memory: not those that all tests share.
        return {name: VALUES[name].slice(0) for name in kinds}

    return KeptColumns(KINDS, read, most_rows)


def decoded(table, names):
    """Values of columns, piece by piece, as lists."""
    pieces = [*table.pieces(names)]
    assert all(len(piece[0].numbers) <= spilling.BATCH_ROWS for piece in pieces)
    columns = zip(names, zip(*pieces, strict=True), strict=True)
    return {name: [value for piece in of for value in piece.listed] for name, of in columns}


def figures(text):
    """What JSON says, fractions without the digits that the order of sums decides."""
    return json.loads(text, parse_float=lambda digits: f"{float(digits):.9g}")


@pytest.mark.parametrize("budget", ["1B", "90KB", "180KB", "1GB"])
def test_spilled_columns_are_those_in_memory(folder, monkeypatch, budget):
    monkeypatch.setenv(BUDGET, budget)
    table = columns()

    values = decoded(table, [*VALUES])

    assert values == {name: column.to_pylist() for name, column in VALUES.items()}
    kept = table._columns  # noqa: SLF001
    assert {n: column.type for n, column in kept.items()} == {n: c.type for n, c in VALUES.items()}
    spilled = [n for n, column in kept.items() if isinstance(column, Spilled)]
    del kept
    assert len([*folder.iterdir()]) == len(spilled)
    assert {"1B": len(VALUES), "1GB": 0}.get(budget, len(spilled)) == len(spilled)
    assert budget in {"1B", "1GB"} or 0 < len(spilled) < len(VALUES)
    del table
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize("budget", ["1B", "90KB", "1GB"])
def test_queries_give_the_same_of_spilled_columns(folder, monkeypatch, budget):
    monkeypatch.setenv(BUDGET, budget)
    named = {"start_ns": "start", "end_ns": "end", "stream_id": "small", "name": "other codes"}
    table = Table(data_model.KERNELS, [Part(columns(), named)])
    profile = Profile(ORIGIN, {"kernels": lambda: table})

    rows = profile.query(
        "SELECT count(*) AS n, sum(start_ns)::BIGINT AS starts, count(stream_id) AS streams"
        " FROM kernels WHERE end_ns > 3"
    )
    twice = profile.query("SELECT count(*) AS n FROM kernels a JOIN kernels b USING (start_ns)")

    assert rows.to_pylist() == [
        {"n": ROWS - 3, "starts": ROWS * (ROWS - 1) // 2 - 3, "streams": 2 * (ROWS // 3) + 2 - 2}
    ]
    assert twice.to_pylist() == [{"n": ROWS}]
    assert bool([*folder.iterdir()]) is (budget != "1GB")


@pytest.mark.parametrize(
    ("budget", "columns_at_once"), [("1B", 1), ("62KB", 1), ("137KB", 2), ("1GB", 9)]
)
@pytest.mark.usefixtures("folder")
def test_a_pass_reads_as_many_columns_as_there_is_room_for(monkeypatch, budget, columns_at_once):
    monkeypatch.setenv(BUDGET, budget)
    # Columns that other tests keep take of the budget, too.
    monkeypatch.setattr(spilling, "_budget", spilling._Budget())  # noqa: SLF001
    passes = []

    next(columns(passes).pieces([*VALUES]))

    assert len(passes[0]) == columns_at_once
    assert [name for names in passes for name in names] == [*VALUES]


def test_columns_take_room_until_they_are_let_go(folder, monkeypatch):
    monkeypatch.setenv(BUDGET, "15KB")
    monkeypatch.setattr(spilling, "_budget", spilling._Budget())  # noqa: SLF001
    kinds = dict.fromkeys("abc", pa.int64())
    columns = KeptColumns(kinds, lambda read: {name: pa.array(range(1_000)) for name in read})
    files_after = {}
    for name in "abc":
        next(columns.pieces(name))
        files_after[name] = len([*folder.iterdir()])
        if name == "b":
            columns.release("")
            gc.collect()

    # Eight kilobytes each: there is room for the second no more, for the third again.
    assert files_after == {"a": 0, "b": 1, "c": 0}


@pytest.mark.parametrize(
    ("column", "expected", "size_bytes"),
    [
        pytest.param(
            Packed(
                [np.array([0, 5], np.int32), np.array([7], np.int32)],
                [np.array([100]), np.array([1_000])],
            ),
            [100, 105, 1_007],
            3 * 8,
            id="distances",
        ),
        pytest.param(
            Packed([np.array([1, 0], np.int8)], [np.array([1 << 40, 2])]),
            [2, 1 << 40],
            2 * 8,
            id="places",
        ),
        pytest.param(
            Packed([np.array([1], np.int8), np.array([2], np.int16)]), [1, 2], 2 * 2, id="widths"
        ),
        pytest.param(
            Packed([np.array([1, -128], np.int8), np.array([-128], np.int16)], has_nulls=True),
            [1, None, -128],
            2 + 2,
            id="nulls",
        ),
    ],
)
def test_a_small_column_has_the_same_values_whenever_it_is_asked(column, expected, size_bytes):
    packed_bytes = column.get_total_buffer_size()
    for taken_bytes in (packed_bytes, size_bytes, size_bytes):
        assert [value for piece in column.slices(10) for value in piece.listed] == expected
        assert column.get_total_buffer_size() == taken_bytes
    assert [value for piece in column.slices(2) for value in piece.listed] == expected


def test_columns_that_were_let_go_are_read_anew():
    passes_over_the_file = []

    def read(kinds):
        passes_over_the_file.append([*kinds])
        return {name: pa.array([1, 2]) for name in kinds}

    columns = KeptColumns(dict.fromkeys("abc", pa.int64()), read)
    columns.expect("abc")
    before = [[column.listed for column in piece] for piece in columns.pieces("ab")]
    columns.release("a")
    after = [[column.listed for column in piece] for piece in columns.pieces("ab")]

    assert before == after == [[[1, 2], [1, 2]]]
    # One that stayed is not read again, nor one that nobody asks for any more.
    assert passes_over_the_file == [["a", "b", "c"], ["b"]]


@pytest.mark.parametrize(("events", "passes"), [(1_000_000, 2), (999_999, 1)])
def test_a_large_recording_lets_go_of_columns_that_are_asked_for_no_more(events, passes):
    passes_over_the_file = []

    def read(kinds):
        passes_over_the_file.append([*kinds])
        return {name: pa.array([1, 2]) for name in kinds}

    names = ("start_ns", "end_ns", "correlation_id")
    stored = KeptColumns(dict.fromkeys(names, pa.int64()), read)
    kernels = Table(data_model.KERNELS, [Part(stored, {name: name for name in names})])
    profile = Profile(ORIGIN, {"kernels": lambda: kernels}, stored=events)
    before = [[column.tolist() for column in piece] for piece in profile.columns("kernels", *names)]

    profile.let_go("kernels", "correlation_id")
    after = [[column.tolist() for column in piece] for piece in profile.columns("kernels", *names)]

    assert before == after == [[[1, 2]] * 3]
    assert passes_over_the_file == [[*names], ["correlation_id"]][:passes]


@pytest.mark.parametrize(
    "words", [("report", "--all"), ("report", "--table", "ranges")], ids=lambda words: words[1]
)
def test_commands_print_the_same_with_little_memory(export, tmp_path, words):
    folder = tmp_path / "temporary"
    folder.mkdir()
    words = (*words, "--format", "json")
    plain = gpuprof(*words, export)

    spilled = gpuprof(*words, export, **{BUDGET: "1B", "TMPDIR": str(folder)})

    assert (spilled.returncode, spilled.stderr) == (plain.returncode, plain.stderr) == (0, "")
    assert figures(spilled.stdout) == figures(plain.stdout)
    assert [*folder.iterdir()] == []


def test_files_of_a_job_give_the_same_with_little_memory(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    files = [
        nsys_export.write(
            tmp_path / f"rank{rank}.sqlite",
            {nsys_export.KERNEL: [nsys_export.kernel(i, i + 1 + rank) for i in range(0, 300, 3)]},
        )
        for rank in range(2)
    ]
    words = ("report", "--table", "gaps", "--table", "kernel_summary", "--format", "json", *files)
    plain = gpuprof(*words)

    spilled = gpuprof(*words, **{BUDGET: "1B", "TMPDIR": str(folder)})

    assert (spilled.returncode, spilled.stderr) == (plain.returncode, plain.stderr)
    assert plain.returncode == 0
    assert figures(spilled.stdout) == figures(plain.stdout)
    assert [*folder.iterdir()] == []


def test_ctrl_c_leaves_no_column_behind(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED],
        env=os.environ
        | {"TMPDIR": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{ROOT}/tests/readers"}
        | {BUDGET: "1B"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 130, ended.stderr
    assert len(ended.stdout.split()) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_in_one_line(export, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = f"ulimit -f 8; exec {sys.executable} -m gpuprof report {export}"
    ended = subprocess.run(
        ["bash", "-c", command],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), BUDGET: "1B"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines() == [
        f"Error: {folder} has no room for what does not fit into memory: File too large",
        "Hint: Set TMPDIR to a folder with more room.",
    ]
    assert [*folder.iterdir()] == []


def test_a_folder_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))

    with pytest.raises(InputError) as caught:
        Spilled(VALUES["start"])

    assert caught.value.message.endswith("No such file or directory")


def test_a_budget_that_is_no_size_is_told(monkeypatch):
    monkeypatch.setenv(BUDGET, "much")

    with pytest.raises(UsageError) as caught:
        next(columns().pieces(["start"]))

    assert (
        caught.value.message == f'{BUDGET} is no size: expected a number with a unit, found "much"'
    )
    assert caught.value.hint == f"Write {BUDGET}=300MB or 1.5GB."


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        pytest.param("0::/a/b", {"a/memory.max": "4000", "a/b/memory.max": "max"}, 1000, id="v2"),
        pytest.param("0::/a/b", {"memory.max": "800", "a/b/memory.max": "900"}, 200, id="outer"),
        pytest.param(
            "9:name=systemd:/x\n4:memory:/job\n0::/", {"memory/job/memory.limit_in_bytes": "400"},
            100, id="v1",
        ),
        pytest.param(
            "4:memory:/elsewhere", {"memory/memory.limit_in_bytes": "80"}, 20, id="v1-container"
        ),
    ],
)  # fmt: skip
def test_the_budget_is_a_quarter_of_what_a_group_of_processes_may_take(
    tmp_path, monkeypatch, membership, files, expected
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "cgroup").write_text(membership + "\n")
    monkeypatch.setattr(spilling, "_MEMBERSHIP", tmp_path / "cgroup")
    groups = {
        kind: (root.replace("/sys/fs/cgroup", str(tmp_path)), name)
        for kind, (root, name) in spilling._GROUPS.items()  # noqa: SLF001
    }
    monkeypatch.setattr(spilling, "_GROUPS", groups)
    monkeypatch.setattr(spilling, "_memory_bytes", spilling._memory_bytes.__wrapped__)  # noqa: SLF001
    monkeypatch.delenv(BUDGET, raising=False)

    assert spilling._budget_bytes() == expected  # noqa: SLF001


def test_without_groups_the_budget_is_a_quarter_of_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(spilling, "_MEMBERSHIP", tmp_path / "none")
    monkeypatch.setattr(spilling, "_memory_bytes", spilling._memory_bytes.__wrapped__)  # noqa: SLF001
    monkeypatch.delenv(BUDGET, raising=False)

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert spilling._budget_bytes() == memory // 4  # noqa: SLF001
