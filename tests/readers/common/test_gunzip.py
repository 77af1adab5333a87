"""Texts are read whole within limits, so that no file of some kilobytes exhausts the memory."""

import csv
import gzip
import json
import random
import re

import pytest
import test_kineto
import test_nsys_stats
from contract import SAMPLES

from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.readers import read_profile
from gpuprof.readers.common import gunzip

MIB = 1 << 20


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(gunzip, "LARGEST_UNPACKED_BYTES", 8 * MIB)


def bomb(folder, head=b"", size=12 * MIB):
    """A gzip file of a text that repeats one character."""
    path = folder / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(head)
        for _ in range(size // MIB):
            file.write(b" " * MIB)
    return path


def test_a_plain_and_a_packed_file_have_the_same_content(tmp_path):
    text = json.dumps(list(range(100_000))).encode()
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed").write_bytes(gzip.compress(text))
    (tmp_path / "members").write_bytes(gzip.compress(text[:7]) + gzip.compress(text[7:]))

    for name in ("plain", "packed", "members"):
        assert gunzip.content(tmp_path / name) == text


def stamped(text):
    lines = text.splitlines(keepends=True)
    return "".join(f"2024-05-01T10:11:{n % 60:02}.1234567Z {line}" for n, line in enumerate(lines))


def labelled(label):
    """What a launcher makes of the output of a process: a label before each of its lines."""
    return lambda text: "".join(label + line for line in text.splitlines(keepends=True)).encode()


COLLECTED = {
    "srun --label": labelled("0: "),
    "srun --label of many": labelled(" 7: "),
    "pdsh": labelled("node-1.cluster: "),
    "mpirun --tag-output": labelled("[1,0]<stdout>:"),
    "mpiexec -l": labelled("[0] "),
    "ts": labelled("2024-05-01 10:11:12 "),
    "logger": labelled("[2024-05-01 10:11:12,345] "),
    "powershell": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "utf-16-big-endian": lambda text: ("\ufeff" + text).encode("utf-16-be"),
    "kubernetes": lambda text: stamped(text).encode(),
    "github-actions": lambda text: ("\ufeff" + stamped(text)).encode(),
    "docker-with-offset": lambda text: stamped(text).replace("Z ", "+02:00 ").encode(),
}


@pytest.mark.parametrize("collect", COLLECTED.values(), ids=COLLECTED)
@pytest.mark.parametrize(
    "sample",
    [
        "nvprof/published/dual.txt",
        "nsys/2023.4.4/synthetic-two-gpus-stats.txt",
        "nsys/2023.4.4/synthetic-two-gpus-trace.csv",
    ],
)
def test_a_log_is_read_as_the_program_wrote_it_whatever_collected_it(tmp_path, sample, collect):
    path = tmp_path / "log.txt"
    path.write_bytes(collect((SAMPLES / sample).read_text(encoding="utf-8")))
    plain, collected = read_profile(SAMPLES / sample), read_profile(path)

    assert {*collected.tables} == {*plain.tables}
    for table in plain.tables:
        assert collected.table(table).equals(plain.table(table))


SUMMARY = """\
==7== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",75.500000,1.510000,2,755.000000,700.500000,809.500000,"gemm(float*, int)"
"GPU activities",24.500000,0.490000,1,490.000000,490.000000,490.000000,"[CUDA memcpy HtoD]"
"""


@pytest.mark.parametrize(
    "text",
    [SUMMARY, (SAMPLES / "nsys/2023.4.4/synthetic-two-gpus-trace.csv").read_text(encoding="utf-8")],
    ids=["nvprof", "nsys"],
)
def test_a_table_that_a_spreadsheet_wrote_with_semicolons_is_read(tmp_path, text):
    number = re.compile(r"-?[0-9]+\.[0-9]+")
    original, path = tmp_path / "original.csv", tmp_path / "saved.csv"
    original.write_text(text, encoding="utf-8")
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows(
            [cell.replace(".", ",") if number.fullmatch(cell) else cell for cell in row]
            for row in csv.reader(text.splitlines())
        )

    plain, saved = read_profile(original), read_profile(path)
    assert {*saved.tables} == {*plain.tables}
    for table in plain.tables:
        assert saved.table(table).equals(plain.table(table))


def test_lines_of_several_processes_are_refused_with_a_way_to_separate_them(tmp_path):
    path = tmp_path / "log.txt"
    lines = (SAMPLES / "nsys/2023.4.4/synthetic-two-gpus-stats.txt").read_text().splitlines()
    path.write_text("".join(f"{rank}: {line}\n" for line in lines for rank in (0, 1)))

    with pytest.raises(UnknownFormatError) as error:
        read_profile(path)
    assert error.value.message == (
        f"{path} is the output of several processes, each line with the number of its own"
    )
    assert error.value.hint == "Separate them, such as: grep '^0: ' FILE > rank0.txt"


def test_a_file_that_only_begins_like_utf_16_is_refused_in_one_line(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes("==7== NVPROF is profiling process 7".encode("utf-16") + b"\x00\xd8\x41\x00")

    with pytest.raises(CorruptFileError, match="starts like UTF-16 but is not valid UTF-16"):
        gunzip.content(path)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("noise_bytes", [0, 9 * MIB])
def test_a_file_that_unpacks_to_more_than_is_read_is_refused_however_well_it_packs(
    tmp_path, noise_bytes
):
    path = bomb(tmp_path, random.Random(0).randbytes(noise_bytes))  # noqa: S311 - no secret

    with pytest.raises(CorruptFileError) as caught:
        gunzip.content(path)

    assert caught.value.message == (
        f"{path} unpacks to more than 8,388,608 bytes, the limit for gzip files"
    )
    assert caught.value.hint == "If it is a recording, unpack it first: gunzip FILE."


def test_a_text_that_packs_well_is_read(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(b" " * 100 * MIB))

    assert len(gunzip.content(tmp_path / "x")) == 100 * MIB


@pytest.mark.parametrize("event", [b"{}", b"1", b'{"a":1}'])
def test_a_trace_of_tiny_events_is_refused_before_it_takes_the_memory(tmp_path, event):
    count = 20 * MIB // (len(event) + 1)
    text = b'{"schemaVersion":1,"traceEvents":[' + b",".join([event] * count) + b"]}"
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text, 1))

    with pytest.raises(GpuprofError, match=r"parts in .* bytes, unlike any|has no GPU activity"):
        read_profile(path)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("reader", ["kineto", "tf1-timeline", "nsys-stats"])
