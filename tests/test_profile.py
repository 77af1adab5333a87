from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import kernel, trace

from gpuprof import schema
from gpuprof.errors import MissingTableError
from gpuprof.profile import Origin, Part, Profile, View

ORIGIN = Origin(source=Path("train.txt"), reader="nvprof-text", tool="nvprof")
TWO_KERNELS = schema.KERNELS.table(
    [
        {"start_ns": 10, "end_ns": 30, "name": "b", "device_id": 1},
        {"start_ns": 0, "end_ns": 5, "name": "a", "device_id": 0},
    ]
)


def test_missing_table_is_not_an_empty_table():
    profile = Profile(ORIGIN, {"memcpys": schema.MEMCPYS.empty()})

    assert profile.table("memcpys").num_rows == 0
    with pytest.raises(MissingTableError) as caught:
        profile.table("kernels")
    assert caught.value.message == "train.txt has no kernels table (read as nvprof-text)"
    assert caught.value.hint == "Record with `gpuprof record`, which keeps every activity."


def test_tables_in_memory_are_queried_by_name():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    result = profile.query("SELECT sum(end_ns - start_ns)::BIGINT AS total_ns FROM kernels")

    assert result.to_pylist() == [{"total_ns": 25}]


def test_a_query_finds_tables_however_it_spells_them_and_can_list_them():
    sources = {"kernels": TWO_KERNELS, "memcpys": schema.MEMCPYS.empty()}
    profile = Profile(ORIGIN, sources)

    assert profile.query("SELECT count(*) AS n FROM KERNELS").to_pylist() == [{"n": 2}]
    listed = profile.query("SELECT view_name FROM duckdb_views() WHERE NOT temporary")
    assert {*listed.column("view_name").to_pylist()} == {*sources}


def test_what_is_read_ahead_is_handed_out_once_and_read_anew_after():
    reads = []

    def prepare(connection):
        connection.execute("CREATE TABLE raw AS SELECT unnest([0, 5, 7]) AS s")
        connection.create_function("seen", lambda n: reads.append(n) or n, ["BIGINT"], "BIGINT")

    source = View("SELECT seen(s) AS start_ns, s + 1 AS end_ns, 'a' AS name FROM raw")
    profile = Profile(ORIGIN, {"kernels": source}, prepare)
    starts, ends = (f"SELECT {column} FROM kernels" for column in ("start_ns", "end_ns"))

    profile.read_ahead(starts, ends)
    reads.clear()
    ahead = [profile.side_by_side(starts), [[*profile.batches(ends)]]]
    assert reads == []

    assert [profile.side_by_side(starts), [[*profile.batches(ends)]]] == ahead
    assert reads


def test_a_view_gets_the_columns_of_the_schema_and_is_sorted_by_start():
    def prepare(connection):
        connection.register("raw", pa.table({"s": [7, 3], "e": [9, 4], "n": ["late", "early"]}))

    view = View("SELECT s AS start_ns, e AS end_ns, n AS name FROM raw")
    profile = Profile(ORIGIN, {"kernels": view}, prepare)

    table = profile.table("kernels")

    assert table.schema == schema.KERNELS.arrow
    assert table.column("name").to_pylist() == ["early", "late"]
    assert table.column("stream_id").null_count == 2


def test_frames_keep_integers_integers_beside_missing_values():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    frame = profile.tables["kernels"]

    assert str(frame["stream_id"].dtype) == "int64[pyarrow]"
    assert frame["stream_id"].isna().all()
    assert list(profile.tables) == ["kernels"]
    assert "memcpys" not in profile.tables


def test_results_come_piece_by_piece():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    pieces = list(profile.batches("SELECT end_ns FROM kernels ORDER BY end_ns"))

    assert [value for piece in pieces for value in piece.column(0).to_pylist()] == [5, 30]


def test_what_several_analyses_need_is_computed_once():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})
    asked = []

    def rows(given):
        asked.append(given)
        return given.table("kernels").num_rows

    assert [profile.once(rows), profile.once(rows)] == [2, 2]
    assert asked == [profile]


