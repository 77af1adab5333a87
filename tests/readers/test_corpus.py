"""Every real file of the corpus: who reads it, what it comes to, and that it is written and read.

The table of expectations is written by ``pytest --update-expected tests/readers/test_corpus.py``;
its difference is to be reviewed like code.
"""

from dataclasses import replace

import pytest
from contract import (
    CORPUS,
    EXPECTATIONS,
    HEADINGS,
    check_error,
    check_tables,
    corpus_files,
    expectations,
    few_of_each_writer,
    figures,
    name_of,
    params,
)

from gpuprof.base.errors import GpuprofError
from gpuprof.readers import all_readers, find_reader, read_head, read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

FILES = corpus_files()
# Whose tables print the share of each row.
PRINTED = [path for path in FILES if path.parent.name in ("nvprof-csv", "nvprof-text")]
# Larger tables are compared by what they add up to.
FEW_ROWS = 25_000

pytestmark = pytest.mark.skipif(not FILES, reason="the corpus of real files is not here")


def read(path):
    """A real file, its recording, and the error that it ends with.

    Of several recordings in one file all are read, beside the refusal to add them up.
    """
    try:
        return path, read_profile(path), None
    except GpuprofError as error:
        check_error(error)
        is_of_several = error.message.endswith("which are not added up")
        return path, read_profile(path, section="all") if is_of_several else None, error


@pytest.fixture(scope="module", params=params(FILES))
def real(request):
    """What `read` gives of each file, read once for all tests."""
    return read(request.param)


def found(path, profile, error):
    """The row of a real file in the table of expectations."""
    try:
        reader = find_reader(path).name
    except GpuprofError:
        reader = "-"
    if error is None:
        return [name_of(path), reader, *figures(profile), str(len(profile.origin.warnings)), "-"]
    message = error.message.replace(str(path), "FILE").replace("\t", " ")
    return [name_of(path), reader, *["-"] * (len(HEADINGS) - 3), message]


def test_every_real_file_has_an_expectation(update_expected):
    if update_expected:
        rows = [HEADINGS, *(found(*read(path)) for path in FILES)]
        text = "".join("\t".join(row) + "\n" for row in rows)
        EXPECTATIONS.write_text(text, encoding="utf-8")
    assert list(expectations()) == [name_of(path) for path in FILES]


def test_files_are_those_of_the_index():
    lines = (CORPUS / "INDEX.tsv").read_text("utf-8").splitlines()[1:]

    assert sorted(line.partition("\t")[0] for line in lines) == sorted(map(name_of, FILES))


def test_real_file_is_read_or_refused_as_expected(real):
    assert found(*real) == expectations()[name_of(real[0])]


def test_real_file_is_claimed_by_the_reader_that_reads_it_and_by_no_other(real):
    path, *_ = real
    head = read_head(path)
    claimed = {r.name for r in all_readers() if r.recognises(head)}
    claimed |= {r.name for r in all_readers() if r.searches(path)}

    assert claimed == {expectations()[name_of(path)][1]} - {"-"}


def test_tables_of_a_real_file_keep_the_rules_of_the_data_model(real):
    _, profile, _ = real
    if profile is not None:
        check_tables(profile)


@pytest.mark.parametrize("real", params(few_of_each_writer(FILES, 4)), indirect=True)
def test_what_is_made_of_a_real_file_is_read_again(real, tmp_path):
    source, original, _ = real
    path = tmp_path / "run.gpuprof"
    write(original, path)

    again = read_profile(path)

    assert path.stat().st_size < max(40_000, source.stat().st_size)
    # A file that is handed on does not name the host.
    assert again.origin == replace(original.origin, source=path, host=None)
    assert again.sources.keys() == original.sources.keys()
    for name in again.sources:
        table, expected = again.table(name), original.table(name)
        assert table.num_rows == expected.num_rows, name
        if table.num_rows < FEW_ROWS:
            order = [(column, "ascending") for column in table.column_names]
            assert table.sort_by(order).equals(expected.sort_by(order)), name


@pytest.mark.parametrize("real", params(PRINTED), indirect=True)
def test_shares_recomputed_from_times_agree_with_the_printed_ones(real):
    _, profile, _ = real
    if profile is None:
        pytest.skip("it is refused")
    sections = {}
    for row in profile.table("activity_summary").to_pylist():
        if row["printed_share"] is not None:
            section = sections.setdefault((row["run_id"], row["activity_kind"] == "api"), [])
            section.append((row["total_ns"], row["printed_share"]))

    for rows in sections.values():
        listed = sum(share for _, share in rows)
        # Rows that somebody left out are part of the printed shares' total.
        total = sum(ns for ns, _ in rows) / (listed if listed < 0.995 else 1)
        assert [ns / total for ns, _ in rows] == pytest.approx([s for _, s in rows], abs=1.2e-4)


# Nanoseconds of GPU work of each recording that a file holds, added up by hand from its tables.
SECTIONS = {
    "dlprof_article.md": (13_069_600_000, 10_097_800_000, 6_921_090_000),
    "sankar_history_multipid.txt": (1_043_030_118, 347_821_976),
    "nichitapavel_7runs.txt": (3_403_264, 222_848, 4_657_420, 1_106_631_983),
    "rauhul_readme_old.md": (20_365_700, 14_895_200_000),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_recordings_of_a_real_file_are_told_apart(name):
    path = CORPUS / "nvprof-text" / name
    sums = []
    for number, _ in enumerate(SECTIONS[name], 1):
        rows = read_profile(path, section=number).table("activity_summary").to_pylist()
        sums.append(sum(row["total_ns"] for row in rows if row["activity_kind"] != "api"))

    assert tuple(sums) == SECTIONS[name]
    with pytest.raises(GpuprofError, match=f"holds {len(sums)} recordings, which are not added"):
        read_profile(path)
