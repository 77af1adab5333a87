"""Recordings whose idle time is none of the program's, drawn with what they lack."""

from dataclasses import replace

import pytest
from drawing import draw
from recordings import trace

from gpuprof.findings.bottom_line import bottom_line
from gpuprof.findings.findings import findings
from gpuprof.findings.whole_recording import incomplete
from gpuprof.model.derived import KERNELS_RERUN

US = 1_000


def launched(number, *, apart=1, lost=(), calls=(), **columns):
    """Launches 20 µs apart with a kernel of 5 µs each, but for those whose kernels are lost."""
    launches = [
        (at * 20 * US, at * 20 * US + US, {"correlation_id": 1 + at * apart} | columns)
        for at in range(number)
    ]
    kernels = [
        (start + 5 * US, start + 10 * US, {"correlation_id": row["correlation_id"]})
        for at, (start, _, row) in enumerate(launches)
        if at not in lost
    ]
    return draw(kernels=kernels, api_calls=sorted([*launches, *calls], key=lambda row: row[0]))


@pytest.mark.parametrize(
    ("number", "apart", "is_said"), [(100, 20, True), (99, 20, False), (100, 19, False)]
)
def test_calls_whose_numbers_lie_far_apart_lack_others(number, apart, is_said):
    why = incomplete(launched(number, apart=apart))

    assert (why is not None) is is_said
    if why:
        assert why.cause == "incomplete"
        assert "100 of 1,981 numbered calls of CUDA" in why.phrase


@pytest.mark.parametrize(
    ("lost", "is_said"),
    [
        (range(50, 60), True),
        (range(50, 59), False),
        (range(10), False),
        (range(90, 100), False),
    ],
)
def test_launches_among_others_that_left_no_kernel_are_missing(lost, is_said):
    why = incomplete(launched(100, lost=lost))

    assert (why is not None) is is_said
    if why:
        assert "90 of 100 launches with their kernels" in why.phrase


def test_launches_at_the_end_are_cut_off_in_any_order_of_rows():
    rows = launched(100, lost=range(60, 100))
    calls = rows.table("api_calls").to_pylist()

    assert (
        incomplete(trace(kernels=rows.table("kernels").to_pylist(), api_calls=calls[::-1])) is None
    )


# Of one stream, which falls behind.
BEHIND = [at for at in range(60, 100) if at % 4]
# None of the second thread's kernels was recorded: nothing says that it launched any.
OF_A_THREAD = [
    (at * 20 * US + 7, at * 20 * US + 9, {"correlation_id": 900 + at, "thread_id": 2})
    for at in range(60)
]
CAPTURED = (0, 1, {"name": "cudaStreamBeginCapture_v10000", "correlation_id": 5_000})
INNER = [
    (at * 20 * US + 100, at * 20 * US + 200, {"correlation_id": 1 + at, "name": "cuLaunchKernel"})
    for at in range(100)
]
RECORDINGS = {
    "cut-off-behind-the-others": (launched(100, lost=BEHIND), False),
    "behind-and-then-not": (launched(200, lost=BEHIND), True),
    "a-thread-that-ended-before": (launched(100, calls=OF_A_THREAD, thread_id=1), False),
    "fewer-than-one-of-twenty-failed": (launched(300, lost=range(50, 64)), False),
    "one-of-twenty-failed": (launched(300, lost=range(50, 65)), True),
    "captured-into-a-graph": (launched(100, lost=range(50, 60), calls=[CAPTURED]), False),
    "other-calls": (launched(100, lost=range(50, 60), name="cudaMemcpyAsync"), False),
    "calls-of-the-driver-within-those-of-the-runtime": (launched(100, calls=INNER), False),
}


@pytest.mark.parametrize(("profile", "is_incomplete"), RECORDINGS.values(), ids=RECORDINGS)
def test_launches_may_have_left_no_kernel_for_another_reason(profile, is_incomplete):
    assert (incomplete(profile) is not None) == is_incomplete


def test_a_recording_that_lacks_records_says_so_and_nothing_of_its_pauses():
    profile = launched(100, apart=36)

    [row] = findings(profile).to_pylist()
    assert (row["rank"], row["cause"], row["cost_ns"]) == (1, "incomplete", 0)
    [line] = bottom_line(profile).to_pylist()
    assert "is 25.0 % compute, 75.0 % idle or not recorded. Costliest" in line["bottom_line"]
    assert "but most of it was not recorded, so that pauses tell nothing. " in line["bottom_line"]
    assert "Moving data" not in line["bottom_line"]


def test_kernels_that_the_profiler_ran_again_say_nothing_of_pauses():
    drawn = draw(kernels=[(0, 10 * US), (9_000 * US, 9_010 * US)])
    profile = replace(drawn, origin=replace(drawn.origin, warnings=(KERNELS_RERUN,)))

    [row] = findings(profile).to_pylist()
    assert (row["cause"], row["table"]) == ("kernels_rerun", "kernel_summary")
    assert "99.8 % idle, or the profiler's" in bottom_line(profile)["bottom_line"][0].as_py()


def test_what_was_cut_off_at_the_end_makes_no_sample():
    """Most kernels have no launch, as if calls were not traced; the last launches no kernel."""
    whole = launched(100, lost=range(40, 100))
    more = [(at, at + 1, {"correlation_id": 5_000 + at}) for at in range(100)]
    kernels = [
        *whole.table("kernels").to_pylist(),
        *(row | {"start_ns": at, "end_ns": end} for at, end, row in more),
    ]

    assert incomplete(draw(kernels=kernels, api_calls=whole.table("api_calls").to_pylist())) is None
