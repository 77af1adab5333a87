"""Kernels of one name and launch shape are one kernel, whichever tool wrote the name."""

from dataclasses import replace

import pytest
from commands import CORPUS
from drawing import draw
from recordings import row, summary

from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure.matching import has_shapes, plain_name
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


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        pytest.param((KINETO, NSYS), True, id="lambdas"),
        pytest.param((KINETO, NSYS.replace("instance 1", "instance 2")), False, id="two-lambdas"),
        pytest.param(
            (
                "void (anonymous namespace)::index<int, 3ul, true>(float const*, X<int>)",
                "void <unnamed>::index<int, (unsigned long)3, (bool)1>(const float *, T1)",
                "void ::index<int, unsigned long=3, bool=1>(float const *, X<int>)",
            ),
            True,
            id="numbers-and-unnamed",
        ),
        pytest.param(
            ("_ZN2at6native4fillILi4EEEvPf", "void at::native::fill<int=4>(float*)"),
            True,
            id="mangled",
        ),
        pytest.param(("add(float const*)", "add(const float *)"), True, id="const"),
        pytest.param(("add(float*)", "add(double*)"), False, id="overloads"),
        pytest.param(
            ("add(V<int>, int)", "add(V<float>, int)"), False, id="templates-as-arguments"
        ),
        pytest.param(("add(V<(unsigned long)4>)", "add(V<4ul>)"), True, id="numbers-of-arguments"),
        pytest.param(("fill<4>(int)", "fill<8>(int)"), False, id="instances"),
    ],
)
def test_names_are_alike_where_they_mean_one_kernel(names, is_one):
    assert len({plain_name(name) for name in names}) == (1 if is_one else len(names))


def _traced(reader, name, grid, ns):
    shape = dict.fromkeys(("grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)
    profile = draw(kernels=[(0, ns, {**shape, "name": name, "grid_x": grid})])
    return replace(profile, origin=replace(profile.origin, reader=reader))


def test_traces_of_two_tools_are_matched_by_name_and_shape():
    result = comparison(
        {"kineto": _traced("kineto", KINETO, 8, 10), "nsys": _traced("nsys-sqlite", NSYS, 8, 12)}
    )

    (row,) = result.kernels.to_pylist()
    assert row["short_name"] == "reduce_kernel"
    assert (row["status"], row["grid"], row["name"]) == ("slower", "8x1x1", KINETO)


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
