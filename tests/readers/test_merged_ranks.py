import gzip
import io
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from recording_checks import refusal, rows

from gpuprof.analyses.reports import report
from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    InputError,
    UnknownFormatError,
)
from gpuprof.facts import launches as launching
from gpuprof.model.data_model import KERNELS, LINKS
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers import merged_ranks, read_profile
from gpuprof.readers.job_numbers import JobNumbers
from gpuprof.readers.merged_ranks import joined

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "kineto"
UNIX_US = 1_700_000_000_000_000

combined = JobNumbers.combined


def rank_file(folder, name, *, start=0, device=0, pid=100, rank=None, kernels=("k",)):  # noqa: PLR0913 - by name
    """One process' trace: kernels of 5 µs every 10 µs, each with its launch."""
    events = []
    for number, kernel in enumerate(kernels):
        ts = UNIX_US + start + 10 * number
        place = {"device": device, "context": 1, "stream": 7, "correlation": number}
        events.append({"cat": "kernel", "name": kernel, "pid": device, "tid": 7, "args": place})
        events[-1] |= {"ph": "X", "ts": ts, "dur": 5}
        events.append({"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": 1})
        events[-1] |= {"ph": "X", "ts": ts, "dur": 1, "args": {"correlation": number}}
    devices = [{"id": number, "name": f"V100 #{number}"} for number in range(4)]
    trace = {"schemaVersion": 1, "deviceProperties": devices, "traceEvents": events}
    if rank is not None:
        trace["distributedInfo"] = {"rank": rank}
    text = json.dumps(trace)
    path = folder / name
    path.write_bytes(
        gzip.compress(text.encode(), mtime=0) if name.endswith("gz") else text.encode()
    )
    return path


def launches(profile):
    """How many kernels find exactly the call that launched them."""
    [found] = profile.query("""
        SELECT count(*)::BIGINT AS pairs FROM kernels k JOIN api_calls c
        ON k.process_id = c.process_id AND k.correlation_id = c.correlation_id
    """).to_pylist()
    return found["pairs"]


def test_ranks_of_one_host_keep_their_devices_and_share_a_clock(tmp_path):
    rank_file(tmp_path, "b.json", start=3, device=0, pid=100, rank=0)
    rank_file(tmp_path, "a.json", start=0, device=1, pid=101, rank=1, kernels=("k", "l"))
    profile = read_profile(tmp_path)

    assert rows(profile, "runs", "run_id", "process_id", "rank") == [(0, 100, 0), (1, 101, 1)]
    assert rows(profile, "kernels", "start_ns", "device_id", "process_id", "name") == [
        (0, 1, 101, "k"),
        (3_000, 0, 100, "k"),
        (10_000, 1, 101, "l"),
    ]
    assert profile.origin.epoch_ns == UNIX_US * 1_000
    assert profile.origin.source == tmp_path
    assert profile.origin.warnings == ()


def test_only_devices_that_were_used_are_listed_with_their_rank(tmp_path):
    rank_file(tmp_path, "a.json", device=2, pid=100, rank=0)
    rank_file(tmp_path, "b.json", device=1, pid=101, rank=1)

    assert rows(read_profile(tmp_path), "devices", "device_id", "rank", "name") == [
        (2, 0, "V100 #2"),
        (1, 1, "V100 #1"),
    ]


def test_devices_of_the_same_number_on_two_hosts_are_not_one_device(tmp_path):
    rank_file(tmp_path, "a.json", device=0, pid=100, rank=10)
    rank_file(tmp_path, "b.json", device=0, pid=101, rank=9)
    profile = read_profile(tmp_path)

    assert rows(profile, "devices", "device_id", "rank", "name") == [
        (0, 9, "V100 #0"),
        (1, 10, "V100 #0"),
    ]
    assert sorted(rows(profile, "kernels", "device_id", "process_id")) == [(0, 101), (1, 100)]
    assert profile.origin.warnings[0].startswith("Several processes number their devices from 0")


