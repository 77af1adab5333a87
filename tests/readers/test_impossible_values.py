"""What no recording can hold is refused in one place, whichever reader met it.

Negative sizes and counts, an end before its start, what is no number, and what is beyond 2**62.
"""

import math
from dataclasses import replace

import own_files
import pyarrow as pa
import pytest
from nsys_export import HTOD, KERNEL, MEMCPY, MEMSET, RUNTIME, kernel, memcpy, write
from nvprof_database import at
from nvprof_database import write as write_nvprof
from recording_checks import refusal
from recordings import copy, row, trace
from test_kineto import WHERE, event
from test_kineto import written as write_kineto

from gpuprof import readers
from gpuprof.analyses.reports import report
from gpuprof.base.errors import CorruptFileError
from gpuprof.model import data_model
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write as write_own
from gpuprof.readers.nsys import sqlite_export

HINT = "Was it edited, or damaged on its way? Export or record it again."


def nsys(folder, **columns):
    copies = [memcpy(1, 2, HTOD), memcpy(3, 4, HTOD) | columns]
    return write(folder / "x.sqlite", {MEMCPY: copies})


def nvprof(folder, **columns):
    rows = [{"copyKind": 1, "bytes": 8, **at(start, start + 1)} for start in (1, 3)]
    return write_nvprof(folder / "x.nvvp", memcpy=[rows[0], rows[1] | columns])


def kineto(folder, **columns):
    name = "Memcpy HtoD (Pinned -> Device)"
    rows = [event("gpu_memcpy", name, start, 1, **WHERE, bytes=8) for start in (1, 3)]
    rows[1]["args"] |= columns
    return write_kineto(folder, rows)


def gpuprof_file(folder, **columns):
    return of_table(folder, "memcpys", [copy("HtoD", 1, 2, bytes=8), copy("HtoD", 3, 4) | columns])


def of_table(folder, name, rows):
    path = folder / "x.gpuprof"
    write_own(trace(kernels=[]), path)
    return own_files.changed(path, **{name: data_model.BY_NAME[name].table(rows)})


@pytest.mark.parametrize("write_recording", [nsys, nvprof, kineto, gpuprof_file])
@pytest.mark.parametrize("value", [-5, 2**62])
def test_a_size_that_is_negative_or_beyond_all_memory_is_refused(tmp_path, write_recording, value):
    path = write_recording(tmp_path, bytes=value)

    with pytest.raises(CorruptFileError) as caught:
        read_profile(path).table("memcpys")

    message = f"{path}, table memcpys: column bytes holds {value} in row 2"
    assert (caught.value.message, caught.value.hint) == (message, HINT)


def test_a_sum_finds_it_in_the_pass_that_it_makes(tmp_path):
    profile = read_profile(nsys(tmp_path, bytes=-5))

    with pytest.raises(CorruptFileError, match=r"(?m)column bytes holds -5 in row 2$"):
        profile.query("SELECT sum(bytes) FROM memcpys")


def test_pieces_are_checked_as_well(tmp_path):
    profile = read_profile(gpuprof_file(tmp_path, bytes=-5))

    with pytest.raises(CorruptFileError, match=r"(?m)column bytes holds -5 in row 2$"):
        list(profile.columns("memcpys", "bytes"))


def test_what_is_missing_from_a_column_that_needs_it_is_refused(tmp_path):
    rows = data_model.KERNELS.table([{"start_ns": 1, "end_ns": 2, "name": "k"}])
    path = of_table(tmp_path, "kernels", [])
    own_files.changed(path, kernels=rows.set_column(1, "end_ns", pa.nulls(1, pa.int64())))

    with pytest.raises(CorruptFileError, match=r"(?m)column end_ns holds no value in row 1$"):
        read_profile(path).table("kernels")


@pytest.mark.parametrize(
    ("column", "value", "holds"),
    [
        ("calls", -1, "-1"),
        ("total_ns", -1, "-1"),
        ("mean_ns", math.nan, "nan"),
        ("median_ns", math.inf, "inf"),
        ("max_ns", 2**63 - 1, f"{2**63 - 1}"),
        ("printed_share", 1.74, "1.74"),
        ("activity_kind", "kernels", "'kernels'"),
        ("section", "all", "'all'"),
    ],
)
def test_sums_that_cannot_be_are_refused(tmp_path, column, value, holds):
    rows = [row("HtoD", 3, 30, 0.4), row("DtoH", 3, 30, 0.4) | {column: value}]
    path = of_table(tmp_path, "activity_summary", rows)

    with pytest.raises(CorruptFileError) as caught:
        read_profile(path).table("activity_summary")

    message = f"{path}, table activity_summary: column {column} holds {holds} in row 2"
    assert caught.value.message == message


