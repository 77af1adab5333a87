"""The epochs that a script marked, and what held up its threads."""

from pathlib import Path

import pytest
from commands import gpuprof as command
from drawing import draw

import gpuprof
from gpuprof.analyses.reports import report
from gpuprof.analyses.samples import marked_epochs
from gpuprof.analyses.trace_notes import overheads
from gpuprof.base.manifest import Manifest, finish_manifest
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

EPOCHS = (
    {"epoch": 1, "seconds": 2.000000001, "steps": 4},
    {"epoch": 0, "seconds": 2.5, "steps": 0},
    {"epoch": 2, "seconds": 0.1, "steps": None},
)


def test_epochs_stand_in_their_order_with_their_time_per_step():
    table = data_model.EPOCHS.table([dict(epoch) for epoch in EPOCHS])
    profile = Profile(Origin(Path("a"), "run", "none"), {"epochs": table})

    assert [tuple(row.values()) for row in marked_epochs(profile).to_pylist()] == [
        (0, 2_500_000_000, 0, None),
        (1, 2_000_000_001, 4, 500_000_000),
        (2, 100_000_000, None, None),
    ]


def test_report_of_a_run_that_was_only_timed_shows_its_epochs(tmp_path):
    run = Manifest("none", "a", ("x",), "2026-01-02T03:04:05+00:00", epochs=EPOCHS)
    finish_manifest(tmp_path, run)

    shown = command("report", tmp_path)
    assert shown.returncode == 0
    assert "Marked epochs\n" in shown.stdout
    assert "    1   2.000 s      4  500.0 ms\n" in shown.stdout


CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "nsys-sqlite"
FLUSH = {"source": "profiler", "name": "CUPTI Buffer flush"}


@pytest.mark.parametrize(
    ("held", "held_ns"),
    [
        pytest.param([(0, 100, FLUSH)], 0, id="before-the-first-activity"),
        pytest.param([(1_000, 1_100, FLUSH)], 0, id="after-the-last"),
        pytest.param([(50, 150, FLUSH)], 50, id="only-what-lies-within"),
        pytest.param([(200, 300, FLUSH), (250, 320, FLUSH)], 120, id="two-threads-at-once"),
    ],
)
def test_only_the_time_between_the_first_activity_and_the_last_counts(held, held_ns):
    profile = draw(kernels=[(100, 200)], memcpys=[(900, 1_000)], overheads=held)

    assert overheads(profile) == [("profiler", held_ns, 900, "CUPTI Buffer flush")]


def test_what_held_up_longest_is_named():
    full = {"source": "cuda", "name": "Command Buffer Full"}
    loading = {"source": "cuda", "name": "Lazy Function Loading"}
    profile = draw(
        kernels=[(0, 100)], overheads=[(0, 5, loading), (10, 20, full), (-90, 0, loading)]
    )

    assert overheads(profile) == [("cuda", 15, 100, "Command Buffer Full")]


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param({"kernels": [(0, 5)]}, id="none-recorded"),
        pytest.param({"kernels": [(0, 5)], "overheads": []}, id="none-happened"),
        pytest.param({"overheads": [(0, 5, FLUSH)]}, id="no-activity"),
    ],
)
def test_nothing_held_up_says_nothing(tables):
    assert overheads(draw(**tables)) == []
    assert report(draw(**tables), ["breakdown"]).notes == ()


def test_much_of_it_is_a_note_where_the_span_is_shown():
    profile = draw(kernels=[(0, 1_000)], overheads=[(100, 110, FLUSH)])
    told = (
        "by hand itself delayed a thread of the program by 10 ns, 1.0 % of the time from the"
        " first activity of a device to the last (mostly CUPTI Buffer flush)."
    )

    assert report(profile, ["breakdown"]).notes == (told,)
    assert report(profile, ["kernel_summary"]).notes == ()
    less = draw(kernels=[(0, 1_001)], overheads=[(100, 110, FLUSH)])
    assert report(less, ["breakdown"]).notes == ()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
def test_a_real_recording_tells_that_launches_waited_for_room():
    profile = gpuprof.read_profile(CORPUS / "GindaChen__nsys-ai__h100_2gpu_1s.sqlite")

    [note] = [n for n in report(profile, ["breakdown"]).notes if "delayed a thread" in n]
    assert note == (
        "CUDA itself delayed a thread of the program by 462 ms, 47.6 % of the time from the"
        " first activity of a device to the last (mostly Command Buffer Full)."
    )
