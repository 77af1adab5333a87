import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from commands import CORPUS
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.base.kernel_names import short_name, short_names

FILL = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<{}>>(int)"
ABS = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::AbsFunctor<float>>(int)"
GEMM = "cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align1"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("saxpy", "saxpy"),
        ("saxpy(int, float, float *, float *)", "saxpy"),
        ("void (anonymous namespace)::softmax<float, (int)6>(T2 *, const T1 *)", "softmax"),
        ("void <unnamed>::softmax<float, (int)6>(T2 *, const T1 *)", "softmax"),
        (FILL.format("c10::Half"), "vectorized_elementwise_kernel"),
        (f"void cutlass::Kernel<{GEMM}>(T1::Params)", "Kernel"),
        ("_ZN5space3addIfEEvPT_", "add"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 7>(float*)", "kernel"),
        ("std::enable_if<T2>(int)0&&a::exists, void>::type vllm::rms_norm<half>(T1)", "rms_norm"),
        ("void foo<&A::operator->, (1>0)>(float)", "foo"),
        ("void launch(int)::{lambda(float)#1}::operator()(float) const", "launch"),
        ("void launch<T>(int) const::[lambda() (instance 3)]::operator ()() const", "launch"),
        ("void foo<float>(float*) [clone .kd]", "foo"),
        ("void at::native::reduce_kernel<(int)512, (int)1, at::nat…", "reduce_kernel"),
        # What is no C++ function.
        ("loop_add_fusion.12", "loop_add_fusion.12"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("sm80_xmma_gemm_f32_tn__5x_cublas", "sm80_xmma_gemm_f32_tn__5x_cublas"),
        ("Myelin Reformat final copy", "Myelin Reformat final copy"),
        ("forward/reduce_kernel", "forward/reduce_kernel"),
        ("(Unnamed Layer* 1) [Cast]", "(Unnamed Layer* 1) [Cast]"),
        ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"),
        ("", ""),
    ],
)  # fmt: skip
def test_short_names_are_the_functions_own(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_view_tells_variants_of_a_template_apart() -> None:
    half, single = FILL.format("c10::Half"), FILL.format("float")
    assert short_names([half, single, ABS, "saxpy(int)", half]) == {
        half: "vectorized_elementwise_kernel<FillFunctor, Half>",
        single: "vectorized_elementwise_kernel<FillFunctor, float>",
        ABS: "vectorized_elementwise_kernel<AbsFunctor>",
        "saxpy(int)": "saxpy",
    }
    assert short_names([ABS]) == {ABS: "vectorized_elementwise_kernel"}
    assert [*short_names(["a::f<int>()", "b::f<int>()"]).values()] == ["f", "f #2"]


def test_kernels_that_libraries_call_by_one_name_say_more() -> None:
    names = [f"void cutlass::Kernel<{GEMM}>(T1::Params)", "void cublas::gemvx::kernel<int>(float)"]
    assert [*short_names(names).values()] == [f"Kernel<{GEMM}>", "gemvx::kernel"]


@given(st.lists(st.text("aT1<>(){}[]:, &*-")))
def test_no_two_names_of_a_view_look_the_same(names: list[str]) -> None:
    shown = short_names(names)
    assert len(set(shown.values())) == len(shown) == len(set(names))


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes more processor time."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("part", ["(", "<", "a::", "foo(", ")", "operator", "a ", "(a)::", "<a>::"])
def test_hostile_names_take_time_in_proportion_to_their_length(part: str) -> None:
    name = part * (400_000 // len(part))
    # In proportion it takes a second or so, wherever; by the square of the length, hours.
    with _interrupted_after(seconds=60):
        short = short_name(name)
    assert 0 < len(short) <= len(name)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
def test_short_names_are_those_that_nsys_exports() -> None:
    pairs = {}
    for path in sorted((CORPUS / "nsys-sqlite").glob("*.sqlite")):
        with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as connection:
            has_kernels = connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
            ).fetchone()
            pairs |= dict(
                connection.execute(
                    "SELECT DISTINCT d.value, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
                    " JOIN StringIds d ON d.id = k.demangledName"
                    " JOIN StringIds s ON s.id = k.shortName"
                ).fetchall()
                if has_kernels
                else []
            )
    assert len(pairs) > 50
    assert {name: short_name(name) for name in pairs} == pairs