def linked(device):
    """One process on a machine of three devices, of which it uses one."""
    kernels = KERNELS.table([{"start_ns": 0, "end_ns": 5, "name": "k", "device_id": device}])
    ends = ((0, None), (0, 1), (1, None), (1, 2))
    links = [{"device_id": a, "peer_device_id": b, "link": f"{a}-{b}"} for a, b in ends]
    source = Path(f"rank{device}.nvvp")
    return Profile(
        Origin(source, "nvprof-sqlite", "nvprof"),
        {"kernels": kernels, "links": LINKS.table(links)},
    )


def test_links_join_devices_of_two_processes_of_one_host():
    assert rows(joined([linked(0), linked(1)]), "links", "device_id", "peer_device_id") == [
        (0, None),
        (0, 1),
        (1, None),
    ]


def test_links_between_two_hosts_are_unknown():
    profile = joined([linked(1), replace(linked(1), origin=linked(0).origin)])

    assert rows(profile, "links", "device_id", "peer_device_id") == [(0, None), (1, None)]


def test_processes_of_the_same_number_on_two_hosts_are_not_one_process(tmp_path):
    rank_file(tmp_path, "a.json", device=0, pid=1, rank=0, kernels=("k", "l"))
    rank_file(tmp_path, "b.json", device=1, pid=1, rank=1, kernels=("k", "l"))
    profile = read_profile(tmp_path)

    # Their correlation ids are the same: joined on those and one pid they would be 8 pairs.
    assert launches(profile) == 4
    assert rows(profile, "runs", "process_id", "rank") == [(1 << 32 | 1, 0), (2 << 32 | 1, 1)]
    # Both pids are those of the first process of a container.
    assert {process for process, _ in launching.launches(profile).bounds} == {
        1 << 32 | 1,
        2 << 32 | 1,
    }


def test_stretches_of_one_process_are_one_process_on_one_device(tmp_path):
    rank_file(tmp_path, "w.1663735848187.json", start=0, pid=5)
    rank_file(tmp_path, "w.1663735857573.json", start=1_000, pid=5)
    profile = read_profile(tmp_path)

    assert rows(profile, "kernels", "start_ns", "device_id", "process_id") == [
        (0, 0, 5),
        (1_000_000, 0, 5),
    ]
    assert len(rows(profile, "devices", "device_id")) == 1


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("rank1.json", "rank0.json"), [0, 1]),
        (("worker-3_step_12.json", "worker-10_step_12.json"), [3, 10]),
        (("report.2.json", "report.7.json"), [2, 7]),
        (("run1.2.json", "run2.7.json"), [None, None]),
        (("a.json", "b.json"), [None, None]),
    ],
)
def test_names_tell_ranks_where_the_files_do_not(tmp_path, names, ranks):
    for number, name in enumerate(names):
        rank_file(tmp_path, name, device=number, pid=number + 1)

    assert [rank for (rank,) in rows(read_profile(tmp_path), "runs", "rank")] == ranks


def test_a_glob_reads_the_files_that_it_names(tmp_path):
    rank_file(tmp_path, "rank0.json", device=0, pid=100)
    rank_file(tmp_path, "rank1.json", device=1, pid=101)
    rank_file(tmp_path, "other.json", device=2, pid=102)
    profile = read_profile(tmp_path / "rank*.json")

    assert [rank for (rank,) in rows(profile, "runs", "rank")] == [0, 1]


def test_a_glob_that_names_nothing_says_so(tmp_path):
    with pytest.raises(InputError) as caught:
        read_profile(tmp_path / "rank*.json")

    assert caught.value.message == f"{tmp_path / 'rank*.json'}: no file has such a name"


def test_the_same_recording_twice_is_refused(tmp_path):
    rank_file(tmp_path, "a.json", rank=0)
    rank_file(tmp_path, "a.json.gz", rank=0)

    assert refusal(tmp_path, InputError) == "a.json and a.json.gz are the same recording"


def test_a_folder_of_two_formats_is_refused_unless_one_is_named(tmp_path):
    rank_file(tmp_path, "a.json")
    (tmp_path / "b.txt").write_text(
        "==1== Profiling application: a\n==1== Profiling result:\n"
        "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        "100.00%  1.0000us         1  1.0000us  1.0000us  1.0000us  k\n",
        encoding="utf-8",
    )

    assert refusal(tmp_path, UnknownFormatError) == (
        f"{tmp_path} holds files of several formats: kineto (a.json) and nvprof-text (b.txt)"
    )
    assert len(rows(read_profile(tmp_path, "kineto"), "kernels", "name")) == 1


