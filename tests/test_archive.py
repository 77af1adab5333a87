"""A run goes into one file and comes back; what was changed or would escape is refused whole."""

import hashlib
import json
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from commands import DUAL, ROOT, gpuprof

from gpuprof import read_profile
from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    GpuprofError,
    UnknownFormatError,
)
from gpuprof.base.manifest import Manifest, finish_manifest, read_manifest
from gpuprof.readers.gpuprof.packed_run import INDEX, unpack
from gpuprof.show.archive import RECORDING, pack
from gpuprof.show.output import prepare

TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"
MANIFEST = Manifest(
    recorder="nvprof",
    variant="dual",
    command=("python", "train.py"),
    started_at="2026-01-02T03:04:05+00:00",
    exit_status=0,
    recordings=("dual.txt",),
    epochs=({"epoch": 0, "seconds": 2.0, "steps": 4},),
    seconds_per_epoch=2.0,
    seconds_per_step=0.5,
    warnings=("Something to know.",),
)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "dual.txt").write_bytes(Path(DUAL).read_bytes())
    (folder / "marks.jsonl").write_text('{"mark": "epoch"}\n', encoding="utf-8")
    (folder / "program.log").write_text("said\n", encoding="utf-8")
    finish_manifest(folder, MANIFEST)
    return folder


@pytest.fixture
def packed(run, tmp_path):
    pack(run, prepare(str(tmp_path / "run.zip")))
    return tmp_path / "run.zip"


def test_a_packed_run_is_read_as_it_is(run, packed, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "cache"))
    content = packed.read_bytes()

    before, after = read_profile(run), read_profile(packed)

    assert after.origin == replace(before.origin, source=packed)
    assert {n: after.table(n).num_rows for n in after.sources} == {
        n: before.table(n).num_rows for n in before.sources
    }
    assert packed.read_bytes() == content
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cache", "run", "run.zip"]


def test_a_packed_run_that_was_changed_is_refused_and_nothing_is_kept(
    packed, tmp_path, monkeypatch
):
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "cache"))
    content = packed.read_bytes()
    packed.write_bytes(content.replace(b'"variant": "dual"', b'"variant": "duel"'))

    with pytest.raises(CorruptFileError) as caught:
        read_profile(packed)

    assert caught.value.message == (
        f"{packed}: Bad CRC-32 for file 'manifest.json'; nothing was unpacked"
    )
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_packed_run_without_a_recording_says_so_of_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "empty"
    folder.mkdir()
    finish_manifest(folder, replace(MANIFEST, recordings=(), epochs=()))
    pack(folder, prepare(str(tmp_path / "empty.zip")))

    with pytest.raises(EmptyRecordingError) as caught:
        read_profile(tmp_path / "empty.zip")

    assert caught.value.message == f"{tmp_path / 'empty.zip'}: nothing was recorded"


def test_a_run_that_was_packed_and_unpacked_reads_as_before(run, packed, tmp_path):
    unpack(packed, tmp_path / "again")
    before, after = read_profile(run), read_profile(tmp_path / "again")

    assert sorted(p.name for p in (tmp_path / "again").iterdir()) == [
        "manifest.json",
        "marks.jsonl",
        RECORDING,
    ]
    assert set(after.sources) == set(before.sources)
    for table in before.sources:
        assert after.table(table).equals(before.table(table)), table
    assert after.origin.warnings == before.origin.warnings
    assert (after.origin.tool, after.origin.variant) == ("nvprof", "dual")
    assert read_manifest(tmp_path / "again").seconds_per_step == 0.5


def test_the_original_goes_along_by_choice(run, tmp_path):
    (run / "elsewhere").symlink_to("/etc")
    pack(run, prepare(str(tmp_path / "run.zip")), with_original=True)
    unpack(tmp_path / "run.zip", tmp_path / "again")

    originals = sorted(p.name for p in (tmp_path / "again" / "original").iterdir())
    assert originals == ["dual.txt", "manifest.json", "marks.jsonl", "program.log"]
    original = (tmp_path / "again" / "original" / "dual.txt").read_bytes()
    assert original == Path(DUAL).read_bytes()


def test_the_same_run_packs_into_the_same_bytes(run, packed, tmp_path):
    pack(run, prepare(str(tmp_path / "twice.zip")))

    assert (tmp_path / "twice.zip").read_bytes() == packed.read_bytes()


