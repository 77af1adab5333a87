"""Kernels of one name and launch shape are one kernel, whichever tool wrote the name."""

from collections import Counter
from dataclasses import replace

import nsys_export
import pytest
from commands import CORPUS
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import row, summary

from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure.matching import has_shapes, kernel_groups, plain_name
from gpuprof.model.derived import UNKNOWN
from gpuprof.readers import read_profile

KINETO = (
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t"
    "<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::"
    "{lambda(float, float)#1}>, unsigned int, float, 4> >(at::native::ReduceOp<float, 4>)"
)
NSYS = (
    "void at::native::reduce_kernel<(int)128, (int)4, at::native::ReduceOp<float, at::native::"
    "func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator ()(at::"
    "TensorIterator &)::[lambda(float, float) (instance 1)]>, unsigned int, float, (int)4>>(T3)"
)


NAMES = {
    "lambdas": ((KINETO, NSYS), True),
    "two-lambdas": ((KINETO, NSYS.replace("instance 1", "instance 2")), False),
    "numbers-and-unnamed": (
        (
            "void (anonymous namespace)::index<int, 3ul, true>(float const*, X<int>)",
            "void <unnamed>::index<int, (unsigned long)3, (bool)1>(const float *, T1)",
            "void ::index<int, unsigned long=3, bool=1>(float const *, X<int>)",
        ),
        True,
    ),
    "mangled": (("_ZN2at6native4fillILi4EEEvPf", "void at::native::fill<int=4>(float*)"), True),
    "const": (("add(float const*)", "add(const float *)"), True),
    "overloads": (("add(float*)", "add(double*)"), False),
    "templates-as-arguments": (("add(V<int>, int)", "add(V<float>, int)"), False),
    "numbers-of-arguments": (("add(V<(unsigned long)4>)", "add(V<4ul>)"), True),
    "instances": (("fill<4>(int)", "fill<8>(int)"), False),
}


@pytest.mark.parametrize(("names", "is_one"), NAMES.values(), ids=NAMES)
def test_names_are_alike_where_they_mean_one_kernel(names, is_one):
    assert len({plain_name(name) for name in names}) == (1 if is_one else len(names))


SHAPE = dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)


def _traced(reader, name, grid, ns):
    profile = draw(kernels=[(0, ns, {**SHAPE, "name": name, "grid_x": grid})])
    return replace(profile, origin=replace(profile.origin, reader=reader))


def test_traces_of_two_tools_are_matched_by_name_and_shape():
    result = comparison(
        {"kineto": _traced("kineto", KINETO, 8, 10), "nsys": _traced("nsys-sqlite", NSYS, 8, 12)}
    )

    (row,) = result.kernels.to_pylist()
    assert row["short_name"] == "reduce_kernel"
    assert (row["status"], row["grid"], row["name"]) == ("slower", "8x1x1", KINETO)


def test_kernels_whose_name_the_file_lacks_are_compared_as_unknown(tmp_path):
    def recording(name, ns):
        rows = [nsys_export.kernel(0, 10, 1), nsys_export.kernel(20, 20 + ns, 7)]
        texts = [{"id": 1, "value": "gemm"}]
        return read_profile(
            nsys_export.write(tmp_path / name, {nsys_export.KERNEL: rows, "StringIds": texts})
        )

    recordings = {str(ns): recording(f"{ns}.sqlite", ns) for ns in (40, 80)}
    rows = comparison(recordings).kernels.to_pylist()

    times = {row["name"]: (row["baseline_ns"], row["candidate_ns"]) for row in rows}
    assert times == {"gemm": (10, 10), "unknown": (40, 80)}


SIDES = st.fixed_dictionaries({name: st.sampled_from([1, 64, None]) for name in SHAPE})


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), SIDES), max_size=12))
def test_kernels_are_summed_by_name_and_launch_shape(kernels):
    profile = draw(
        kernels=[(0, ns, sides | {"name": name}) for name, ns, sides in kernels], memcpys=[(0, 1)]
    )

    sides = ", ".join(f"coalesce({side}, {UNKNOWN})" for side in SHAPE)
    expected = profile.query(
        f"SELECT name, {sides}, count(*), CAST(sum(end_ns - start_ns) AS BIGINT) FROM kernels"
        " GROUP BY ALL"
    )
    groups = [(name, *shape, *sums) for (name, shape), *sums in kernel_groups(profile)]
    assert Counter(groups) == Counter(zip(*(c.to_pylist() for c in expected.columns), strict=True))
    assert [-total_ns for *_, total_ns in groups] == sorted(-total_ns for *_, total_ns in groups)