def test_files_named_from_here_and_from_the_root_are_said_to_be_in_their_common_folder(
    tmp_path, monkeypatch
):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    rank_file(tmp_path, "a.json", rank=0, device=0)
    rank_file(tmp_path / "below", "b.json", rank=1, device=1)

    profile = read_profile(["b.json", tmp_path / "a.json"])

    assert profile.origin.source == tmp_path


def test_files_named_one_by_one_read_as_their_folder_does(tmp_path):
    files = [rank_file(tmp_path, f"rank{rank}.json", rank=rank, device=rank) for rank in (0, 1)]
    rank_file(tmp_path, "rank2.json", rank=2, device=2)
    profile = read_profile(files)

    assert profile.origin.source == tmp_path
    assert rows(profile, "runs", "rank") == [(0,), (1,)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param(["b.json", "c.json"], "b.json: no such file", id="not-there"),
        pytest.param(
            ["-", "a.json"],
            "standard input is one recording, and cannot be read beside others",
            id="standard-input",
        ),
        pytest.param([], "no file is given", id="none"),
    ],
)
def test_files_that_cannot_be_read_together_are_refused(tmp_path, monkeypatch, names, message):
    monkeypatch.chdir(tmp_path)
    rank_file(tmp_path, "a.json")

    assert refusal(names, InputError) == message


def text(file):
    file.write_text("# Notes\n", encoding="utf-8")


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


CPU_ALONE = json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op"}]})


def without_a_gpu(file):
    file.write_text(CPU_ALONE)


CUT_SHORT = "{file}: the JSON is cut short or damaged (Input data was truncated; {size} bytes)"


@pytest.mark.parametrize(
    ("change", "reason", "is_fault"),
    [
        pytest.param(text, "{file} is in no known format", True, id="no-recording"),
        pytest.param(cut, CUT_SHORT, True, id="broken"),
        pytest.param(
            without_a_gpu, "{file} has no GPU activity: only the CPU was traced", False, id="no-gpu"
        ),
    ],
)
def test_what_has_nothing_to_read_among_ranks_is_left_out_and_told(
    tmp_path, change, reason, is_fault
):
    rank_file(tmp_path, "rank0.json", rank=0)
    file = rank_file(tmp_path, "rank1.json", rank=1)
    change(file)

    profile = read_profile(tmp_path)

    said = reason.format(file=file, size=file.stat().st_size)
    assert rows(profile, "runs", "rank") == [(0,)]
    assert profile.unread == (((file, said),) if is_fault else (), 2)
    assert profile.origin.warnings[0] == f"Left out: {said}."


def test_where_all_files_are_broken_the_first_one_is_named(tmp_path):
    for name in ("rank0.json", "rank1.json"):
        whole = rank_file(tmp_path, name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])

    with pytest.raises(CorruptFileError, match=r"rank0\.json"):
        read_profile(tmp_path)


def test_a_folder_where_no_rank_used_a_gpu_says_why(tmp_path):
    (tmp_path / "rank1.json").write_text(CPU_ALONE)

    with pytest.raises(EmptyRecordingError, match="only the CPU was traced"):
        read_profile(tmp_path)


def test_files_without_a_common_clock_begin_at_0_and_say_so(tmp_path):
    for name, ordinal in (("a.json", 0), ("b.json", 1)):
        path = rank_file(
            tmp_path, name, start=1_000 + ordinal * 50, device=ordinal, pid=ordinal + 1
        )
        path.write_text(path.read_text().replace("170000000000", ""))
    profile = read_profile(tmp_path)

    assert rows(profile, "kernels", "start_ns") == [(0,), (0,)]
    assert profile.origin.warnings == ("The files have no common clock: each begins at 0.",)


def standard_input(monkeypatch, data, *, is_terminal=False):
    fake = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: is_terminal)
    monkeypatch.setattr(sys, "stdin", fake)


