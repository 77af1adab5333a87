"""What every reader owes, tried on every sample and on every real file of the corpus.

The table of expectations is written by ``pytest --update-expected tests/readers/test_contract.py``;
its difference is to be reviewed like code.
"""

import csv

import commands
import pyarrow.compute as pc
import pytest
from contract import (
    CORPUS,
    HEADINGS,
    ROOT,
    TOOL_NEEDED,
    corpus_files,
    figures,
    sample_recordings,
)

import gpuprof
from gpuprof.base import cuda
from gpuprof.base.errors import GpuprofError
from gpuprof.model import schema
from gpuprof.readers import READERS, all_readers, find_reader, read_head

EXPECTATIONS = ROOT / "tests/readers/corpus_expectations.tsv"
SAMPLES = sample_recordings()
FILES = corpus_files()
MEMORY_KINDS = frozenset(cuda.NSYS_MEMORY_KINDS.values())
# An older word for the same is in no recording.
MEMCPY_KINDS = frozenset(cuda.MEMCPY_KINDS.values()) | {"UVM_DtoD"}

# What else can read a report.
BY_NAME_ALONE = "nsys-export"

needs_corpus = pytest.mark.skipif(not FILES, reason="the corpus of real files is not here")


def _name(path):
    return str(path.relative_to(CORPUS if path.is_relative_to(CORPUS) else ROOT))


def _params(paths):
    """Recordings that only the installed nsys can open are marked so."""
    return [
        pytest.param(
            path,
            id=_name(path),
            marks=[pytest.mark.profilers] if path.suffix in TOOL_NEEDED else [],
        )
        for path in paths
    ]


def _read(path):
    """A recording, or None where it is refused with a message of one line."""
    try:
        return gpuprof.read_profile(path)
    except GpuprofError as error:
        _check_error(error)
        is_of_several = error.message.endswith("which are not added up")
        return gpuprof.read_profile(path, section=1) if is_of_several else None


def _check_error(error):
    assert error.message
    assert "\n" not in error.message
    assert error.hint is None or "\n" not in error.hint


def _expectations():
    with EXPECTATIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert tuple(rows[0]) == HEADINGS
    return {row[0]: row for row in rows[1:]}


def _found(path):
    try:
        reader = find_reader(path)
    except GpuprofError as error:
        return [_name(path), "-", *["-"] * 9, _words(error, path)]
    try:
        profile = gpuprof.read_profile(path)
        return [
            _name(path), reader.name, *figures(profile), str(len(profile.origin.warnings)), "-"
        ]  # fmt: skip
    except GpuprofError as error:
        return [_name(path), reader.name, *["-"] * 9, _words(error, path)]


def _words(error, path):
    _check_error(error)
    return error.message.replace(str(path), "FILE").replace("\t", " ")


def test_every_reader_says_what_it_is():
    names = [reader.name for reader in all_readers()]

    assert names == [*READERS]
    for reader in all_readers():
        assert reader.title
        assert reader.versions
        assert set(reader.gives) <= set(schema.BY_NAME), reader.name
        is_found = reader.recognises or reader.recognises_folder or reader.searches
        assert is_found or reader.name == BY_NAME_ALONE


@pytest.mark.parametrize("path", _params(SAMPLES))
def test_sample_is_read(path):
    profile = gpuprof.read_profile(path)

    assert any(profile.table(name).num_rows for name in profile.sources)


@pytest.mark.parametrize("path", _params([*SAMPLES, *FILES]))
def test_tables_keep_the_rules_of_the_data_model(path):
    profile = _read(path)
    if profile is None:
        return
    assert profile.origin.reader in {reader.name for reader in all_readers()}
    gives = next(r.gives for r in all_readers() if r.name == profile.origin.reader)
    assert set(profile.sources) <= set(gives)
    for name in profile.sources:
        table = profile.table(name)
        spec = schema.BY_NAME[name]
        assert table.schema == spec.arrow, name
        for column, meaning in spec.columns.items():
            assert not (meaning.required and table.column(column).null_count), (name, column)
        _check_times(name, table)
        _check_words(name, table)


def _check_times(name, table):
    if "start_ns" not in table.column_names or not table.num_rows:
        return
    start, end = table.column("start_ns"), table.column("end_ns")
    assert pc.all(pc.less_equal(start, end)).as_py(), name
    assert pc.all(pc.less_equal(start[:-1], start[1:])).as_py() in (True, None), name