def forged(path, members, *, listed=None, prepare_info=lambda info: info, compress=0):
    """An archive with these members and a fitting index, unless another list is given."""
    index = [
        {"name": n, "size": len(d), "sha256": hashlib.sha256(d).hexdigest()}
        for n, d in (listed or members).items()
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(INDEX, json.dumps({"gpuprof_pack": 1, "members": index}))
        for name, data in members.items():
            info = prepare_info(zipfile.ZipInfo(name))
            info.compress_type = compress
            archive.writestr(info, data)
    return path


RUN = {"manifest.json": MANIFEST.to_json().encode()}


def as_link(info):
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def as_pipe(info):
    info.external_attr = (stat.S_IFIFO | 0o666) << 16
    return info


ESCAPES = {
    "parent": "../evil",
    "parent-within": "a/../../evil",
    "absolute": "/evil",
    "drive": "C:/evil",
    "drive-relative": "C:evil",
    "unc": "//server/share/evil",
    "backslash": "..\\evil",
    "dot": "./evil",
    "empty-part": "a//evil",
    "folder": "folder/",
    "device": "NUL",
    "device-with-suffix": "a/com1.txt",
    "stream": "manifest.json:evil",
    "trailing-dot": "evil.",
    "control": "a\x01b",
}


@pytest.mark.parametrize("name", ESCAPES.values(), ids=ESCAPES)
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    file = forged(inside / "run.zip", {**RUN, name: b"evil"})

    with pytest.raises(CorruptFileError, match="nothing was unpacked"):
        unpack(file, inside / "again")
    assert [p.name for p in tmp_path.rglob("*")] == ["inside", "run.zip"]


def _packed_trace(folder):
    """A packed run with times of kernels and copies."""
    place = folder / "traced"
    place.mkdir()
    (place / "trace.csv").write_bytes(TRACE.read_bytes())
    finish_manifest(place, replace(MANIFEST, recordings=("trace.csv",), recorder="nsys"))
    pack(place, prepare(str(folder / "traced.zip")))


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("report",), None),
        (("compare", DUAL), None),
        (("report", "--table", "kernel_summary", "--format", "csv"), None),
        (("plot", "matrix", "-o", "matrix.svg"), "matrix.svg"),
        (("export", "--to", "parquet", "-o", "tables"), "tables/kernels.parquet"),
        (("export", "--to", "csv", "--table", "memcpys", "-o", "copies.csv"), "copies.csv"),
        (("convert", "-o", "run.gpuprof"), "run.gpuprof"),
        (("report", "--html", "page.html"), "page.html"),
    ],
    ids=lambda words: "-".join(words) if isinstance(words, tuple) else "",
)
def test_commands_read_a_packed_run(tmp_path, words, output):
    _packed_trace(tmp_path)
    options = {"GPUPROF_CACHE": str(tmp_path / "cache")}

    done = gpuprof(*words, "traced.zip", cwd=tmp_path, **options)

    assert (done.returncode, done.stderr) == (0, "")
    assert output is None or (tmp_path / output).stat().st_size


@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("plot", "matrix", "-o", "out.svg"),
        ("export", "--to", "csv", "-o", "out"),
        ("compare", DUAL),
    ],
    ids=lambda words: words[0],
)
def test_commands_refuse_a_hostile_archive(tmp_path, words):
    cache = tmp_path / "cache"
    forged(tmp_path / "run.zip", {"manifest.json": b"{}", "../out": b"x"})

    done = gpuprof(*words, "run.zip", cwd=tmp_path, GPUPROF_CACHE=str(cache))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: run.zip")
    assert len(done.stderr.splitlines()) <= 2
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} <= {"run.zip", ".lock"}
    assert not (tmp_path.parent / "out").exists()


