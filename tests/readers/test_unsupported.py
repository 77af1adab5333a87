"""Files that people take for recordings are refused by name."""

import pytest

import gpuprof
from gpuprof.base.errors import UnknownFormatError

EXPORT = "Export the report as SQLite: `nsys export --type sqlite FILE.nsys-rep`."
READ = "of what nsys exports, SQLite"


UNPACK = "Unpack it, and give the folder or a file in it."
AS_JSON = "a report of nsys as JSON, which holds no tables"


@pytest.mark.parametrize(
    ("content", "what", "hint"),
    [
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "a Git LFS pointer, not the file itself", "Fetch it with `git lfs pull`.",
            id="lfs-pointer",
        ),
        pytest.param(
            b'{\n "cells": [\n  {"outputs": [{"text": [" CUDA Kernel Statistics:\\n"]}]}\n ]}',
            "a Jupyter notebook", "Save the profiler's output in a file of its own, such as "
            "`nsys stats ... > report.txt`.", id="notebook",
        ),
        pytest.param(
            b'<?xml version="1.0"?>\n<session version="1">',
            "a session of the NVIDIA Visual Profiler, which holds no measurements itself",
            "Give the file that it was imported from, or record with `nvprof -o run.nvprof`.",
            id="visual-profiler",
        ),
        pytest.param(
            b"\x00\x04\x00\x00\x05\x00\x00\x00\x01\x04",
            "a profile of an nvprof that did not write SQLite yet",
            "Print it with the nvprof that wrote it: `nvprof -i FILE --print-gpu-trace --csv`.",
            id="old-nvprof",
        ),
        pytest.param(
            b"\n<!DOCTYPE html><html><body>Log in</body></html>",
            "a web page, not a recording", "Download the file itself.", id="web-page",
        ),
        pytest.param(b'{"data":["GpuMetrics","mm_', AS_JSON, EXPORT, id="nsys-json"),
        pytest.param(b'{"Type":7,"Cuda', AS_JSON, EXPORT, id="nsys-json-without-texts"),
        pytest.param(
            b'data: "GpuMetrics"\ndata: "mm_"\n',
            "a report of nsys as text, which holds no tables", EXPORT, id="nsys-text",
        ),
        pytest.param(
            b"\x89HDF\r\n\x1a\n\0\0", f"an HDF5 file; {READ} and Parquet are read", EXPORT,
            id="hdf5",
        ),
        pytest.param(
            b"\xff\xff\xff\xff\xc0\x01\0\0\x10\0\0\0\0\0\x0a\0",
            f"an Arrow file; {READ} and folders of Arrow or Parquet are read", EXPORT, id="arrow",
        ),
        pytest.param(
            b"ranks/".ljust(257, b"\0") + b"ustar\x0000", "a tar archive", UNPACK, id="tar-archive"
        ),
        pytest.param(
            b"PK\x03\x04\x14\x00\x00\x00\x08\x00recording.sqlite",
            "a zip archive of another program than `gpuprof pack`", UNPACK, id="zip-archive",
        ),
        pytest.param(
            b"PAR1\x15\x04", "a Parquet table, and a recording has several",
            "Give the folder that nsys exported, or the recording that the table is from.",
            id="parquet-table",
        ),
        pytest.param(
            b"\xfd7zXZ\x00\x00\x04", "compressed with xz, Zstandard or bzip2",
            "Unpack it, or give it through a pipe, such as <(xz -dc FILE).", id="xz",
        ),
    ],
)  # fmt: skip
def test_file_of_another_kind_is_refused_by_name(tmp_path, content, what, hint):
    path = tmp_path / "run.nvvp"
    path.write_bytes(content)

    with pytest.raises(UnknownFormatError) as caught:
        gpuprof.read_profile(path)
    assert caught.value.message == f"{path} is {what}"
    assert caught.value.hint == hint
