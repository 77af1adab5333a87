"""Many small kernels, conversions, products without Tensor Cores, local copies."""

import itertools

import pytest
from drawing import draw
from drawn_steps import US, launched
from measured import scope_of

from gpuprof.findings.costly_kernels import of_scope

NUMBERS = itertools.count(1)
V100 = {"device_id": 0, "name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0"}
A100 = {"device_id": 0, "name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0"}
STEPS = [(0, 100), (100, 200), (200, 300)]


def found(scope, cause):
    return [one for one in of_scope(scope) if one.cause == cause]


def in_each_step(*activities):
    """The same activities, with times of a step of 100, in three steps."""
    return [
        (start + begin, end + begin, *more)
        for begin, _ in STEPS
        for start, end, *more in activities
    ]


def every(period, kernel_us, count=60, **more):
    """Kernels that begin 3 µs after their launch, one in each period."""
    starts = range(10, 10 + count * period, period)
    return launched(*((at - 3, at, at + kernel_us) for at in starts), **more)


def test_small_kernels_that_wait_for_their_launches_cost_the_time_between_them():
    [one] = found(scope_of(every(period=25, kernel_us=5)), "small_kernels")

    assert one.cost_ns == one.win_ns == 59 * 20 * US
    assert "60, half of them shorter than 5.00 µs" in one.phrase
    assert "CUDA graph" in one.suggestion


def test_gaps_too_short_to_be_called_pauses_count_too():
    profile = every(period=9, kernel_us=5)

    assert [one.cost_ns for one in found(scope_of(profile), "small_kernels")] == [59 * 4 * US]


WAITS = [
    ((at + 5) * US, (at + 20) * US, {"name": "cudaStreamSynchronize"}) for at in range(10, 1510, 25)
]


NOT_HELD_UP = {
    "kernels-of-10-us": every(period=30, kernel_us=10),
    "49-kernels": every(period=25, kernel_us=5, count=49),
    "nothing-between-them": every(period=5, kernel_us=5),
    "launched-in-time": launched(*((0, at, at + 5) for at in range(30, 1530, 25))),
    "pauses-of-2-ms": every(period=2005, kernel_us=5),
    "waits-in-calls-that-synchronise": every(period=25, kernel_us=5, calls=WAITS),
}


@pytest.mark.parametrize("profile", NOT_HELD_UP.values(), ids=NOT_HELD_UP)
def test_what_launches_do_not_hold_up_is_no_such_cost(profile):
    assert found(scope_of(profile), "small_kernels") == []


def test_kernels_are_counted_by_the_step_and_device():
    starts = range(10, 2260, 25)
    steps = [(0, 760 * US), (760 * US, 1510 * US), (1510 * US, 2260 * US)]
    others = ((at, at, at + 20, {"device_id": 1}) for at in starts)
    profile = launched(*((at - 3, at, at + 5) for at in starts), *others)

    [one] = found(scope_of(profile, steps), "small_kernels")

    assert one.cost_ns == 30 * 20 * US
    assert "30 a step, half of them shorter than 5.00 µs" in one.phrase
    assert found(scope_of(profile, steps, device=1), "small_kernels") == []


def test_the_words_are_those_of_the_framework():
    name = "void at::native::vectorized_elementwise_kernel<4>(int)"

    [one] = found(scope_of(every(period=25, kernel_us=5, name=name)), "small_kernels")

    assert "torch.cuda.make_graphed_callables" in one.suggestion


def test_layouts_are_what_their_kernels_take_of_a_step():
    profile = draw(
        kernels=in_each_step(
            (0, 20, {"name": "void cudnn::ops::nchwToNhwcKernel<float>(int)"}),
            (20, 90, {"name": "matmul"}),
            (90, 95, {"name": "void cudnn::ops::nhwcToNchwKernel<float>(int)"}),
            (95, 96, {"name": "void cuInt8::nchwToNchhw2<float>(int)"}),
        )
    )

    [one] = of_scope(scope_of(profile, STEPS))

    assert (one.cause, one.cost_ns, one.win_ns) == ("layout_conversions", 26, 26)
    assert "(nchwToNhwcKernel 20.0 %, nhwcToNchwKernel 5.0 % of a step)" in one.phrase
    assert one.where == "nchwToNhwcKernel"


