"""A typical step of two recordings above each other, as a picture."""

import pytest
from drawing import draw

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.comparisons import comparison
from gpuprof.model.profile import Profile
from gpuprof.show.charts import two_steps
from gpuprof.show.charts.catalogue import drawn, of_comparison, picture_of


def kernels(*rows: tuple[str, int, int]) -> Profile:
    """Kernels by their names, with starts and ends in µs."""
    return draw(kernels=[(1_000 * start, 1_000 * end, {"name": name}) for name, start, end in rows])


ONE = kernels(("gemm", 0, 1_000), ("relu", 1_000, 1_500), ("norm", 1_500, 1_600))
TWO = kernels(
    ("gemm", 0, 2_000), ("relu", 2_000, 2_200), ("norm", 2_200, 2_300), ("x", 2_300, 2_400)
)
NEAR = kernels(("gemm", 0, 1_050), ("relu", 1_050, 1_550), ("norm", 1_550, 1_650))


def of(**profiles: Profile):
    return of_comparison(comparison(profiles))


def test_each_operation_is_told_longer_shorter_alone_or_alike():
    picture = picture_of(two_steps.CHART, of(one=ONE, two=TWO))

    assert picture.finding == "gemm differs most, longer: +1.00 ms in 1 call"
    rows = picture.rows.to_pylist()
    assert {(row["variant"], row["name"]): row["difference"] for row in rows} == {
        ("one", "gemm"): "longer below",
        ("one", "relu"): "shorter below",
        ("one", "norm"): "no difference",
        ("two", "gemm"): "longer below",
        ("two", "relu"): "shorter below",
        ("two", "norm"): "no difference",
        ("two", "x"): "only in one of them",
    }
    first = rows[0]
    assert (first["start_ns"], first["end_ns"]) == (0, 1_000_000)
    assert (first["usual_ns"], first["other_usual_ns"]) == (1_000_000, 2_000_000)
    assert rows[-1]["other_usual_ns"] is None


def test_both_steps_share_one_axis_with_the_length_of_each():
    upper, lower = drawn(two_steps.CHART, of(one=ONE, two=TWO)).axes

    assert [axes.get_title(loc="left") for axes in (upper, lower)] == [
        "one: 1.60 ms",
        "two: 2.40 ms",
    ]
    assert upper.get_xlim() == lower.get_xlim()
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "time since the start of each [ms]")


def test_of_several_candidates_the_one_that_differs_most_is_drawn():
    picture = picture_of(two_steps.CHART, of(one=ONE, near=NEAR, two=TWO))

    assert {row["variant"] for row in picture.rows.to_pylist()} == {"one", "two"}


def test_where_nothing_differs_the_title_says_so():
    finding = picture_of(two_steps.CHART, of(one=ONE, near=ONE)).finding

    assert finding == "near differs from one by no more than it varies"


def test_short_operations_keep_their_colour():
    many = [
        (f"kernel{chr(97 + n % 26)}{chr(97 + n // 26)}", 10 * n, 10 * n + 5) for n in range(600)
    ]
    (axes, _) = drawn(two_steps.CHART, of(one=kernels(*many), two=kernels(*many))).axes

    colours = {bar.get_edgecolor() == bar.get_facecolor() for bar in axes.patches[1:]}
    assert colours == {True}


def test_without_times_there_is_no_chart():
    nothing = draw(kernels=[])
    with pytest.raises(EmptyRecordingError, match="two_steps cannot be drawn"):
        picture_of(two_steps.CHART, of(one=ONE, two=nothing))