def test_versions_of_one_tool_may_write_names_differently():
    old, new = (
        summary(row(name, 1, ns, 1.0))
        for name, ns in (("void k<4>(K<4>::Params)", 5), ("void k<(int)4>(T1::Params)", 9))
    )

    rows = comparison({"old": old, "new": new}).kernels.to_pylist()

    assert [(r["status"], r["difference_ns"]) for r in rows] == [("slower", 4)]


def test_names_that_all_have_as_they_stand_are_not_taken_for_each_other():
    times = {"k<4>(int)": 5, "k<4>(float)": 7}
    summaries = [
        summary(*(row(n, 1, ns + more, 0.5) for n, ns in times.items())) for more in (0, 1)
    ]

    rows = comparison(dict(zip("ab", summaries, strict=True))).kernels.to_pylist()

    assert sorted(r["name"] for r in rows) == sorted(times)


GEMM = "void gemm<float, {}>(float*)"


ALONE = {
    "openacc": ("main_41_gpu", "main_43_gpu", "main_gpu"),
    "reduction": ("main_41_gpu__red", "main_43_gpu__red", "main_gpu__red"),
    "nvc": ("nvkernel_main_F1L41_2", "nvkernel_main_F1L43_2", "nvkernel_main"),
    "openmp": ("__omp_offloading_31_18a8104_main_l41", "__omp_offloading_fd02_7_main_l43", "main"),
    "template-arguments": (GEMM.format(4), GEMM.format(8), "gemm"),
    "libraries": ("volta_sgemm_32x128_tn", "volta_sgemm_128x128_tn", None),
    "cutlass": ("void cutlass::Kernel<sgemm_32>(int)", "void cutlass::Kernel<dgemm_32>(int)", None),
}


@pytest.mark.parametrize(("before", "after", "expected"), ALONE.values(), ids=ALONE)
def test_kernels_alone_on_both_sides_are_matched_without_lines_and_arguments(
    before, after, expected
):
    sides = _traced("nsys-sqlite", before, 8, 10), _traced("nsys-sqlite", after, 8, 12)

    rows = comparison(dict(zip("ab", sides, strict=True))).kernels.to_pylist()

    if expected is None:
        assert sorted(row["status"] for row in rows) == ["new", "removed"]
    else:
        ((name, status, grid),) = {(row["name"], row["status"], row["grid"]) for row in rows}
        assert (name, status, grid) == (expected, "slower", "8x1x1")


def test_kernels_of_other_shapes_keep_their_names():
    def run(grid):
        names = GEMM.format(4), GEMM.format(8)
        rows = [(n, n + 1, SHAPE | {"name": name, "grid_x": grid}) for n, name in enumerate(names)]
        return draw(kernels=rows)

    rows = comparison({"a": run(1), "b": run(2)}).kernels.to_pylist()

    assert {row["name"] for row in rows} == {GEMM.format(4), GEMM.format(8)}
    assert {(row["grid"], row["is_reshaped"]) for row in rows} == {(None, True)}


@settings(max_examples=12)
@given(*[st.sets(st.tuples(st.sampled_from([4, 8]), st.integers(1, 3)), min_size=1)] * 2)
def test_no_kernel_is_new_on_one_side_and_removed_on_the_other(before, after):
    runs = [
        draw(kernels=[(n, n + 1, SHAPE | {"name": GEMM.format(argument), "grid_x": grid})
                      for n, (argument, grid) in enumerate(sorted(side))])
        for side in (before, after)
    ]  # fmt: skip

    result = comparison(dict(zip("ab", runs, strict=True)))

    rows = result.kernels.to_pylist()
    assert not {"new", "removed"} <= {row["status"] for row in rows}
    for side, kernels in (("baseline", before), ("candidate", after)):
        assert sum(row[f"{side}_calls"] for row in rows) == len(kernels)


@pytest.mark.parametrize(
    "path",
    [
        "kineto/param_linear_kineto.json.gz",
        "nsys-sqlite/Qcompiler__MIXQ__report1.sqlite",
        "nsys-csv/derived__jacobi_sys__nsys2023.4__cuda_gpu_trace_head1500.csv",
        "nvprof-sqlite/dipsankarb__csl7520__profile.nvvp",
        "nvprof-trace/stego_gpu_trace_256.txt",
        "xplane/xprof__34.83.195.179_6003.xplane.pb",
    ],
)
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside this repository")
def test_every_format_of_traces_tells_launch_shapes(path):
    profile = read_profile(CORPUS / path)

    assert profile.table("kernels").num_rows
    assert has_shapes(profile)