def test_standard_input_is_read(tmp_path, monkeypatch):
    standard_input(monkeypatch, rank_file(tmp_path, "a.json.gz").read_bytes())
    profile = read_profile("-")

    assert rows(profile, "kernels", "name") == [("k",)]
    assert str(profile.origin.source) == "-"


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_pipe_is_read_once_and_alone(tmp_path):
    pipe, file = tmp_path / "pipe", rank_file(tmp_path, "a.json.gz")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(file.read_bytes()))
    writer.start()
    profile = read_profile(pipe)
    writer.join()

    assert rows(profile, "kernels", "name") == [("k",)]
    assert profile.origin.source == pipe
    with pytest.raises(InputError, match="pipe is one recording, and cannot be read beside others"):
        read_profile([pipe, file])


def test_an_error_in_standard_input_names_it(monkeypatch):
    standard_input(monkeypatch, b"nothing known")

    with pytest.raises(UnknownFormatError) as caught:
        read_profile("-")

    assert caught.value.message == "standard input is in no known format"


def test_a_terminal_is_not_waited_for(monkeypatch):
    standard_input(monkeypatch, b"", is_terminal=True)

    with pytest.raises(InputError, match="standard input is a terminal"):
        read_profile("-")


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real files is not here")
def test_real_ranks_of_one_host_read_as_one_recording():
    profile = read_profile(CORPUS / "param_dlrm_worker*.json")

    assert profile.query("""
        SELECT device_id, process_id, count(*)::BIGINT AS kernels
        FROM kernels GROUP BY ALL ORDER BY ALL
    """).to_pylist() == [
        {"device_id": rank, "process_id": 59811 + rank, "kernels": kernels}
        for rank, kernels in ((0, 245), (1, 310), (3, 315), (4, 251), (5, 245), (7, 246))
    ]
    assert [rank for (rank,) in rows(profile, "runs", "rank")] == [0, 1, 3, 4, 5, 7]
    assert len(rows(profile, "devices", "device_id")) == 6
    singles = [read_profile(path) for path in sorted(CORPUS.glob("param_dlrm_worker*.json"))]
    ends = [p.origin.epoch_ns + max(p.table("kernels")["end_ns"].to_pylist()) for p in singles]
    last = max(profile.table("kernels")["end_ns"].to_pylist())
    assert profile.origin.epoch_ns == min(p.origin.epoch_ns for p in singles)
    assert profile.origin.epoch_ns + last == max(ends)
    assert profile.table("api_calls").num_rows == sum(
        p.table("api_calls").num_rows for p in singles
    )


def test_a_query_reads_less_than_the_one_before_it(tmp_path):
    """What earlier queries read is checked by the views, so that it must still be there."""
    for rank in (0, 1):
        path = rank_file(tmp_path, f"{rank}.json", device=rank, pid=100 + rank, rank=rank)
        trace = json.loads(path.read_text())
        place = {"device": rank, "context": 1, "stream": 7, "correlation": 9, "bytes": 8}
        copy = {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "args": place}
        copy |= {"ph": "X", "ts": UNIX_US + 50, "dur": 5, "pid": rank, "tid": 7}
        trace["traceEvents"].append(copy)
        path.write_text(json.dumps(trace))
    profile = read_profile(tmp_path)

    assert profile.query("SELECT busy_device_id FROM copies_by_device").num_rows == 2
    assert profile.query("SELECT start_ns FROM memcpys").num_rows == 2


def test_rows_of_many_files_are_added_up_before_the_last_file_is_read(tmp_path, monkeypatch):
    for rank in range(6):
        kernels = ["a", "b"] + ["c"] * rank
        rank_file(tmp_path, f"{rank}.json", device=rank, pid=100 + rank, rank=rank, kernels=kernels)
    expected = report(read_profile(tmp_path), ["kernel_summary", "activity_summary"]).tables
    monkeypatch.setattr(merged_ranks, "_MANY_ROWS", 3)
    most_rows = []
    monkeypatch.setattr(
        JobNumbers,
        "combined",
        lambda job, function, tables: (
            most_rows.append(sum(map(len, tables.values()))) or combined(job, function, tables)
        ),
    )

    tables = report(read_profile(tmp_path), ["kernel_summary", "activity_summary"]).tables

    assert tables == expected
    assert max(most_rows) <= 6  # of 17