NAMED = View(
    "SELECT s AS start_ns, e AS end_ns, number AS name_id, name FROM raw JOIN words USING (number)",
    names="SELECT number AS name_id, name FROM words",
)


def numbered(connection):
    connection.register("raw", pa.table({"s": [0, 5, 7], "e": [4, 9, 8], "number": [2, 1, 2]}))
    connection.register("words", pa.table({"number": [1, 2, 3], "name": ["a", "b", "c"]}))


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(Profile(ORIGIN, {"kernels": NAMED}, numbered), id="numbered-by-the-file"),
        pytest.param(
            Profile(
                ORIGIN,
                {
                    "kernels": schema.KERNELS.table(
                        [
                            {"start_ns": s, "end_ns": s + 1, "name": name}
                            for s, name in ((0, "b"), (5, "a"), (7, "b"))
                        ]
                    )
                },
            ),
            id="in-memory",
        ),
    ],
)
def test_a_tag_of_the_name_comes_with_every_row(profile):
    tagged = profile.tagged("kernels", "name = 'b'", "is_b")

    found = profile.query(f"SELECT start_ns, is_b FROM {tagged} ORDER BY start_ns").to_pylist()

    assert [(row["start_ns"], row["is_b"]) for row in found] == [(0, True), (5, False), (7, True)]
    assert profile.table("kernels").schema == schema.KERNELS.arrow


WHOLE = Profile(
    ORIGIN,
    {
        "kernels": schema.KERNELS.table(
            [
                {"start_ns": s, "end_ns": s + 10, "name": "a", "device_id": s % 2}
                for s in (0, 5, 10, 15)
            ]
        ),
        "memcpys": schema.MEMCPYS.table(
            [
                {"start_ns": 0, "end_ns": 1, "memcpy_kind": "PtoP", "device_id": 0}
                | {"src_device_id": 0, "dst_device_id": 1},
                {"start_ns": 1, "end_ns": 2, "memcpy_kind": "HtoD", "device_id": 0},
            ]
        ),
        "activity_summary": schema.ACTIVITY_SUMMARY.empty(),
        "devices": schema.DEVICES.table([{"device_id": 0}, {"device_id": 1}]),
    },
)


def _starts(profile, table="kernels"):
    return profile.table(table).column("start_ns").to_pylist()


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        pytest.param(((5, 15),), [5, 10], id="half-open"),
        pytest.param(((0, 1), (15, 16)), [0, 15], id="two-windows"),
        pytest.param((), [], id="no-window-no-rows"),
        pytest.param(None, [0, 5, 10, 15], id="all-times"),
    ],
)
def test_activities_belong_to_the_window_they_start_in(windows, expected):
    assert _starts(WHOLE.restricted(Part(windows))) == expected


@given(borders=st.sets(st.integers(-20, 200), max_size=60), starts=st.lists(st.integers(-30, 210)))
def test_activities_of_many_windows_are_those_that_start_in_one(borders, starts):
    ordered = sorted(borders)
    windows = tuple(zip(ordered[::2], ordered[1::2], strict=False))
    profile = trace(kernels=[kernel("k", start, start + 1) for start in starts])

    part = profile.restricted(Part(windows)).table("kernels")["start_ns"].to_pylist()

    assert part == sorted(t for t in starts if any(s <= t < e for s, e in windows))


def test_a_copy_belongs_to_the_devices_at_both_ends():
    of_1 = WHOLE.restricted(Part(device_id=1))

    assert _starts(of_1) == [5, 15]
    assert _starts(of_1, "memcpys") == [0]


def test_a_window_has_no_summary_of_the_whole_recording():
    part = WHOLE.restricted(Part(((0, 5),)))

    assert not part.has("activity_summary")
    assert part.table("devices").num_rows == 2
    assert part.whole is WHOLE
    assert part.restricted(Part()).whole is WHOLE


