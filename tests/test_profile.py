import copy
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from commands import ROOT
from hypothesis import given
from hypothesis import strategies as st
from recordings import kernel, trace

import gpuprof
from gpuprof.base import machine
from gpuprof.base.errors import MissingTableError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.model.spilling import KeptColumns
from gpuprof.model.stored import InMemory
from gpuprof.model.table import Computed, Part, Selection, Table
from gpuprof.model.words import Names
from gpuprof.readers import read_profile

STAGED = ROOT / "gpuprof" / "docs" / "recordings" / "staged.gpuprof"

ORIGIN = Origin(source=Path("train.txt"), reader="nvprof-text", tool="nvprof")
TWO_KERNELS = data_model.KERNELS.table(
    [
        {"start_ns": 10, "end_ns": 30, "name": "b", "device_id": 1},
        {"start_ns": 0, "end_ns": 5, "name": "a", "device_id": 0},
    ]
)


def of_file(columns, schema=data_model.KERNELS, names=None, **made):
    """A recording with one table, made of the columns of a file."""
    part = Part(InMemory(pa.table(columns)), made)
    return Profile(ORIGIN, {schema.name: lambda: Table(schema, [part], names)})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"tool_version": "2026.1.1", "exporter_version": "2026.2.1"}, "nsys 2026.1.1"),
        ({"exporter_version": "2026.2.1"}, "nsys (exported by 2026.2.1)"),
        ({}, "nsys"),
        ({"tool": TIMING_ONLY}, "timed without a profiler"),
    ],
)
def test_the_recorder_is_the_tool_that_recorded(fields, expected):
    origin = Origin(**{"source": Path("a"), "reader": "nsys-sqlite", "tool": "nsys"} | fields)

    assert origin.recorder == expected


def test_missing_table_is_not_an_empty_table():
    profile = Profile(ORIGIN, {"memcpys": data_model.MEMCPYS.empty()})

    assert profile.table("memcpys").num_rows == 0
    with pytest.raises(MissingTableError) as caught:
        profile.table("kernels")
    assert caught.value.message == "train.txt has no kernels table (read as nvprof-text)"
    assert caught.value.hint == "Record with `gpuprof record`, which keeps every activity."


def test_a_table_has_the_columns_of_the_schema_and_is_sorted_by_start():
    profile = of_file(
        {"s": [7, 3], "e": [9, 4], "n": ["late", "early"]}, start_ns="s", end_ns="e", name="n"
    )

    table = profile.table("kernels")

    assert table.schema == data_model.KERNELS.arrow
    assert table.column("name").to_pylist() == ["early", "late"]
    assert table.column("stream_id").null_count == 2


def test_frames_keep_integers_integers_beside_missing_values():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    frame = profile.tables["kernels"]

    assert str(frame["stream_id"].dtype) == "int64[pyarrow]"
    assert frame["stream_id"].isna().all()
    assert list(profile.tables) == ["kernels"]
    assert "memcpys" not in profile.tables


def test_what_several_analyses_need_is_computed_once():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})
    asked = []

    def rows(given):
        asked.append(given)
        return given.table("kernels").num_rows

    assert [profile.once(rows), profile.once(rows)] == [2, 2]
    assert asked == [profile]


MANY = 1_000_000


@pytest.fixture
def two_cores(monkeypatch):
    """A machine with two cores of our own, whatever this one has."""
    monkeypatch.delenv(machine.PROCESSES, raising=False)
    monkeypatch.setattr(machine, "core_count", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_processes_that_share_a_machine_compute_nothing_ahead(monkeypatch):
    monkeypatch.setenv(machine.PROCESSES, "2")
    profile, computed = Profile(ORIGIN, {"kernels": TWO_KERNELS}, stored=MANY), []

    profile.compute_ahead([computed.append])
    profile.end_second_thread(is_done=True)

    assert computed == []


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("stored", [0, MANY])
def test_only_of_large_recordings_a_second_thread_computes_ahead(stored):
    profile, computed = Profile(ORIGIN, {"kernels": TWO_KERNELS}, stored=stored), []

    profile.compute_ahead([computed.append])
    profile.end_second_thread(is_done=True)

    assert len(computed) == (stored > 0)


@pytest.mark.usefixtures("two_cores")
def test_functions_of_two_threads_compute_once_what_both_ask_for():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS}, stored=MANY)
    threads = []

    def count(given):
        threads.append(threading.current_thread())
        return given.query("SELECT count(*) AS n FROM kernels").column(0)[0].as_py()

    def here(given):
        return given.once(count) + 1

    def beside(given):
        return given.once(count) + 2

    profile.compute_ahead([beside])
    profile.once(here)
    profile.end_second_thread(is_done=True)

    assert [profile.once(here), profile.once(beside)] == [3, 4]
    assert len(threads) == 1