def test_each_reader_of_texts_refuses_such_a_file(tmp_path, reader):
    head = b'{"schemaVersion": 1, "traceEvents": [], "x": "'

    with pytest.raises(CorruptFileError, match="unpacks to more than 8,388,608 bytes"):
        read_profile(bomb(tmp_path, head), reader)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("reader", ["nvprof-text", "nvprof-csv", "nvprof-trace", None])
def test_readers_that_look_through_a_log_piece_by_piece_refuse_it_as_well(tmp_path, reader):
    head = b"==7== NVPROF is profiling process 7, command: ./a\n==7== Profiling result:\n"

    with pytest.raises(CorruptFileError, match="unpacks to more than 8,388,608 bytes"):
        read_profile(bomb(tmp_path, head), reader)


def test_a_trace_of_one_event_again_and_again_is_no_such_file(tmp_path):
    events = [test_kineto.KERNEL] * 50_000
    path = tmp_path / "trace.json.gz"
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=4).encode()
    path.write_bytes(gzip.compress(text))

    assert len(text) > 100 * path.stat().st_size
    assert read_profile(path).table("kernels").num_rows == 50_000


def test_a_text_above_the_limit_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(gunzip, "LARGEST_TRACE_BYTES", 1000)
    path = tmp_path / "large.txt"
    path.write_bytes(test_nsys_stats.YEAR_2024.encode() * 10)

    with pytest.raises(CorruptFileError, match="1,000") as caught:
        read_profile(path, "nsys-stats")
    assert caught.value.hint == "Record less of the program, such as a few steps."


def test_a_damaged_gzip_file_is_refused(tmp_path):
    whole = bytearray(gzip.compress(b"text" * 1000))
    path = tmp_path / "damaged.gz"
    for content in (whole[:-4], whole[:20] + b"\0\0\0" + whole[23:], whole[:5]):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="cut short or damaged"):
            gunzip.content(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        gunzip.content(tmp_path / "missing")
