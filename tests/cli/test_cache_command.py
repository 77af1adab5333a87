"""The exports that are kept: listed, cleared, and left alone while they are read."""

import json
import os
import time

import pytest
from commands import gpuprof, python

from gpuprof.readers.nsys.export_cache import cached

DAY = 24 * 3600


@pytest.fixture(name="cache", autouse=True)
def _cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("GPUPROF_CACHE", str(folder))
    return folder


def keep(tmp_path, name, size, days_ago=0.0):
    """An export that another process made, and which nobody reads any more."""
    source = tmp_path / f"{name}.nsys-rep"
    source.write_text(name)
    make = f"lambda into: (into / 'table').write_bytes(bytes({size}))"
    code = "from pathlib import Path; from gpuprof.readers.nsys.export_cache import cached; "
    code += f"print(cached(Path({str(source)!r}), 'kind', {make}))"
    folder = python("-c", code).stdout.strip()
    then = time.time() - days_ago * DAY
    os.utime(folder, (then, then))
    return source


def shown(*arguments):
    done = gpuprof("cache", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def sources(*arguments):
    return [
        entry["source"] for entry in json.loads(shown(*arguments, "--format", "json"))["listed"]
    ]


def test_a_cache_that_was_never_used_is_empty(cache):
    assert shown() == f"0 entries in {cache}, 0 B of at most 8.59 GB\n"
    assert not cache.exists()
    assert shown("clear") == "Removed 0 entries, 0 B.\n"


def test_exports_are_listed_with_source_size_and_last_use(tmp_path, cache):
    old = keep(tmp_path, "old", 3000, days_ago=2)
    new = keep(tmp_path, "new", 500)

    found = json.loads(shown("list", "--format", "json"))
    assert found["folder"] == str(cache)
    assert [entry["source"] for entry in found["listed"]] == [str(new), str(old)]
    sums = len('{"source.txt": , "table": }')
    sizes = [500 + len(str(new)) + sums, 3000 + len(str(old)) + sums]
    # With two sums of up to ten digits each.
    bytes_more = [e["bytes"] - size for e, size in zip(found["listed"], sizes, strict=True)]
    assert all(0 < more <= 2 * len(str(2**32)) for more in bytes_more)
    table = shown().splitlines()
    assert table[1].endswith(str(new))
    assert table[2].endswith(str(old))
    assert table[3].startswith(f"2 entries in {cache}, 3.")


def test_only_what_was_not_used_for_long_is_cleared(tmp_path):
    keep(tmp_path, "old", 10, days_ago=31)
    new = keep(tmp_path, "new", 10, days_ago=29)

    assert shown("clear", "--older-than", "30").startswith("Removed 1 entry, ")
    assert sources() == [str(new)]
    assert shown("clear").startswith("Removed 1 entry, ")
    assert sources() == []


def test_what_is_being_read_is_kept(tmp_path):
    source = tmp_path / "read.nsys-rep"
    source.write_text("read")
    cached(source, "kind", lambda into: (into / "table").touch())
    keep(tmp_path, "other", 10)

    assert shown("clear").endswith("Kept 1 that a running gpuprof reads.\n")
    assert sources() == [str(source)]
    kept = json.loads(shown("clear", "--format", "json"))["kept"]
    assert [entry["source"] for entry in kept] == [str(source)]


def test_an_export_that_is_not_yet_whole_is_neither_listed_nor_cleared(tmp_path, cache):
    keep(tmp_path, "whole", 10)
    (cache / "partial-x").mkdir()

    assert len(sources()) == 1
    shown("clear")
    assert (cache / "partial-x").exists()


def test_an_export_of_an_older_gpuprof_has_no_source(cache):
    (cache / "nsys-rep-0123").mkdir(parents=True)

    assert sources() == [None]
    assert "nsys-rep-0123" in shown()


def test_a_folder_that_is_a_file_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "file"))

    done = gpuprof("cache")

    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {tmp_path / 'file'} cannot be read: Not a directory\n"
        "Hint: Name another folder in the environment variable GPUPROF_CACHE.\n"
    )
