"""What every reader owes, tried on every sample; `test_corpus` tries it on real files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from contract import (
    ROOT,
    TOOL_NEEDED,
    check_error,
    check_tables,
    corpus_files,
    expectations,
    few_of_each_writer,
    name_of,
    params,
    sample_recordings,
)

import gpuprof
from gpuprof.base.errors import GpuprofError
from gpuprof.model import data_model
from gpuprof.readers import READERS, all_readers, find_reader
from gpuprof.readers.input_format import Reader

SAMPLES = sample_recordings()
TRACE = ROOT / "sample_logs/nsys/2023.4.4/synthetic-two-gpus-trace.csv"
FILES = corpus_files()
# What else can read a report.
BY_NAME_ALONE = "nsys-export"


def _read(path):
    """A recording, or None where it is refused with a message of one line."""
    try:
        return gpuprof.read_profile(path)
    except GpuprofError as error:
        check_error(error)
        is_of_several = error.message.endswith("which are not added up")
        return gpuprof.read_profile(path, section=1) if is_of_several else None


def test_every_reader_says_what_it_is():
    names = [reader.name for reader in all_readers()]

    assert names == [*READERS]
    for reader in all_readers():
        assert reader.title
        assert reader.versions
        assert set(reader.gives) <= set(data_model.BY_NAME), reader.name
        ways = {reader.recognises, reader.searches} - {Reader.recognises, Reader.searches}
        assert ways or reader.recognises_folder or reader.name == BY_NAME_ALONE


@pytest.mark.parametrize("path", params(SAMPLES))
def test_sample_is_read_and_keeps_the_rules_of_the_data_model(path):
    profile = gpuprof.read_profile(path)

    check_tables(profile)
    assert any(profile.table(name).num_rows for name in profile.sources)


@pytest.mark.parametrize("path", params(SAMPLES))
def test_reading_twice_gives_equal_tables(path):
    once, again = gpuprof.read_profile(path), gpuprof.read_profile(path)

    assert once.origin == again.origin
    assert list(once.sources) == list(again.sources)
    assert all(once.table(name) == again.table(name) for name in once.sources)


@pytest.mark.parametrize("path", params([*SAMPLES, *few_of_each_writer(FILES, 3)]))
def test_copy_that_was_cut_is_read_or_refused(path, tmp_path):
    if path.is_dir():
        pytest.skip("a folder cannot be cut")
    content = path.read_bytes()
    copy = tmp_path / path.name
    for kept in (100, len(content) // 3, len(content) // 2, len(content) - 1):
        copy.write_bytes(content[:kept])
        profile = _read(copy)
        if profile is not None:
            assert [profile.table(name).num_rows for name in profile.sources]


def _smallest_of_each_reader():
    """The smallest recording of each reader, but for those that only nsys can open."""
    readers = {path: find_reader(path).name for path in SAMPLES if path.is_file()}
    rows = {path: expectations()[name_of(path)] for path in FILES if path.suffix not in TOOL_NEEDED}
    readers |= {path: row[1] for path, row in rows.items() if row[-1] == "-"}
    sizes = sorted((path.stat().st_size, path) for path in readers)
    return [*{readers[path]: path for _, path in reversed(sizes)}.values()]


# Commands one after the other, until one fails or loads pandas.
COMMANDS = """
import json, sys
from gpuprof.cli import main
for words in json.loads(sys.argv.pop()):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ending:
        if ending.code:
            sys.exit(ending.code)
    if "pandas" in sys.modules:
        sys.exit(" ".join(words))
"""


def test_no_format_is_read_or_written_with_pandas(tmp_path):
    read = [*map(str, _smallest_of_each_reader()), str(tmp_path / "own.gpuprof")]
    written = ["convert", f"{TRACE}", "-o", read[-1]]
    commands = [written, *(["report", path] for path in read)]

    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert Path(read[-1]).exists()


@pytest.mark.parametrize("path", params(_smallest_of_each_reader()))
def test_what_the_user_gave_is_left_as_it_was(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    before = copy.stat()

    gpuprof.report(gpuprof.read_profile(copy))

    assert list(tmp_path.iterdir()) == [copy]
    assert copy.read_bytes() == path.read_bytes()
    assert copy.stat().st_mtime_ns == before.st_mtime_ns