def test_what_is_little_of_a_cost_is_not_named():
    profile = draw(
        kernels=in_each_step(
            (0, 95, {"name": "void cudnn::ops::nchwToNhwcKernel<float>(int)"}),
            (95, 100, {"name": "void cudnn::ops::nhwcToNchwKernel<float>(int)"}),
        )
    )

    [one] = of_scope(scope_of(profile, STEPS))

    assert one.phrase.endswith("(nchwToNhwcKernel 95.0 % of a step)")


ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
MUL = "void at::native::elementwise_kernel<128, 2, at::native::MulFunctor<float>>(int)"
CAST = "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda(int)>(int)"


def test_kernels_of_one_operation_are_one_cause_with_all_their_names():
    events = (0, 15, {"name": ADD}), (15, 25, {"name": MUL}), (25, 35, {"name": CAST}), (35, 100)
    [one] = of_scope(scope_of(draw(kernels=in_each_step(*events)), STEPS))

    assert (one.cause, one.cost_ns, one.win_ns) == ("elementwise_kernels", 35, 17)
    assert "(3 names; most vectorized_elementwise_kernel 15.0 %" in one.phrase
    assert one.suggestion == "fuse them: torch.compile"


@pytest.mark.parametrize(
    ("events", "causes"),
    [
        pytest.param([(0, 25, {"name": ADD}), (25, 100)], [], id="little-of-the-compute"),
        pytest.param(
            [(0, 15, {"name": ADD}), (15, 35, {"name": CAST}), (35, 100)],
            ["copy_kernels"],
            id="mostly-casts",
        ),
    ],
)
def test_few_kernels_of_one_operation_are_no_cause(events, causes):
    findings = of_scope(scope_of(draw(kernels=in_each_step(*events)), STEPS))

    assert [one.cause for one in findings] == causes


def test_of_copies_by_kernels_half_is_counted_on():
    name = "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda(int)>(int)"
    profile = draw(kernels=in_each_step((0, 20, {"name": name}), (20, 100)))

    [one] = of_scope(scope_of(profile, STEPS))

    assert (one.cause, one.cost_ns, one.win_ns) == ("copy_kernels", 20, 10)
    assert ".contiguous()" in one.suggestion


@pytest.mark.parametrize(
    ("device", "means"),
    [
        (V100, "mixed precision"),
        (A100, "TF32 or mixed precision"),
        (V100 | {"compute_capability": None}, "mixed precision"),
        (A100 | {"compute_capability": None}, "TF32 or mixed precision"),
        ({"device_id": 0, "name": "NVIDIA GeForce RTX 3090"}, "TF32 or mixed precision"),
        ({"device_id": 0, "name": "TITAN RTX"}, "mixed precision"),
    ],
)
def test_products_in_fp32_are_named_on_devices_with_tensor_cores(device, means):
    kernels = in_each_step((0, 40, {"name": "volta_sgemm_128x64_nn"}), (40, 100))

    [one] = of_scope(scope_of(draw(kernels=kernels, devices=[device]), STEPS))

    assert (one.cause, one.cost_ns, one.win_ns) == ("no_tensor_cores", 40, 10)
    assert one.means == means
    assert one.where == "volta_sgemm_128x64_nn"


WITHOUT_TENSOR_CORES = {
    "unknown": [],
    "Pascal": [V100 | {"compute_capability": "6.0"}],
    "another-device": [V100 | {"device_id": 1}],
    "Turing-without": [{"device_id": 0, "name": "GeForce GTX 1650", "compute_capability": "7.5"}],
    "by-name": [{"device_id": 0, "name": "GeForce GTX 1080 Ti"}],
}