@pytest.mark.parametrize("write_recording", [nsys, nvprof, kineto, gpuprof_file])
def test_a_copy_that_is_faster_than_any_memory_is_read_and_doubted(tmp_path, write_recording):
    recording = report(read_profile(write_recording(tmp_path, bytes=2**49)), ["totals"])

    (transfers,) = [r for r in recording.rows("totals") if r["activity_group"] == "transfers"]
    assert transfers["bytes"] > 2**49
    took = "1.00 µs" if write_recording is kineto else "1 ns"
    assert recording.notes[-1] == (
        f"Copy 2 of the recording moves 563 TB in {took}, faster than any memory: its size or"
        " its times are wrong, and totals and throughputs include them."
    )


@pytest.mark.parametrize("counted_rows", [None, 0])
def test_a_memset_may_write_one_value_at_any_speed(tmp_path, monkeypatch, counted_rows):
    if counted_rows is not None:
        monkeypatch.setattr(sqlite_export, "FIRST_ROWS", counted_rows)
    memset = {"start": 1, "end": 1121, "bytes": 4_000_000_000, "deviceId": 0}
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9)], MEMSET: [memset]})

    recording = report(read_profile(path), ["totals"])

    assert [r["bytes"] for r in recording.rows("totals") if r["activity_group"] == "memsets"] == [
        4_000_000_000
    ]
    assert recording.notes == ()


def test_what_ends_before_it_starts_is_refused_where_it_was_not_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_export, "FIRST_ROWS", 2)
    kernels = [kernel(start, start + 1) for start in range(1, 4)]
    path = write(tmp_path / "x.sqlite", {KERNEL: [*kernels, kernel(9, 7)]})

    assert refusal(path) == f"{path}, table kernels: row 4 ends before it starts"


@pytest.mark.parametrize("few_rows", [0, 2])
def test_what_ends_before_it_starts_is_left_out_where_it_was_counted(
    tmp_path, monkeypatch, few_rows
):
    monkeypatch.setattr(sqlite_export, "_FEW_ROWS", few_rows)
    rows = [kernel(1, 2), kernel(9, 7)]

    profile = read_profile(write(tmp_path / "x.sqlite", {KERNEL: rows}))

    assert profile.table("kernels")["end_ns"].to_pylist() == [2]
    assert profile.origin.warnings == (
        "1 record without times was left out: when it ran could not be collected",
    )


def test_what_happened_before_the_recording_began_is_read(tmp_path):
    call = {"start": -3000, "end": -500, "nameId": 1}
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(1, 2)], RUNTIME: [call]})
    write_own(read_profile(path), tmp_path / "x.gpuprof")

    for file in (path, tmp_path / "x.gpuprof"):
        assert read_profile(file).table("api_calls")["start_ns"].to_pylist() == [-3000]


@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_times_beyond_146_years_are_refused(tmp_path, time):
    path = of_table(tmp_path, "kernels", [{"start_ns": time, "end_ns": time, "name": "k"}])

    with pytest.raises(CorruptFileError, match=rf"(?m)column start_ns holds {time} in row 1$"):
        read_profile(path).table("kernels")


def test_what_lasts_longer_than_any_activity_is_refused(tmp_path):
    path = of_table(tmp_path, "kernels", [{"start_ns": -1, "end_ns": 1 << 50, "name": "k"}])

    with pytest.raises(CorruptFileError, match=r"(?m)kernels: row 1 lasts more than 13 days$"):
        read_profile(path).table("kernels")


def test_sums_beyond_64_bits_are_refused(tmp_path):
    rows = [row(f"k{n}", 1, 2**61) for n in range(9)]
    profile = read_profile(of_table(tmp_path, "activity_summary", rows))

    with pytest.raises(CorruptFileError, match="its numbers are too large to add up"):
        report(profile)


class _Reader:
    """A reader that makes any recording of a file."""

    def __init__(self, profile):
        self.profile = profile

    def read(self, _):
        return self.profile


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("tool_version", ["2.21"], "tool_version is ['2.21']"),
        ("command", 5, "command is 5"),
        ("warnings", ({"a": 1},), "warnings is {'a': 1}"),
        ("epoch_ns", 10**24, f"epoch_ns is {10**24}"),
        ("epoch_ns", "soon", "epoch_ns is 'soon'"),
    ],
)
def test_an_origin_that_no_recording_has_is_refused(tmp_path, monkeypatch, field, value, fault):
    profile = trace(kernels=[])
    profile = replace(profile, origin=replace(profile.origin, **{field: value}))
    monkeypatch.setattr(readers, "find_reader", lambda _: _Reader(profile))
    (tmp_path / "x").touch()

    assert refusal(tmp_path / "x") == f"{tmp_path / 'x'}: {fault}, which it cannot be"
