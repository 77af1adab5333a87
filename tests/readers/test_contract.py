"""What every reader owes, tried on every sample; `test_corpus` tries it on real files."""

import commands
import pytest
from contract import (
    ROOT,
    TOOL_NEEDED,
    check_error,
    check_tables,
    corpus_files,
    expectations,
    name_of,
    params,
    sample_recordings,
)

import gpuprof
from gpuprof.base.errors import GpuprofError
from gpuprof.model import schema
from gpuprof.readers import READERS, all_readers, find_reader
from gpuprof.readers.input_format import Reader

SAMPLES = sample_recordings()
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
        assert set(reader.gives) <= set(schema.BY_NAME), reader.name
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


def _is_small(path):
    return path.is_file() and path.stat().st_size < 200_000 and path.suffix not in TOOL_NEEDED


@pytest.mark.parametrize("path", params([*SAMPLES, *filter(_is_small, FILES)]))
def test_copy_that_was_cut_is_read_or_refused(path, tmp_path):
    if path.is_dir():
        pytest.skip("a folder cannot be cut")
    content = path.read_bytes()
    copy = tmp_path / path.name
    for kept in (0, 1, 100, len(content) // 3, len(content) // 2, len(content) - 1):
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


def _loads_pandas(*arguments):
    run = commands.gpuprof(*arguments, PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert run.returncode == 0, run.stderr
    assert "gpuprof.readers" in loaded
    return any(name.startswith("pandas.") for name in loaded)


@pytest.mark.parametrize("path", params(_smallest_of_each_reader()))
def test_a_report_loads_no_pandas(path):
    assert not _loads_pandas("report", path)


def test_a_file_of_our_own_is_written_and_read_without_pandas(tmp_path):
    trace = ROOT / "sample_logs/nsys/2023.4.4/synthetic-two-gpus-trace.csv"

    assert not _loads_pandas("convert", trace, "-o", tmp_path / "own.gpuprof")
    assert not _loads_pandas("report", tmp_path / "own.gpuprof")


@pytest.mark.parametrize("path", params(_smallest_of_each_reader()))
def test_what_the_user_gave_is_left_as_it_was(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    before = copy.stat()

    gpuprof.report(gpuprof.read_profile(copy))

    assert list(tmp_path.iterdir()) == [copy]
    assert copy.read_bytes() == path.read_bytes()
    assert copy.stat().st_mtime_ns == before.st_mtime_ns