@pytest.mark.usefixtures("two_cores")
def test_what_fails_on_the_second_thread_fails_where_it_is_asked_for():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS}, stored=MANY)
    threads = []

    def fail(given):
        threads.append(threading.current_thread())
        given.require("memcpys")

    profile.compute_ahead([fail])
    profile.end_second_thread(is_done=True)

    with pytest.raises(MissingTableError):
        profile.once(fail)
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


def test_a_fact_of_a_name_that_the_file_numbers_comes_with_every_row():
    profile = of_file(
        {"s": [0, 5, 7], "e": [4, 9, 8], "number": [2, 1, 2]},
        names=lambda: Names([1, 2, 3], {"name": ["a", "nccl_kernel", "c"]}),
        start_ns="s",
        end_ns="e",
        name_id="number",
    )

    found = profile.query("SELECT is_communication AS found FROM kernels ORDER BY start_ns")

    assert found.column("found").to_pylist() == [True, False, True]
    assert profile.table("kernels").schema == data_model.KERNELS.arrow


WHOLE = Profile(
    ORIGIN,
    {
        "kernels": data_model.KERNELS.table(
            [
                {"start_ns": s, "end_ns": s + 10, "name": "a", "device_id": s % 2}
                for s in (0, 5, 10, 15)
            ]
        ),
        "memcpys": data_model.MEMCPYS.table(
            [
                {"start_ns": 0, "end_ns": 1, "memcpy_kind": "PtoP", "device_id": 0}
                | {"src_device_id": 0, "dst_device_id": 1},
                {"start_ns": 1, "end_ns": 2, "memcpy_kind": "HtoD", "device_id": 0},
            ]
        ),
        "activity_summary": data_model.ACTIVITY_SUMMARY.empty(),
        "devices": data_model.DEVICES.table([{"device_id": 0}, {"device_id": 1}]),
    },
)


def _starts(profile, table="kernels"):
    return profile.table(table).column("start_ns").to_pylist()


@given(borders=st.sets(st.integers(-20, 200), max_size=60), starts=st.lists(st.integers(-30, 210)))
def test_activities_of_many_windows_are_those_that_start_in_one(borders, starts):
    ordered = sorted(borders)
    windows = tuple(zip(ordered[::2], ordered[1::2], strict=False))
    profile = trace(kernels=[kernel("k", start, start + 1) for start in starts])

    part = profile.restricted(Selection(windows)).table("kernels")["start_ns"].to_pylist()

    assert part == sorted(t for t in starts if any(s <= t < e for s, e in windows))


@given(
    borders=st.sets(st.integers(-20, 60), max_size=8),
    starts=st.lists(st.integers(-30, 70), max_size=20),
    devices=st.lists(st.sampled_from([0, 1, None]), min_size=20, max_size=20),
    device_id=st.sampled_from([None, 0, 1, 2]),
    is_timed=st.booleans(),
)
def test_a_part_has_the_timed_rows_of_its_windows_and_its_device(
    borders, starts, devices, device_id, is_timed
):
    ordered = sorted(borders)
    windows = tuple(zip(ordered[::2], ordered[1::2], strict=False)) or None
    # What was never timed has 0 for both.
    rows = [(s, s + 2 if s else 0, d) for s, d in zip(starts, devices, strict=False)]
    stored = {name: [row[place] for row in rows] for place, name in enumerate("sed")}
    timed = Computed(("s", "e"), lambda start, end: (start != 0) | (end != 0))
    part = Part(
        InMemory(pa.table({name: pa.array(values, pa.int64()) for name, values in stored.items()})),
        {"start_ns": "s", "end_ns": "e", "device_id": "d"},
        (timed,) if is_timed else (),
    )
    table = Table(data_model.MEMSETS, [part] if rows else [])
    recording = Profile(ORIGIN, {"memsets": lambda: table})
    asked = recording.restricted(Selection(windows, device_id))

    # The second pass knows from the first whether rows are left out.
    first, second = (
        [
            row
            for piece in asked.columns("memsets", "end_ns", "device_id")
            for row in zip(*(column.tolist() for column in piece), strict=True)
        ]
        for _ in range(2)
    )

    assert (
        first
        == second
        == [
            (end, -2 if device is None else device)
            for start, end, device in rows
            if (windows is None or any(low <= start < high for low, high in windows))
            and (device_id is None or device == device_id)
            and not (is_timed and start == end == 0)
        ]
    )


