import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_export import KERNEL, STRINGS, kernel, write

from gpuprof import native
from gpuprof.analyses.reports import report
from gpuprof.base.errors import CorruptFileError
from gpuprof.facts.durations import figures_by_name, square_sum, square_sums
from gpuprof.model.schema import LONGEST_NS
from gpuprof.readers import read_profile

NAMES = {1: "gemm", 2: "relu", 3: "gemm"}
durations = st.integers(0, 20) | st.integers(0, LONGEST_NS)


def recording(folder, rows):
    strings = [{"id": number, "value": name} for number, name in NAMES.items()]
    kernels = [kernel(7, 7 + duration, name) for name, duration in rows]
    return read_profile(write(folder / "x.sqlite", {KERNEL: kernels, STRINGS: strings}))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), durations), min_size=1, max_size=40),
    st.booleans(),
    st.booleans(),
)
def test_figures_are_those_of_python(tmp_path_factory, rows, is_compiled, are_few):
    if is_compiled and native.library() is None:
        pytest.skip("the compiled functions were not built")
    by_name = {}
    for number, duration in rows:
        by_name.setdefault(NAMES.get(number, "unknown"), []).append(duration)

    with pytest.MonkeyPatch.context() as patch:
        if not is_compiled:
            patch.setattr("gpuprof.native.arrays.library", lambda: None)
        if not are_few:
            patch.setattr("gpuprof.facts.durations._FEWEST", 0)
        figures = figures_by_name(recording(tmp_path_factory.mktemp("sums"), rows), "kernels")

    assert figures.keys() == by_name.keys()
    for name, values in by_name.items():
        of_name = figures[name]
        assert of_name[:4] == (len(values), sum(values), min(values), max(values))
        assert of_name.mean_ns == pytest.approx(statistics.fmean(values), rel=1e-12)
        assert of_name.median_ns == pytest.approx(statistics.median(values), rel=1e-12)
        if len(values) == 1:
            assert of_name.stddev_ns is None
        else:
            spread = statistics.stdev(values)
            assert of_name.stddev_ns == pytest.approx(spread, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, (1 << 62) - 1) | st.integers(0, 99))))
def test_squares_are_added_up_exactly(rows):
    group, values = (
        np.array(column, np.int64) for column in [*zip(*rows, strict=True)] or [(), ()]
    )
    expected = [sum(ns * ns for place, ns in rows if place == number) for number in range(3)]

    assert square_sums(values, group, 3) == expected
    assert square_sum(values) == sum(expected)


def test_a_sum_of_more_than_64_bits_is_refused(tmp_path):
    rows = [(1, LONGEST_NS)] * ((1 << 13) + 1)

    with pytest.raises(CorruptFileError, match="too large to add up"):
        report(recording(tmp_path, rows), ["kernel_summary"])
