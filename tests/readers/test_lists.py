"""Lists of recordings: ``@files.txt``."""

import io
import sys

import pytest
from commands import gpuprof
from recording_checks import rows
from test_merged_ranks import rank_file

from gpuprof.base.errors import InputError, OutputError, UnknownFormatError
from gpuprof.readers import read_profile, recording_files
from gpuprof.show.output import prepare


@pytest.fixture
def ranks(tmp_path):
    """A folder of three ranks, with a folder of lists beside it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "lists").mkdir()
    for rank in range(3):
        rank_file(tmp_path / "run", f"rank{rank}.json", rank=rank, device=rank, pid=100 + rank)
    return tmp_path


def listing(folder, text, name="files.txt"):
    path = folder / "lists" / name
    path.write_text(text, encoding="utf-8")
    return f"@{path}"


def ranks_of(profile):
    return [rank for (rank,) in rows(profile, "runs", "rank")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("../run/rank0.json\n../run/rank2.json\n", [0, 2], id="paths"),
        pytest.param(
            "# of one host\n\n../run/rank[01].json # two\n", [0, 1], id="glob-and-comments"
        ),
        pytest.param("../run/rank0.json\n../run/rank*.json\n", [0, 1, 2], id="each-once"),
        pytest.param("\ufeff../run/rank0.json\r\n../run/rank1.json\r\n", [0, 1], id="of-windows"),
        pytest.param("../run\n", [0, 1, 2], id="folder"),
    ],
)
def test_a_list_names_files_relative_to_its_folder(ranks, text, expected):
    profile = read_profile(listing(ranks, text))

    assert ranks_of(profile) == expected
    assert profile.origin.source == ranks / "lists" / "files.txt"


def test_a_list_and_a_glob_stand_beside_a_file(ranks):
    files = [
        listing(ranks, "../run/rank2.json"),
        ranks / "run" / "rank[0]*",
        ranks / "run/rank1.json",
    ]

    assert [file.name for file in recording_files(files)] == [
        "rank2.json",
        "rank0.json",
        "rank1.json",
    ]
    assert ranks_of(read_profile(files)) == [0, 1, 2]


def test_a_list_comes_from_standard_input(ranks, monkeypatch):
    monkeypatch.chdir(ranks / "run")
    monkeypatch.setattr(sys, "stdin", io.StringIO("rank0.json\nrank1.json\n"))

    assert ranks_of(read_profile("@-")) == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "{list} names no file", id="empty"),
        pytest.param("# nothing\n\n", "{list} names no file", id="comments-alone"),
        pytest.param(
            "rank8.json\n\nrank9.json\n",
            "{list}: none of its files is there, {folder}/rank8.json for one",
            id="no-such-files",
        ),
        pytest.param(
            "../run/*.sqlite\n",
            "{list}, line 1: {folder}/../run/*.sqlite: no file has such a name",
            id="glob-of-nothing",
        ),
        pytest.param("a\0b\n", "{list}, line 1: it is not text", id="zero-byte"),
    ],
)
def test_a_bad_line_is_named(ranks, text, message):
    with pytest.raises(InputError) as caught:
        read_profile(listing(ranks, text))

    lists = ranks / "lists"
    assert caught.value.message == message.format(list=lists / "files.txt", folder=lists)


def test_a_listed_file_that_is_not_there_is_left_out(ranks):
    profile = read_profile(listing(ranks, "../run/rank0.json\n../run/rank9.json\n"))

    gone = ranks / "lists" / "../run/rank9.json"
    assert profile.unread == (((gone, f"{gone}: no such file"),), 2)
    assert profile.origin.warnings == (f"Left out: {gone}: no such file.",)


def test_what_is_no_list_is_refused(ranks):
    (ranks / "lists" / "a.sqlite").write_bytes(b"\xff\xfe\x00binary")

    with pytest.raises(InputError, match=r"a\.sqlite is not a list of files: it is not UTF-8 text"):
        read_profile(f"@{ranks}/lists/a.sqlite")
    with pytest.raises(InputError, match=r"gone\.txt: no such list of files"):
        read_profile(f"@{ranks}/gone.txt")
    with pytest.raises(
        UnknownFormatError, match=r"files\.txt is a list, and no recording is in it"
    ):
        read_profile(listing(ranks, "files.txt"))


def test_a_file_of_a_list_is_never_overwritten(ranks):
    source = listing(ranks, "../run/rank0.json")

    with pytest.raises(OutputError, match="is an input of this command"):
        prepare(str(ranks / "run" / "rank0.json"), is_forced=True, inputs=[source])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["report", "{list}", "--table", "totals"], id="report"),
        pytest.param(["export", "{list}", "--to", "chakra", "-o", "{out}.et"], id="export"),
        pytest.param(["convert", "{list}", "-o", "{out}.gpuprof"], id="convert"),
        pytest.param(["plot", "timeline", "{list}", "-o", "{out}.svg"], id="plot"),
    ],
)
def test_every_command_of_recordings_takes_a_list(ranks, words):
    source = listing(ranks, "../run/rank*.json")
    done = gpuprof(*(word.format(list=source, out=ranks / "out") for word in words))

    assert (done.returncode, done.stderr) == (0, "")


def test_a_side_of_a_comparison_is_a_list(ranks):
    sides = [listing(ranks, "../run/rank*.json", f"{name}.txt") for name in ("before", "after")]
    done = gpuprof("compare", *sides, "--format", "csv")

    assert done.returncode == 0
    assert "before" in done.stdout
    assert "@before" not in done.stdout