def test_a_copy_belongs_to_the_devices_at_both_ends():
    of_1 = WHOLE.restricted(Selection(device_id=1))

    assert _starts(of_1) == [5, 15]
    assert _starts(of_1, "memcpys") == [0]


def test_a_window_has_no_summary_of_the_whole_recording():
    part = WHOLE.restricted(Selection(((0, 5),)))

    assert not part.has("activity_summary")
    assert part.table("devices").num_rows == 2
    assert part.unrestricted is WHOLE
    assert part.restricted(Selection()).unrestricted is WHOLE


def test_a_part_with_a_table_of_its_own_does_not_change_the_whole():
    recording = of_file(
        {"s": [0, 5, 7]}, start_ns="s", end_ns="s", name=Computed((), int, lambda: ["a"])
    )
    part = recording.restricted(Selection(windows=((0, 6),))).with_table("kernels", TWO_KERNELS)

    assert _starts(part) == [0]
    assert recording.table("kernels").num_rows == 3


def test_a_long_query_draws_no_progress_bar_among_the_results():
    profile = Profile(Origin(Path("x"), "made-by-hand", "hand"), {})

    settings = profile.query("SELECT current_setting('enable_progress_bar') AS bar")

    assert settings.column("bar").to_pylist() == [False]


class _Read:
    """Notes which of a file's columns are read, and when."""

    def __init__(self):
        self.passes = []
        values = {"s": [0, 5, 7], "e": [4, 9, 8], "n": ["a", "b", "a"], "g": [1, 1, 1]}
        kinds = {n: pa.string() if n == "n" else pa.int64() for n in values}

        def read(columns):
            self.passes.append(sorted(columns))
            return {name: pa.array(values[name]) for name in columns}

        columns = {"start_ns": "s", "end_ns": "e", "name": "n", "grid_x": "g"}
        table = Table(data_model.KERNELS, [Part(KeptColumns(kinds, read), columns)])
        self.profile = Profile(ORIGIN, {"kernels": lambda: table})


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        pytest.param("SELECT max(start_ns) FROM kernels", ["s"], id="bare"),
        pytest.param("SELECT max(end_ns) FROM kernels", ["e", "s"], id="and-its-bound"),
        pytest.param('SELECT "Grid_X" FROM Kernels', ["g", "s"], id="spelt-otherwise"),
        pytest.param("SELECT k.name FROM kernels k", ["n", "s"], id="aliased"),
        pytest.param("SELECT is_communication FROM kernels", ["n", "s"], id="derived"),
        pytest.param("SELECT * FROM kernels", ["e", "g", "n", "s"], id="all"),
        pytest.param("FROM kernels", ["e", "g", "n", "s"], id="all-unsaid"),
        pytest.param("SELECT k.* FROM kernels k", ["e", "g", "n", "s"], id="all-of-alias"),
        pytest.param(
            "SELECT n FROM (SELECT max(grid_x) AS n FROM kernels)", ["g", "s"], id="all-of-some"
        ),
    ],
)
def test_a_query_reads_the_columns_that_it_names_and_the_order(sql, columns):
    read = _Read()

    read.profile.query(sql)

    assert read.passes == [columns]


def test_what_is_announced_is_read_in_one_pass():
    read = _Read()

    read.profile.expect({"kernels": ("start_ns", "grid_x"), "memcpys": ("bytes",)})
    assert read.passes == []
    for column in ("grid_x", "start_ns", "end_ns"):
        list(read.profile.columns("kernels", column))

    assert read.passes == [["g", "s"], ["e"]]


def test_columns_that_are_named_in_no_known_way_are_read_all_the_same():
    found = _Read().profile.query("SELECT struct_extract(k, 'grid' || '_x') FROM kernels k")

    assert found.column(0).to_pylist() == [1, 1, 1]


def test_a_recording_shows_itself():
    shown = repr(read_profile(STAGED))

    flat = " ".join(shown.split())
    assert flat.startswith(f"{STAGED}: ")
    assert ", read as drawn 2 devices, 182 ms, 1,040 kernels, 160 transfers, 1,280 API " in flat
    assert "A step takes 4.57 ms, of it 1.38 ms (30.2 %) in copies" in flat
    assert "1,040 kernels" in read_profile(STAGED)._repr_html_()


def test_a_wrong_query_of_a_recording_has_its_own_error():
    with pytest.raises(gpuprof.QueryError, match="there is no column there_is_none"):
        read_profile(STAGED).query("SELECT there_is_none FROM kernels")


def test_a_recording_in_memory_can_be_copied_and_sent_to_another_process():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    for other in (copy.deepcopy(profile), pickle.loads(pickle.dumps(profile))):  # noqa: S301 - ours
        assert other.table("kernels") == profile.table("kernels")
