import pytest

from gpuprof.base import nsight


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a shell script of a name on PATH, which holds nothing else."""
    folder = tmp_path / "nsight" / "target-linux-x64"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder))

    def script(name, text):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
        return folder

    return script


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0", "2023.4.4.54"),
        ("Copyright (c) 2012 - 2023 NVIDIA Corporation\nRelease version 12.0.140 (21)", "12.0.140"),
        ("no number", None),
    ],
    ids=["nsys", "nvprof", "none"],
)
def test_a_tool_says_its_version(install, text, version):
    install("nsys", f'echo "{text}"')

    assert nsight.version("nsys") == version


def test_a_tool_that_is_not_there_says_nothing(install):
    folder = install("broken", "")
    (folder / "broken").write_bytes(b"no program")

    assert (nsight.printed("nsys", "--version"), nsight.version("nsys")) == ("", None)
    assert (nsight.printed("broken"), nsight.importer(), nsight.newest_cuda()) == ("", None, None)


def test_what_comes_with_nsys_is_found_beside_it(install):
    folder = install("nsys", "exit 1")
    for name in ("libcupti.so.11.8", "libcupti.so.12.10", "libcupti.so.12.9", "libcupti.so"):
        (folder / name).touch()
    host = folder.parent / "host-linux-x64"
    host.mkdir()
    install("QdstrmImporter", "").joinpath("QdstrmImporter").rename(host / "QdstrmImporter")

    assert nsight.importer() == str(host / "QdstrmImporter")
    assert nsight.newest_cuda() == (12, 10)
