import os
import shutil
import sys
from pathlib import Path

import pytest

from gpuprof.errors import InputError
from gpuprof.readers.nsys import export_cache
from gpuprof.readers.nsys.export_cache import cached


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("GPUPROF_CACHE", str(folder))
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


def test_a_cache_that_cannot_be_written_says_how_to_move_it(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUPROF_CACHE", str(file(tmp_path, "not-a-folder") / "cache"))
    path = file(tmp_path, "a")

    with pytest.raises(InputError) as caught:
        cached(path, "kind", fill(1))

    assert caught.value.message == f"{path} cannot be exported to the cache: Not a directory"
    assert caught.value.hint == (
        "Name a folder with room for it in the environment variable GPUPROF_CACHE."
    )
