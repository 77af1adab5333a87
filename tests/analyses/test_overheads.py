from pathlib import Path

import pytest
from drawing import draw

import gpuprof
from gpuprof.analyses.reports import report
from gpuprof.analyses.trace_notes import Overhead, overheads

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

    assert overheads(profile) == [Overhead("profiler", held_ns, 900, "CUPTI Buffer flush")]


def test_what_held_up_longest_is_named():
    full = {"source": "cuda", "name": "Command Buffer Full"}
    loading = {"source": "cuda", "name": "Lazy Function Loading"}
    profile = draw(
        kernels=[(0, 100)], overheads=[(0, 5, loading), (10, 20, full), (-90, 0, loading)]
    )

    assert overheads(profile) == [Overhead("cuda", 15, 100, "Command Buffer Full")]


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
        "CUDA itself delayed a thread of the program by 461.8 ms, 47.6 % of the time from the"
        " first activity of a device to the last (mostly Command Buffer Full)."
    )
