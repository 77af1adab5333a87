"""What is said about many files that are read as one job."""

from pathlib import Path

import pytest
from test_merged_ranks import rank_file

from gpuprof.readers import read_profile
from gpuprof.readers.job_notes import FileOfJob, job_notes, left_out

HOUR_NS = 3_600 * 10**9


def job(*ranks, **of_all):
    """Files of these ranks, each of a process of its own."""
    return [
        FileOfJob(f"rank{rank}.{place}", rank, None, "nsys 2025.1", 0, place)._replace(**of_all)
        for place, rank in enumerate(ranks)
    ]


def test_few_files_that_are_no_recordings_are_named_one_by_one():
    faults = [(Path("a.txt"), "a.txt is in no known format"), (Path("b"), "b is empty")]

    assert left_out(faults) == [
        "Left out: a.txt is in no known format.",
        "Left out: b is empty.",
    ]


def test_many_files_with_one_reason_are_one_note():
    faults = [(Path(f"run/{n}.txt"), f"run/{n}.txt is in no known format") for n in range(9)]
    faults += [(Path(f"run/{n}"), f"run/{n} is empty") for n in range(1_234)]

    assert left_out(faults) == [
        "Left out: 9 files (0.txt, 1.txt, 2.txt and others): each is in no known format.",
        "Left out: 1,234 files (0, 1, 10 and others): each is empty.",
    ]


def test_a_folder_of_many_other_files_has_a_note_for_each_reason(tmp_path):
    rank_file(tmp_path, "rank0.json")
    for number in range(100):
        (tmp_path / f"{number}.txt").write_text("nothing known", encoding="utf-8")
        (tmp_path / f"{number}.empty").touch()

    assert read_profile(tmp_path).origin.warnings == (
        "Left out: 100 files (0.empty, 1.empty, 10.empty and others): each is empty.",
        "Left out: 100 files (0.txt, 1.txt, 10.txt and others): each is in no known format.",
    )


@pytest.mark.parametrize(
    ("files", "notes"),
    [
        pytest.param(job(0, 1, 2, 3), [], id="all-there"),
        pytest.param(job(None, None), [], id="unknown-ranks"),
        pytest.param(job(8, 9, 10), [], id="a-part-of-the-job"),
        pytest.param(
            job(0, 1, 3, 4), ["No file has rank 2; the job has ranks up to 4."], id="one-gap"
        ),
        pytest.param(
            job(0, 1, 2, 4, 7, 8, 9),
            ["No file has ranks 3 and 5 to 6; the job has ranks up to 9."], id="gaps",
        ),
        pytest.param(
            job(*range(0, 20, 2), 1, 19),
            ["No file has ranks 3, 5, 7 and 5 more gaps; the job has ranks up to 19."],
            id="many-gaps",
        ),
        pytest.param(job(100, 200, 300), [], id="numbers-that-are-no-ranks"),
        pytest.param(
            job(0, 1, 1),
            [("Rank 1 has 2 files of different processes (rank1.1, rank1.2): some may be of"
              " another run.")], id="two-of-one-rank",
        ),
        pytest.param(
            job(0, 0, 1, 1, 2, 2),
            [("Rank 0 has 2 files of different processes (rank0.0, rank0.1), and 2 more"
              " ranks: some may be of another run.")], id="two-of-each-rank",
        ),
        pytest.param(job(0, 1, 1, process=7), [], id="stretches-of-one-process"),
        pytest.param(
            [*job(0, 1), *job(2, tool="nsys 2023.4")],
            [("The files were recorded by different tools or versions: nsys 2025.1 (2 files)"
              " and nsys 2023.4 (1 file).")], id="tools",
        ),
        pytest.param(
            [*job(0), *job(1, epoch_ns=5 * HOUR_NS)],
            [("Recording of rank1.0 began 5.0 h after that of rank0.0: they may be of"
              " different jobs, or the clocks of their hosts disagree.")], id="hours-apart",
        ),
        pytest.param([*job(0), *job(1, epoch_ns=None)], [], id="no-clock"),
        pytest.param([*job(0), *job(1, epoch_ns=HOUR_NS - 1)], [], id="minutes-apart"),
    ],
)  # fmt: skip
def test_what_is_odd_about_the_files_of_a_job_is_a_line_each(files, notes):
    assert job_notes(files) == notes


def test_a_joined_recording_names_what_is_odd(tmp_path):
    for name, rank, start in (("a", 0, 0), ("b", 1, 0), ("c", 3, 0), ("d", 3, 2)):
        rank_file(tmp_path, f"{name}.json", rank=rank, pid=ord(name), device=rank, start=start)

    assert read_profile(tmp_path).origin.warnings[1:] == (
        "No file has rank 2; the job has ranks up to 3.",
        "Rank 3 has 2 files of different processes (c.json, d.json): some may be of another run.",
    )


@pytest.mark.parametrize(
    ("ranks", "note"),
    [
        ((0, 1, 2), ["No file has rank 3; the job has 4 ranks."]),
        ((1,), ["No file has ranks 0 and 2 to 3; the job has 4 ranks."]),
        ((0, 1, 2, 3), []),
        # Its size is of something else.
        ((0, 1, 3, 4), ["No file has rank 2; the job has ranks up to 4."]),
    ],
)
def test_the_size_of_a_job_tells_which_ranks_have_no_file(ranks, note):
    assert job_notes(job(*ranks, world_size=4)) == note
