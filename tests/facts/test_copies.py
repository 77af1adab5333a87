"""Copies and transfers as columns are those of the tables in SQL."""

import tempfile
from pathlib import Path

import copies_in_sql
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_export import DEVICE, MEMCPY, PINNED, memcpy, write
from recordings import trace

from gpuprof import native
from gpuprof.facts.copies import PATHS, copy_rows, sums_of, transfer_rows, transfers_by_route
from gpuprof.facts.moves import moves
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof import write_gpuprof_file

DEVICES = st.sampled_from([None, 0, 1, 2])
KINDS = st.sampled_from(["HtoD", "DtoH", "DtoD", "PtoP", "UVM_HtoD", "HtoH"])
MEMORY = st.sampled_from([None, "pinned", "pageable", "device"])
SIZES = st.sampled_from([None, 0, 64, 4096])
COPIES = st.fixed_dictionaries({
    "memcpy_kind": KINDS,
    "device_id": DEVICES,
    "src_device_id": DEVICES,
    "dst_device_id": DEVICES,
    "src_memory_kind": MEMORY,
    "dst_memory_kind": MEMORY,
    "bytes": SIZES,
    "process_id": st.sampled_from([None, 4, 5]),
    "correlation_id": st.sampled_from([None, 7, 8]),
})  # fmt: skip
LAUNCHES = st.lists(st.tuples(st.integers(4, 5), st.integers(10, 12)), max_size=4)
# All of them between the same devices, so that it does not matter which half names these.
PAIRS = st.tuples(LAUNCHES, DEVICES, DEVICES).map(
    lambda drawn: [(*launch, *drawn[1:]) for launch in drawn[0]]
)


def halves(pairs):
    """Both halves of staged copies, one copy after the other."""
    return [
        {
            "memcpy_kind": kind, "path": "staged", "process_id": process,
            "correlation_id": correlation, "src_device_id": src, "dst_device_id": dst,
            "device_id": device, "bytes": 100 + n,
        }
        for n, (process, correlation, src, dst) in enumerate(pairs)
        for kind, device in (("DtoH", src), ("HtoD", dst))
    ]  # fmt: skip


def recording(copies, pairs):
    rows = [*copies, *halves(pairs)]
    return trace(
        memcpys=[row | {"start_ns": 10 * n, "end_ns": 11 * n + 1} for n, row in enumerate(rows)]
    )


def columns_of(copies, *names):
    """Rows of some columns; numbers of words, and unknown numbers, by what they mean."""
    words = {
        "kind": copies.kinds, "src_memory": copies.src_memories, "dst_memory": copies.dst_memories,
        "path": PATHS,
    }  # fmt: skip
    columns = [
        [words[name][n] if name in words else None if n == UNKNOWN else n for n in column.tolist()]
        for name in names
        for column in [getattr(copies, name)]
    ]
    return sorted(zip(*columns, strict=True), key=str)


def queried(profile, sql):
    return sorted((tuple(row.values()) for row in copies_in_sql.answer(profile, sql)), key=str)


STORED = (
    "start_ns", "end_ns", "process", "correlation", "device", "src_device", "dst_device", "src",
    "dst", "bytes", "is_transfer", "is_counted", "is_peer", "is_staged", "kind", "src_memory",
    "dst_memory",
)  # fmt: skip
STORED_SQL = """
    SELECT start_ns, end_ns, process_id, correlation_id, device_id, src_device_id, dst_device_id,
        src, dst, bytes, is_transfer::INTEGER, is_counted::INTEGER, is_peer::INTEGER,
        is_staged::INTEGER, memcpy_kind, src_memory_kind, dst_memory_kind FROM memcpys"""


@settings(max_examples=40)
@given(st.lists(COPIES, max_size=6), PAIRS)
def test_a_copy_takes_time_on_the_devices_that_a_query_names(copies, pairs):
    profile = recording(copies, pairs)

    rows = [
        row
        for part in copy_rows(profile).by_device()
        for row in zip(
            part.start_ns.tolist(), part.device.tolist(), part.is_transfer.tolist(), strict=True
        )
    ]
    sql = "SELECT start_ns, busy_device_id, is_transfer::INTEGER FROM copies_by_device"
    assert sorted(rows, key=str) == queried(profile, sql)


@pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")
@settings(max_examples=40)
@given(
    copies=st.lists(
        st.tuples(
            st.integers(0, 14), DEVICES, DEVICES, DEVICES, st.sampled_from([None, 0, 64]),
            st.sampled_from([None, PINNED, DEVICE]), st.sampled_from([None, PINNED, DEVICE]),
        ),
        min_size=1,
        max_size=8,
    ),
    absent=st.sets(st.sampled_from(["srcKind", "srcDeviceId", "dstDeviceId", "globalPid"])),
)  # fmt: skip
def test_rows_as_recorded_are_those_of_a_query(copies, absent):
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            memcpy(
                10 * i, 10 * i + 5, kind, size, deviceId=device, srcDeviceId=src, dstDeviceId=dst,
                srcKind=src_kind, dstKind=dst_kind, correlationId=i,
            )
            for i, (kind, device, src, dst, size, src_kind, dst_kind) in enumerate(copies)
        ]  # fmt: skip
        path = write(Path(folder) / "x.sqlite", {MEMCPY: rows}, drop=absent)
        profile = read_profile(path)

        rows_of_query = queried(profile, STORED_SQL)
        rows_read = columns_of(copy_rows(profile), *STORED)

    assert rows_read == rows_of_query


@settings(max_examples=25)
@given(copies=st.lists(COPIES, min_size=1, max_size=8), pairs=PAIRS)
def test_copies_of_a_gpuprof_file_and_of_its_parts_are_those_of_a_query(copies, pairs):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gpuprof"
        write_gpuprof_file.write(recording(copies, pairs), path)
        profile = read_profile(path)
        part = profile.restricted(Selection(windows=((2, 14), (25, 41))))

        for read in (profile, part):
            assert columns_of(copy_rows(read), *STORED) == queried(read, STORED_SQL)


TRANSFERS = (
    "kind", "src_memory", "dst_memory", "path", "src", "dst", "start_ns", "end_ns", "duration_ns",
    "bytes", "process", "correlation", "is_counted",
)  # fmt: skip
SQL = """
    SELECT memcpy_kind, src_memory_kind, dst_memory_kind, path, src, dst, start_ns, end_ns,
        duration_ns, bytes, process_id, correlation_id, is_counted::INTEGER FROM copies"""


@settings(max_examples=100)
@given(st.lists(COPIES, max_size=6), PAIRS, st.booleans())
def test_transfers_are_the_rows_of_copies(copies, pairs, is_part):
    profile = recording(copies, pairs)
    if is_part:  # a window that may hold one half of a staged copy alone
        profile = profile.restricted(Selection(windows=((15, 45),)))

    assert columns_of(transfer_rows(profile), *TRANSFERS) == queried(profile, SQL)


@settings(max_examples=40)
@given(st.lists(COPIES, max_size=6), PAIRS)
def test_sums_are_those_of_a_query(copies, pairs):
    profile = recording(copies, pairs)
    transfers = transfer_rows(profile)
    everything = np.arange(len(transfers.kind))

    [of_query] = copies_in_sql.answer(
        profile,
        """
        SELECT count(*) FILTER (is_counted) AS calls,
            coalesce(CAST(sum(duration_ns) AS BIGINT), 0) AS total_ns,
            CASE WHEN count(bytes) = count(*) THEN
                coalesce(CAST(sum(CASE WHEN is_counted THEN bytes ELSE 0 END) AS BIGINT), 0)
            END AS bytes
        FROM copies""",
    )
    sums = sums_of(transfers, everything)
    rate = sums.pop("bytes_per_s")
    assert sums == of_query
    if sums["bytes"] is not None and sums["total_ns"]:
        assert rate == sums["bytes"] * 1e9 / sums["total_ns"]


@settings(max_examples=40)
@given(st.lists(COPIES, max_size=6), PAIRS)
def test_times_of_routes_are_of_every_half(copies, pairs):
    profile = recording(copies, pairs)

    times = [
        (*route, start)
        for route, rows in transfers_by_route(profile).items()
        for start in copy_rows(profile).start_ns[rows].tolist()
    ]
    sql = "SELECT src, dst, route, start_ns FROM memcpys WHERE is_transfer"
    assert sorted(times, key=str) == queried(profile, sql)


@settings(max_examples=40)
@given(st.lists(COPIES, max_size=6), PAIRS)
def test_moves_come_by_start_and_have_two_known_ends(copies, pairs):
    profile = recording(copies, pairs)

    sql = "SELECT start_ns, duration_ns FROM copies WHERE src <> dst"
    rows = copies_in_sql.answer(profile, sql)
    there = moves(profile)
    pairs_of_times = zip(there.start_ns.tolist(), there.duration_ns.tolist(), strict=True)
    assert [*pairs_of_times] == sorted(tuple(row.values()) for row in rows)
