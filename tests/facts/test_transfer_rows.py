"""Transfers as arrays, and what they add up to, as the table of copies in SQL has them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import trace

from gpuprof.facts.copies import transfer_times
from gpuprof.facts.copy_rows import copy_words
from gpuprof.facts.moves import moves
from gpuprof.facts.transfer_rows import PATHS, sums_of, transfer_rows
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.selection import Selection

DEVICES = st.sampled_from([None, 0, 1])
MEMORY = st.sampled_from([None, "pinned", "pageable", "device"])
COPIES = st.fixed_dictionaries({
    "memcpy_kind": st.sampled_from(["HtoD", "DtoH", "DtoD", "PtoP", "UVM_HtoD", "HtoH"]),
    "device_id": DEVICES,
    "src_device_id": DEVICES,
    "dst_device_id": DEVICES,
    "src_memory_kind": MEMORY,
    "dst_memory_kind": MEMORY,
    "bytes": st.sampled_from([None, 0, 64, 4096]),
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


def with_words(profile):
    words = copy_words(profile)
    rows = []
    for row in zip(
        *(np.asarray(column).tolist() for column in transfer_rows(profile)), strict=True
    ):
        kind, src, dst, path, *numbers, is_counted = row
        known = [None if number == UNKNOWN else number for number in numbers]
        texts = words.kind[kind], words.src_memory[src], words.dst_memory[dst], PATHS[path]
        rows.append((*texts, *known, bool(is_counted)))
    return sorted(rows, key=str)


SQL = """
    SELECT memcpy_kind, src_memory_kind, dst_memory_kind, path, src, dst, start_ns, end_ns,
        duration_ns, bytes, {device}, process_id, correlation_id, is_counted FROM copies"""


@settings(max_examples=150)
@given(st.lists(COPIES, max_size=6), PAIRS, st.booleans())
def test_transfers_are_the_rows_of_copies(copies, pairs, is_part):
    profile = recording(copies, pairs)
    if is_part:  # a window that may hold one half of a staged copy alone
        profile = profile.restricted(Selection(windows=((15, 45),)))

    # Of a staged copy either device may be named.
    sql = SQL.format(device="CASE WHEN path <> 'staged' THEN device_id END AS device_id")
    queried = sorted((tuple(r.values()) for r in profile.query(sql).to_pylist()), key=str)
    place = [*profile.query(sql + " LIMIT 0").column_names].index("device_id")
    rows = [
        (*row[:place], None if row[3] == "staged" else row[place], *row[place + 1 :])
        for row in with_words(profile)
    ]
    assert sorted(rows, key=str) == queried


@settings(max_examples=100)
@given(st.lists(COPIES, max_size=6), PAIRS)
def test_sums_are_those_of_a_query(copies, pairs):
    profile = recording(copies, pairs)
    transfers = transfer_rows(profile)
    everything = np.arange(len(transfers.kind))

    [queried] = profile.query("""
        SELECT count(*) FILTER (is_counted) AS calls,
            coalesce(CAST(sum(duration_ns) AS BIGINT), 0) AS total_ns,
            CASE WHEN count(bytes) = count(*) THEN
                coalesce(CAST(sum(CASE WHEN is_counted THEN bytes ELSE 0 END) AS BIGINT), 0)
            END AS bytes
        FROM copies""").to_pylist()
    sums = sums_of(transfers, everything)
    assert {"calls": sums.calls, "total_ns": sums.total_ns, "bytes": sums.bytes} == queried
    if sums.bytes is not None and sums.total_ns:
        assert sums.bytes_per_s == sums.bytes * 1e9 / sums.total_ns


@given(st.lists(COPIES, max_size=6), PAIRS)
def test_times_of_routes_are_of_every_half(copies, pairs):
    profile = recording(copies, pairs)

    queried = profile.query("SELECT src, dst, route, start_ns FROM memcpys WHERE is_transfer")
    expected = sorted((tuple(row.values()) for row in queried.to_pylist()), key=str)
    times = [
        (*route, start)
        for route, of_route in transfer_times(profile).items()
        for start in of_route.start_ns.tolist()
    ]
    assert sorted(times, key=str) == expected


@given(st.lists(COPIES, max_size=6), PAIRS)
def test_moves_come_by_start_and_have_two_known_ends(copies, pairs):
    profile = recording(copies, pairs)

    queried = profile.query("SELECT start_ns, duration_ns FROM copies WHERE src <> dst")
    expected = sorted(tuple(row.values()) for row in queried.to_pylist())
    there = moves(profile)
    assert list(zip(there.start_ns.tolist(), there.duration_ns.tolist(), strict=True)) == expected