def _check_words(name, table):
    words = {"memcpy_kind": MEMCPY_KINDS, "src_memory_kind": MEMORY_KINDS}
    words |= {"dst_memory_kind": MEMORY_KINDS, "memory_kind": MEMORY_KINDS}
    words |= {"path": {"direct", "staged"}, "api": {"runtime", "driver"}}
    words |= {"activity_kind": {"kernel", "memcpy", "memset", "api"}}
    for column in words.keys() & set(table.column_names):
        found = set(pc.unique(table.column(column)).to_pylist()) - {None}
        assert found <= words[column], (name, column)


@pytest.mark.parametrize("path", _params(SAMPLES))
def test_reading_twice_gives_equal_tables(path):
    once, again = gpuprof.read_profile(path), gpuprof.read_profile(path)

    assert once.origin == again.origin
    assert list(once.sources) == list(again.sources)
    assert all(once.table(name) == again.table(name) for name in once.sources)


def _is_small(path):
    return path.is_file() and path.stat().st_size < 200_000 and path.suffix not in TOOL_NEEDED


@pytest.mark.parametrize("path", _params([*SAMPLES, *filter(_is_small, FILES)]))
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


@needs_corpus
def test_every_real_file_has_an_expectation(update_expected):
    if update_expected:
        _write([_found(path) for path in FILES])
    assert list(_expectations()) == [_name(path) for path in FILES]


def _write(rows):
    with EXPECTATIONS.open("w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(row) + "\n" for row in [HEADINGS, *rows])


@needs_corpus
@pytest.mark.parametrize("path", _params(FILES))
def test_real_file_is_read_or_refused_as_expected(path):
    assert _found(path) == _expectations()[_name(path)]


def _claims(path):
    head = read_head(path)
    claimed = {r.name for r in all_readers() if r.recognises is not None and r.recognises(head)}
    return claimed | {r.name for r in all_readers() if r.searches is not None and r.searches(path)}


@needs_corpus
@pytest.mark.parametrize("path", [pytest.param(path, id=_name(path)) for path in FILES])
def test_real_file_is_claimed_by_the_reader_that_reads_it_and_by_no_other(path):
    reader = _expectations()[_name(path)][1]

    assert _claims(path) == {reader} - {"-"}


@needs_corpus
def test_files_are_those_of_the_index():
    lines = (CORPUS / "INDEX.tsv").read_text("utf-8").splitlines()[1:]

    assert sorted(line.partition("\t")[0] for line in lines) == sorted(map(_name, FILES))


def _smallest_of_each_reader():
    """The smallest recording of each reader, but for those that only nsys can open."""
    readers = {path: find_reader(path).name for path in SAMPLES if path.is_file()}
    rows = {path: _expectations()[_name(path)] for path in FILES if path.suffix not in TOOL_NEEDED}
    readers |= {path: row[1] for path, row in rows.items() if row[-1] == "-"}
    sizes = sorted((path.stat().st_size, path) for path in readers)
    return [*{readers[path]: path for _, path in reversed(sizes)}.values()]


def _loads_pandas(*arguments):
    run = commands.gpuprof(*arguments, PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert run.returncode == 0, run.stderr
    assert "gpuprof.readers" in loaded
    return any(name.startswith("pandas.") for name in loaded)


@pytest.mark.parametrize("path", _params(_smallest_of_each_reader()))
def test_a_report_loads_no_pandas(path):
    assert not _loads_pandas("report", path)


def test_a_file_of_our_own_is_written_and_read_without_pandas(tmp_path):
    trace = ROOT / "sample_logs/nsys/2023.4.4/synthetic-two-gpus-trace.csv"

    assert not _loads_pandas("convert", trace, "-o", tmp_path / "own.gpuprof")
    assert not _loads_pandas("report", tmp_path / "own.gpuprof")


@pytest.mark.parametrize("path", _params(_smallest_of_each_reader()))
def test_what_the_user_gave_is_left_as_it_was(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    before = copy.stat()

    gpuprof.report(gpuprof.read_profile(copy))

    assert list(tmp_path.iterdir()) == [copy]
    assert copy.read_bytes() == path.read_bytes()
    assert copy.stat().st_mtime_ns == before.st_mtime_ns
