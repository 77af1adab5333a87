"""NVIDIA's tools on PATH, and what gpuprof takes out of its own exports of nsys."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_forms import FORMS, pieces_left

from gpuprof.base import nsight
from gpuprof.base.nsight import scrub
from gpuprof.base.secrets import REMOVED


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


PLANTED = "planted-text-7f3a"


def scrubbed(path, arguments=(), strings=(), outputs=(), system=()):
    """The texts of a small export, by table, after its secrets were taken out."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as export, export:
        export.executescript(
            "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            "CREATE TABLE ProcessStreams (filenameId INTEGER, contentId INTEGER);"
        )
        export.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", arguments)
        export.executemany("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, ?)", system)
        export.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(strings))
        export.executemany("INSERT INTO ProcessStreams VALUES (-1, ?)", outputs)
    scrub(path)
    with closing(sqlite3.connect(path)) as export:
        return {
            table: [value for (value,) in export.execute(f"SELECT value FROM {table}")]
            for table in ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV", "StringIds")
        }


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_no_form_of_a_secret_is_left_in_the_words_of_any_process(tmp_path_factory, data):
    drawn, around = FORMS[data.draw(st.sampled_from(sorted(FORMS)))]
    secrets = [data.draw(drawn) for _ in range(2)]
    words = [[*around(secret), "--lr", "0.1", *["-v"] * 9] for secret in secrets]
    # nsys lists the words of all processes with the same number one after the other.
    rows = [
        (f"PROCESS_{process}:ARGUMENT_{number}", word)
        for number in range(len(words[0]))
        for process, word in enumerate(row[number] for row in words)
    ]
    path = tmp_path_factory.mktemp("export") / "nsys.sqlite"
    texts = scrubbed(path, rows)["META_DATA_CAPTURE"]

    assert [pieces_left(secret, texts, around) for secret in secrets] == [[], []]
    assert texts[-2:] == ["-v", "-v"]
    assert texts.count("--lr") == texts.count("0.1") == 2


def test_variables_hosts_and_output_are_removed_and_names_stay(tmp_path):
    names = [
        "void scale<float, Key=3>(float*)",
        "_ZN2at6native18elementwise_kernelIL32ABCDEFGHIJKLMNO",
    ]
    texts = scrubbed(
        tmp_path / "nsys.sqlite",
        [
            ("PROCESS_0:ENVIRONMENT_VARIABLE", f'HF_TOKEN="{PLANTED}"'),
            ("DEVICE_DISPLAY_NAME", PLANTED),
            ("PROCESS_0:WORKING_DIR", f"https://me:{PLANTED}@host/x"),
            ("PROCESS_0:COMMAND", "/usr/bin/python"),
        ],
        [*names, f"A=1\0HF_TOKEN={PLANTED}", f"printed {PLANTED}", ""],
        [(3,), (4,)],
        [("Hostname", PLANTED), ("DeviceEnvironment", f"A={PLANTED}"), ("CpuCores", "28")],
    )

    assert texts == {
        "META_DATA_CAPTURE": [REMOVED, REMOVED, "https://***@host/x", "/usr/bin/python"],
        "TARGET_INFO_SYSTEM_ENV": [REMOVED, REMOVED, "28"],
        "StringIds": [*names, REMOVED, REMOVED, ""],
    }
    assert PLANTED.encode() not in (tmp_path / "nsys.sqlite").read_bytes()


def test_tables_that_an_export_lacks_are_no_fault(tmp_path):
    path = tmp_path / "nsys.sqlite"
    with closing(sqlite3.connect(path)) as export, export:
        export.execute("CREATE TABLE ProcessStreams (contentId INTEGER)")
    scrub(path)


def test_a_command_that_is_no_utf_8_is_masked(tmp_path):
    path = tmp_path / "nsys.sqlite"
    with closing(sqlite3.connect(path)) as export, export:
        export.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        for number, word in enumerate((b"caf\xe9", b"--token", PLANTED.encode())):
            row = f"PROCESS_0:ARGUMENT_{number}", word
            export.execute("INSERT INTO META_DATA_CAPTURE VALUES (?, CAST(? AS TEXT))", row)
    scrub(path)
    with closing(sqlite3.connect(path)) as export:
        values = [value for (value,) in export.execute("SELECT value FROM META_DATA_CAPTURE")]

    assert values == ["caf\ufffd", "--token", "***"]