@pytest.mark.parametrize("devices", WITHOUT_TENSOR_CORES.values(), ids=WITHOUT_TENSOR_CORES)
def test_no_tensor_cores_are_asked_of_a_device_without(devices):
    kernels = in_each_step((0, 40, {"name": "volta_sgemm_128x64_nn"}))

    assert [*of_scope(scope_of(draw(kernels=kernels, devices=devices), STEPS))] == []


def test_of_many_kernels_without_tensor_cores_their_number_is_said_beside_the_costliest():
    sizes = ("128x64", "128x32", "64x64", "32x128", "64x32")
    events = [
        (10 * n, 10 * n + 10, {"name": f"volta_sgemm_{size}_nn"}) for n, size in enumerate(sizes)
    ]
    profile = draw(kernels=in_each_step(*events, (50, 100)), devices=[V100])

    [one] = of_scope(scope_of(profile, STEPS))

    assert "(5 names; most volta_sgemm_128x32_nn 10.0 %, " in one.phrase
    assert (one.cause, one.cost_ns) == ("no_tensor_cores", 50)


LOCAL = {"memcpy_kind": "DtoD", "bytes": 1 << 20}


def test_local_copies_cost_what_nothing_hides():
    profile = draw(kernels=in_each_step((0, 50), (60, 100)), memcpys=in_each_step((45, 60, LOCAL)))

    [one] = of_scope(scope_of(profile, STEPS))

    assert (one.cause, one.cost_ns, one.win_ns) == ("local_copies", 10, 10)
    assert one.phrase == "copies 1.05 MB within its own memory"
    assert "swap pointers" in one.suggestion


def test_memory_that_is_set_is_not_called_copied():
    profile = draw(
        kernels=in_each_step((0, 50), (60, 100)),
        memcpys=in_each_step((50, 52, LOCAL)),
        memsets=in_each_step((52, 60)),
    )

    [one] = of_scope(scope_of(profile, STEPS))

    assert (one.cost_ns, one.phrase) == (10, "sets its own memory")
    assert "first kernel" in one.suggestion


@pytest.mark.parametrize(
    ("middle", "phrase"),
    [
        (53, "sets its own memory (30.0 % of it copies)"),
        (57, "copies 1.05 MB within its own memory (30.0 % of it memsets)"),
    ],
)
def test_what_takes_less_of_copies_and_memsets_is_said_beside_the_other(middle, phrase):
    profile = draw(
        kernels=in_each_step((0, 50), (60, 100)),
        memcpys=in_each_step((50, middle, LOCAL)),
        memsets=in_each_step((middle, 60)),
    )

    [one] = of_scope(scope_of(profile, STEPS))

    assert (one.cost_ns, one.phrase) == (10, phrase)


def test_a_single_copy_is_called_one():
    profile = draw(kernels=[(0, 50), (60, 100)], memcpys=[(50, 60, LOCAL)])

    [one] = of_scope(scope_of(profile))

    assert one.phrase == "copies 1.05 MB within its own memory, once"


def test_local_copies_are_named_by_the_operations_that_launch_most_of_them():
    lengths = {"aten::clone, op_id = 1": 30, "aten::clone, op_id = 2": 25, "pack": 12, "tail": 3}
    starts = itertools.accumulate([10, *lengths.values()])
    copies, calls, ranges = [], [], []
    for at, (text, length) in zip(starts, lengths.items(), strict=False):
        number = {"correlation_id": next(NUMBERS)}
        copies.append((at, at + length, LOCAL | number))
        calls.append((at - 2, at - 1, number | {"name": "cudaMemcpyAsync"}))
        ranges.append((at - 3, at, {"text": text}))
    profile = draw(
        kernels=[(0, 10), (80, 100)], memcpys=copies, api_calls=calls, nvtx_ranges=ranges
    )

    [one] = found(scope_of(profile), "local_copies")

    assert (one.cost_ns, one.where) == (70, "aten::clone and pack")
