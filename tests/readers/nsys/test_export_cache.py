import errno
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from gpuprof.base.errors import InputError
from gpuprof.readers.nsys import export_cache
from gpuprof.readers.nsys.export_cache import cached


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("GPUPROF_CACHE", str(folder))
    export_cache._folder_of_this_process.cache_clear()  # noqa: SLF001 - of another test
    return folder


def file(tmp_path, content):
    path = tmp_path / f"{content}.bin"
    path.write_text(content)
    return path


def fill(size):
    return lambda into: (into / "table").write_bytes(bytes(size))


def test_the_cache_lies_where_the_system_keeps_a_users_caches(monkeypatch):
    monkeypatch.delenv("GPUPROF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(sys, "platform", "linux")

    assert export_cache.location() == Path("/somewhere/gpuprof")


def test_an_interrupted_export_leaves_nothing(tmp_path, folder):
    def make(into):
        (into / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(file(tmp_path, "a"), "kind", make)

    assert list(folder.iterdir()) == []


def test_what_a_killed_export_left_goes_after_a_day(tmp_path, folder):
    cached(file(tmp_path, "a"), "kind", fill(1))
    for name, age in (("partial-old", 2 * 24 * 3600), ("partial-new", 60)):
        (folder / name).mkdir()
        then = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (then, then))

    cached(file(tmp_path, "b"), "kind", fill(1))

    assert sorted(entry.name[:11] for entry in folder.iterdir() if "partial" in entry.name) == [
        "partial-new"
    ]


def test_the_longest_unused_goes_first_where_there_are_too_many(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(export_cache, "LIMIT_BYTES", 2500)
    for name, used in (("first", 2), ("second", 1)):
        (folder / name).mkdir(parents=True)
        fill(1000)(folder / name)
        os.utime(folder / name, (used, used))

    third = cached(file(tmp_path, "c"), "kind", fill(1000))

    assert sorted(entry.name for entry in folder.iterdir()) == sorted(["first", third.name])


def test_what_this_process_reads_is_not_pushed_out(tmp_path, monkeypatch):
    monkeypatch.setattr(export_cache, "LIMIT_BYTES", 10)
    first, second = (cached(file(tmp_path, name), "kind", fill(100)) for name in "ab")

    assert (first.exists(), second.exists()) == (True, True)


def test_an_export_that_was_cleared_is_made_again(tmp_path):
    path = file(tmp_path, "a")
    shutil.rmtree(cached(path, "kind", fill(1)))

    assert (cached(path, "kind", fill(2)) / "table").stat().st_size == 2


def test_an_export_beyond_the_limit_is_kept_for_its_own_use(tmp_path, monkeypatch):
    monkeypatch.setattr(export_cache, "LIMIT_BYTES", 10)

    assert cached(file(tmp_path, "a"), "kind", fill(100)).exists()


def test_two_processes_may_make_the_same_export_at_once(tmp_path):
    path = file(tmp_path, "a")
    others = []

    def make(into):
        (into / "table").touch()
        others.append(cached(path, "kind", fill(1)))

    assert [cached(path, "kind", make)] == others


@pytest.mark.parametrize("change", ["replaced", "overwritten", "overwritten and restored"])
def test_a_file_that_changes_while_it_is_exported_is_not_kept(tmp_path, folder, change):
    path, other = file(tmp_path, "a"), file(tmp_path, "b")

    def make(into):
        before = path.read_text()
        if change == "replaced":
            other.rename(path)
        else:
            path.write_text(other.read_text())
        (into / "table").write_bytes(path.read_bytes())
        if change == "overwritten and restored":
            path.write_text(before)

    with pytest.raises(InputError) as caught:
        cached(path, "kind", make)

    assert caught.value.message == f"{path} changed while it was read"
    kept = cached(path, "kind", lambda into: shutil.copy(path, into / "table"))
    assert (kept / "table").read_bytes() == path.read_bytes()
    assert [entry for entry in folder.iterdir() if entry != kept] == []


def emptied(entry):
    (entry / "table").write_bytes(b"")


def cut_short(entry):
    os.truncate(entry / "table", 50)


def with_another_byte(entry):
    (entry / "table").write_bytes(bytes(99) + b"1")


def without_a_table(entry):
    (entry / "table").unlink()


def with_a_foreign_table(entry):
    fill(1)(entry / "deeper")


def without_sums(entry):
    (entry / "sums.json").write_text("{")


@pytest.mark.parametrize(
    "damage",
    [emptied, cut_short, with_another_byte, without_a_table, with_a_foreign_table, without_sums],
)
def test_a_damaged_entry_is_made_again(tmp_path, folder, damage):
    path = file(tmp_path, "a")
    entry = cached(path, "kind", fill(100))
    (entry / "deeper").mkdir()
    damage(entry)

    assert cached(path, "kind", fill(100)) == entry
    assert (entry / "table").read_bytes() == bytes(100)
    assert sorted(f.name for f in entry.iterdir()) == ["source.txt", "sums.json", "table"]
    assert list(folder.iterdir()) == [entry]


def test_an_entry_is_on_the_disk_before_it_has_its_name(tmp_path, folder, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace

    def flushed(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def renamed(path, target):
        events.append("renamed")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    cached(file(tmp_path, "a"), "kind", fill(1))

    before = events[: events.index("renamed")]
    assert {"table", "source.txt", "sums.json"} < set(before)
    assert before[-1].startswith("partial-")
    assert events[-2:] == ["renamed", folder.name]


def full(into):
    if into.is_relative_to(os.environ["GPUPROF_CACHE"]):
        raise OSError(errno.ENOSPC, "No space left on device")
    fill(1)(into)


@pytest.mark.parametrize("reason", ["a file", "full", "no home"])
def test_without_a_cache_an_export_is_made_for_this_process_alone(tmp_path, monkeypatch, reason):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = full if reason == "full" else fill(1)
    if reason == "a file":
        monkeypatch.setenv("GPUPROF_CACHE", str(file(tmp_path, "not-a-folder") / "cache"))
    if reason == "no home":
        monkeypatch.delenv("GPUPROF_CACHE")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", raises(RuntimeError("no home")))
    path = file(tmp_path, "a")

    entry = cached(path, "kind", make)

    assert entry.parent.parent == tmp_path
    assert entry.parent.name.startswith("gpuprof-")
    assert (entry / "table").exists()
    assert cached(path, "kind", make) == entry


def raises(error):
    def fail(*_):
        raise error

    return fail


def test_an_export_that_has_room_nowhere_says_how_to_move_it(tmp_path):
    path = file(tmp_path, "a")

    with pytest.raises(InputError) as caught:
        cached(path, "kind", raises(OSError(errno.ENOSPC, "No space left on device")))

    assert caught.value.message == f"{path} cannot be exported: No space left on device"
    assert caught.value.hint == "Set TMPDIR or GPUPROF_CACHE to a folder with more room."
