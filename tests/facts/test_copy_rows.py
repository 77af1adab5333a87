"""Each copy on the timelines of its devices, as the table of them in SQL has it."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsys_export import DEVICE, DTOH, HTOD, MEMCPY, PINNED, memcpy, write
from recordings import trace

from gpuprof import native
from gpuprof.facts import copy_rows as rows_of_copies
from gpuprof.facts.copy_rows import CopyRows, copy_rows
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.selection import Selection
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof import write_gpuprof_file

DEVICES = st.sampled_from([None, 0, 1, 2])
KINDS = st.sampled_from(["HtoD", "DtoH", "DtoD", "PtoP"])


@given(copies=st.lists(st.tuples(DEVICES, DEVICES, DEVICES, KINDS, st.booleans()), max_size=8))
def test_a_copy_takes_time_on_the_devices_that_a_query_names(copies):
    profile = trace(
        memcpys=[
            {
                "start_ns": 10 * i,
                "end_ns": 10 * i + 5,
                "device_id": device,
                "src_device_id": src,
                "dst_device_id": dst,
                "memcpy_kind": kind,
                "path": "staged" if is_staged else None,
            }
            for i, (device, src, dst, kind, is_staged) in enumerate(copies)
        ]
    )

    rows = [
        row
        for part in copy_rows(profile).by_device()
        for row in zip(
            part.start_ns.tolist(), part.device.tolist(), part.is_transfer.tolist(), strict=True
        )
    ]

    asked = profile.query(
        "SELECT start_ns, busy_device_id, is_transfer::INTEGER AS is_transfer FROM copies_by_device"
    )
    assert sorted(rows) == sorted(tuple(row.values()) for row in asked.to_pylist())


def queried_rows(profile):
    """The columns of `CopyRows` by a query, whose derived ones are those of `model.facts`."""
    integers = (
        "start_ns", "end_ns", "process_id", "correlation_id", "device_id", "src_device_id",
        "dst_device_id", "src", "dst", "bytes",
    )  # fmt: skip
    flags = ("is_transfer", "is_counted", "is_peer", "is_staged")
    words = ("memcpy_kind", "src_memory_kind", "dst_memory_kind")
    columns = [
        *(f"coalesce({name}, {UNKNOWN})::BIGINT AS {name}" for name in integers),
        *(f"{name}::INTEGER AS {name}" for name in flags),
        *(f"coalesce({name}, 'None') AS {name}" for name in words),
    ]
    rows = profile.query(f"SELECT {', '.join(columns)} FROM memcpys").to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def sorted_rows(copies, words):
    of_words = words._asdict()
    columns = [
        [str(of_words[name][n]) if name in of_words else n for n in np.asarray(column).tolist()]
        for name, column in copies._asdict().items()
    ]
    return sorted(zip(*columns, strict=True))


@pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")
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

        recorded = rows_of_copies._as_recorded(profile)  # noqa: SLF001 - compared with the query
        queried = queried_rows(profile)

    halves = [
        row for row in rows
        if row["copyKind"] in {HTOD, DTOH} and row["srcKind"] == row["dstKind"] == DEVICE
    ]  # fmt: skip
    if recorded is None:
        assert halves
    else:
        assert sorted_rows(*recorded) == queried
        assert "srcKind" in absent or not halves


MEMORY = st.sampled_from([None, "device", "pinned"])


@given(
    copies=st.lists(
        st.tuples(
            DEVICES, DEVICES, DEVICES, KINDS, MEMORY, MEMORY,
            st.sampled_from([None, 0, 64]), st.sampled_from([None, None, "staged", "direct"]),
        ),
        min_size=1,
        max_size=8,
    )
)  # fmt: skip
def test_copies_of_a_gpuprof_file_are_those_of_a_query(copies):
    names = (
        "device_id", "src_device_id", "dst_device_id", "memcpy_kind", "src_memory_kind",
        "dst_memory_kind", "bytes", "path",
    )  # fmt: skip
    rows = [
        dict(zip(names, copy, strict=True))
        | {"start_ns": 10 * i, "end_ns": 10 * i + 5, "correlation_id": i}
        for i, copy in enumerate(copies)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gpuprof"
        write_gpuprof_file.write(trace(memcpys=rows), path)
        profile = read_profile(path)

        stored = copy_rows(profile), rows_of_copies.copy_words(profile)
        queried = queried_rows(profile)

    assert sorted_rows(*stored) == queried


def test_copies_of_a_part_are_those_of_a_query():
    copies = [
        {"start_ns": start, "end_ns": start + 5, "memcpy_kind": kind, "device_id": 0}
        for start, kind in enumerate(["HtoD", "DtoH", "DtoD", "HtoD"] * 3)
    ]
    part = trace(memcpys=copies).restricted(Selection(windows=((2, 4), (7, 11))))

    assert copy_rows(part).start_ns.tolist() == [2, 3, 7, 8, 9, 10]
    words = rows_of_copies.copy_words(part)
    assert sorted_rows(copy_rows(part), words) == queried_rows(part)


@pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")
def test_halves_of_staged_copies_are_left_to_a_query(tmp_path):
    memory = {"srcKind": DEVICE, "dstKind": DEVICE, "correlationId": 7}
    rows = [memcpy(0, 5, DTOH, deviceId=0, **memory), memcpy(6, 9, HTOD, deviceId=1, **memory)]
    profile = read_profile(write(tmp_path / "x.sqlite", {MEMCPY: rows}))

    assert rows_of_copies._as_recorded(profile) is None  # noqa: SLF001 - the query tells
    copies = CopyRows(*map(np.asarray, copy_rows(profile)))
    assert (copies.is_staged.tolist(), copies.is_counted.tolist()) == ([1, 1], [1, 0])
    assert (copies.src.tolist(), copies.dst.tolist()) == ([0, 0], [1, 1])