@pytest.mark.parametrize("kind", [as_link, as_pipe])
def test_a_link_or_a_pipe_is_refused(tmp_path, kind):
    file = forged(tmp_path / "run.zip", {**RUN, "x": b"/etc/passwd"}, prepare_info=kind)

    with pytest.raises(CorruptFileError, match="is a link or no plain file"):
        unpack(file, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    bomb = {**RUN, "zeros": bytes(50_000_000)}
    file = forged(tmp_path / "run.zip", bomb, compress=zipfile.ZIP_DEFLATED)

    assert file.stat().st_size < 100_000
    with pytest.raises(CorruptFileError, match="would unpack to more than its own size"):
        unpack(file, tmp_path / "again")
    assert not (tmp_path / "again").exists()


WRONG = {
    "changed": ({"x": b"abd"}, {"x": b"abc"}, "was changed or damaged"),
    "size": ({"x": b"abcd"}, {"x": b"abc"}, "has not the listed size"),
    "unlisted": ({"x": b"abc"}, {"y": b""}, "is in it but not listed|is listed but missing"),
    "missing": ({}, {"x": b"abc"}, "'x' is listed but missing"),
}


@pytest.mark.parametrize(("members", "listed", "said"), WRONG.values(), ids=WRONG)
def test_what_is_not_as_it_was_packed_is_refused(tmp_path, members, listed, said):
    file = forged(tmp_path / "run.zip", RUN | members, listed=RUN | listed)

    with pytest.raises(CorruptFileError, match=said):
        unpack(file, tmp_path / "again")
    assert [p.name for p in tmp_path.iterdir()] == ["run.zip"]


@pytest.mark.parametrize(
    ("place", "byte"), [(6, 84), (46, 0xFF)], ids=["version", "name-that-is-not-utf-8"]
)
def test_a_list_of_members_that_cannot_be_read_is_no_packed_run(packed, tmp_path, place, byte):
    data = bytearray(packed.read_bytes())
    last = data.rindex(b"PK\x01\x02")  # entry of the list at the end of the archive
    data[last + 9] |= 8  # its name is said to be UTF-8
    data[last + place] = byte
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(data)

    with pytest.raises(UnknownFormatError, match="is no packed run, or is cut short"):
        unpack(damaged, tmp_path / "again")


def test_two_names_that_are_one_on_some_systems_are_refused(tmp_path):
    file = forged(tmp_path / "run.zip", {**RUN, "a": b"1", "A": b"2"})

    with pytest.raises(CorruptFileError, match="names a file twice"):
        unpack(file, tmp_path / "again")


ENDLESS = b'{"gpuprof_pack": 1, "members": [{"name": "a", "size": 1e999, "sha256": ""}]}'


@pytest.mark.parametrize("index", [b"", b"[]", b"{}", b'{"gpuprof_pack": 1}', b"\xff", ENDLESS])
def test_an_archive_of_others_is_no_packed_run(tmp_path, index):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(INDEX, index)
    with pytest.raises(UnknownFormatError, match="is no packed run"):
        unpack(tmp_path / "x.zip", tmp_path / "again")


def test_a_packed_run_cut_anywhere_is_refused_and_leaves_nothing(packed, tmp_path):
    content = packed.read_bytes()
    for size in range(0, len(content), max(1, len(content) // 40)):
        (tmp_path / "cut.zip").write_bytes(content[:size])
        with pytest.raises(GpuprofError):
            unpack(tmp_path / "cut.zip", tmp_path / "again")
        assert not (tmp_path / "again").exists()


def test_a_packed_run_with_any_byte_changed_never_reads_as_another_run(packed, tmp_path):
    content = bytearray(packed.read_bytes())
    for position in range(0, len(content), max(1, len(content) // 60)):
        changed = bytearray(content)
        changed[position] ^= 0x55
        (tmp_path / "changed.zip").write_bytes(changed)
        folder = tmp_path / f"again-{position}"
        try:
            unpack(tmp_path / "changed.zip", folder)
        except GpuprofError:
            assert not folder.exists()
        else:
            # A byte that says nothing of the content, such as a member's time.
            assert (folder / RECORDING).read_bytes() in bytes(content)


def test_the_commands_pack_and_unpack_a_run(run, tmp_path):
    completed = gpuprof("pack", run, cwd=tmp_path)
    assert (completed.returncode, completed.stdout, completed.stderr) == (
        0,
        "",
        "Packed in run.zip\n",
    )
    assert gpuprof("pack", run, cwd=tmp_path).returncode == 1
    assert gpuprof("pack", run, "--force", cwd=tmp_path).returncode == 0

    refused = gpuprof("unpack", "run.zip", cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: run exists already\n")
    assert gpuprof("unpack", "run.zip", "-o", "b/again", cwd=tmp_path).returncode == 0
    shown = [gpuprof("report", place, "--all", cwd=tmp_path) for place in ("run", "b/again")]
    assert [s.returncode for s in shown] == [0, 0]
    assert shown[0].stdout.splitlines()[1:] == shown[1].stdout.splitlines()[1:]