def test_a_part_can_look_back_at_the_whole():
    part = WHOLE.restricted(Part(((5, 15),)))

    counts = "SELECT (SELECT count(*) FROM kernels), (SELECT count(*) FROM whole.kernels)"
    assert list(part.query(counts).to_pylist()[0].values()) == [2, 4]


def test_a_part_is_read_where_the_whole_is_opened():
    opened = []

    def prepare(connection):
        opened.append(connection)
        connection.execute("CREATE TABLE raw AS SELECT unnest([0, 5, 7]) AS s")

    source = View("SELECT s AS start_ns, s + 1 AS end_ns, 'a' AS name FROM raw")
    whole = Profile(ORIGIN, {"kernels": source}, prepare)
    early, late = (whole.restricted(Part(windows=(w,))) for w in ((0, 6), (6, 9)))
    count = "SELECT count(*) AS n FROM kernels"
    both = "SELECT (SELECT count(*) FROM kernels) AS n, (SELECT count(*) FROM whole.kernels)"

    def counted(profile):
        (beside,) = profile.side_by_side(count)
        told = [profile.query(both).to_pylist()[0].values(), beside[0].to_pylist()[0].values()]
        return [number for values in told for number in values]

    assert [*map(counted, (early, whole, late))] == [[2, 3, 2], [3, 3, 3], [1, 3, 1]]
    early.keep("kernels")
    whole.keep("kernels")
    assert [*map(counted, (early, whole, late))] == [[2, 3, 2], [3, 3, 3], [1, 3, 1]]
    assert len(opened) == 1


def test_a_part_may_be_asked_in_the_middle_of_a_result_of_the_whole():
    def prepare(connection):
        connection.execute("CREATE TABLE raw AS SELECT unnest(range(1000000)) AS s")

    source = View("SELECT s AS start_ns, s + 1 AS end_ns, 'a' AS name FROM raw")
    whole = Profile(ORIGIN, {"kernels": source, "memsets": source}, prepare)
    part = whole.restricted(Part(windows=((0, 6),)))

    rows = 0
    for piece in whole.batches("SELECT start_ns FROM kernels"):
        assert part.query("SELECT count(*) AS n FROM memsets").to_pylist() == [{"n": 6}]
        rows += len(piece)

    assert rows == 1_000_000


def test_a_part_with_a_table_of_its_own_does_not_change_the_whole():
    def prepare(connection):
        connection.execute("CREATE TABLE raw AS SELECT unnest([0, 5, 7]) AS s")

    source = View("SELECT s AS start_ns, s + 1 AS end_ns, 'a' AS name FROM raw")
    whole = Profile(ORIGIN, {"kernels": source}, prepare)
    part = whole.restricted(Part(windows=((0, 6),))).with_table("kernels", TWO_KERNELS)

    assert part.query("SELECT count(*) AS n FROM whole.kernels").to_pylist() == [{"n": 2}]
    assert whole.table("kernels").num_rows == 3


def test_a_long_query_draws_no_progress_bar_among_the_results():
    profile = Profile(Origin(Path("x"), "made-by-hand", "hand"), {})

    settings = profile.query("SELECT current_setting('enable_progress_bar') AS bar")

    assert settings.column("bar").to_pylist() == [False]


def test_a_table_that_is_kept_is_read_once():
    reads = []

    def prepare(connection):
        numbered(connection)
        connection.create_function("seen", lambda n: reads.append(n) or n, ["BIGINT"], "BIGINT")

    source = View("SELECT seen(s) AS start_ns, e AS end_ns, 'a' AS name FROM raw")
    profile = Profile(ORIGIN, {"kernels": source}, prepare)
    before = profile.table("kernels")
    reads.clear()

    profile.keep("kernels")
    profile.keep("kernels")
    read_once = len(reads)

    assert [profile.table("kernels"), profile.table("kernels")] == [before, before]
    assert len(reads) == read_once == 3
