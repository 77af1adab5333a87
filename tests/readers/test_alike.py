from concurrent.futures import ThreadPoolExecutor

import nsys_export
import pytest
from nsys_export import KERNEL, RUNTIME, STRINGS

from gpuprof.base.errors import CorruptFileError
from gpuprof.model import engine
from gpuprof.readers import merged_ranks, read_profile
from gpuprof.readers.alike import Recordings


def rank_file(folder, rank, *kernels, names=("gemm", "relu"), device=None):
    """Kernels of 5 ns with these numbers of names, on the rank's device."""
    place = {"deviceId": rank if device is None else device, "globalPid": nsys_export.pid(rank + 1)}
    rows = [nsys_export.kernel(t * 10, t * 10 + 5, n, **place) for t, n in enumerate(kernels)]
    texts = [{"id": number, "value": name} for number, name in enumerate(names, 1)]
    call = {"start": 0, "end": 1, "nameId": 1, "globalTid": nsys_export.pid(rank + 1) + 1}
    call |= {"correlationId": 1, "eventClass": 0}
    tables = {STRINGS: texts, KERNEL: rows, RUNTIME: [call]}
    return nsys_export.write(folder / f"rank{rank}.sqlite", tables)


def test_integers_come_of_one_file_after_another_and_none_stay(tmp_path):
    files = [rank_file(tmp_path, 0, 1, 2), rank_file(tmp_path, 1, 2)]
    profile = read_profile(files)

    pieces = [[column.tolist() for column in p] for p in profile.integers("kernels", "end_ns")]
    devices = [values.tolist() for (values,) in profile.integers("kernels", "device_id")]

    assert pieces == [[[5, 15]], [[5]]]
    assert devices == [[0, 0], [1]]


def test_names_of_files_that_number_them_differently_are_told_apart(tmp_path):
    files = [
        rank_file(tmp_path, 0, 1, 2),
        rank_file(tmp_path, 1, 1, 9, names=("relu", "gemm")),
    ]
    profile = read_profile(files)
    rows = profile.query("SELECT device_id, start_ns, name FROM kernels ORDER BY ALL").to_pylist()

    assert profile.sources["kernels"].names is not None
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, "gemm"),
        (0, 10, "relu"),
        (1, 0, "relu"),
        (1, 10, "unknown"),
    ]


def test_files_of_the_same_tables_share_a_connection(tmp_path, monkeypatch):
    files = [rank_file(tmp_path, rank, 1) for rank in range(4)]
    made, connect = [], engine.connect
    monkeypatch.setattr(engine, "connect", lambda: made.append(1) or connect())
    profile = read_profile(files)

    assert profile.table("kernels").num_rows == 4
    assert len(made) == 2  # that of the files, and that of the recording of all of them


def test_that_devices_coincide_is_told_by_few_files(tmp_path, monkeypatch):
    files = [rank_file(tmp_path, rank, 1) for rank in range(2)]
    files += [rank_file(tmp_path, rank, 1, device=0) for rank in (2, 3)]
    asked, numbers = [], merged_ranks.File.numbers  # the slow part

    def counted(file, *names):
        asked.append(file)
        return numbers(file, *names)

    monkeypatch.setattr(merged_ranks.File, "numbers", counted)

    profile = read_profile(files)

    assert "Several processes number their devices" in profile.origin.warnings[0]
    assert len(asked) == 3
    assert profile.table("devices")["device_id"].to_pylist() == [0, 1, 2, 3]


def test_the_file_that_is_damaged_is_named_among_its_like(tmp_path):
    files = [rank_file(tmp_path, rank, 1) for rank in range(3)]
    row = nsys_export.kernel(20, 10, 1, deviceId=1, globalPid=nsys_export.pid(2))
    names = [{"id": 1, "value": "gemm"}]
    bad = {STRINGS: names, KERNEL: [row | {"gridX": -5, "end": 30}]}
    files[1].unlink()
    nsys_export.write(files[1], bad)

    with pytest.raises(CorruptFileError, match=r"rank1\.sqlite, table kernels: column grid_x"):
        read_profile(files).table("kernels")


def test_threads_that_ask_at_once_are_each_told_of_their_file(tmp_path):
    profiles = [read_profile(rank_file(tmp_path, rank, *[1] * rank)) for rank in range(1, 9)]
    recordings = Recordings()
    count = "SELECT count(*) AS kernels FROM kernels"

    with ThreadPoolExecutor(4) as pool:
        counts = [*pool.map(lambda p: recordings.query(p, count)["kernels"][0].as_py(), profiles)]

    assert counts == [*range(1, 9)]
