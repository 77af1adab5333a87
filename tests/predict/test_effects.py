"""What a change wins of each step, of programs whose times can be computed by hand."""

import numpy as np
import pytest
from launched import PLACE, SPAN, call, launched
from recordings import copy, kernel, trace

from gpuprof.facts.phases import phases
from gpuprof.predict.effects import Steps, effect
from gpuprof.predict.predict import predict

US, MS = 1_000, 1_000_000
LAUNCH_US, KERNEL_US = 4, 100


def marked(step_us, *events, count=6, **tables):
    """A recording of marked steps, each of the same calls and of what they launch.

    Args:
        step_us: The length of a step.
        events: As of `launched`, from the start of the step.
        count: How many steps.
        tables: Rows of other tables.
    """
    starts = [1_000 + step * step_us for step in range(count)]
    steps = [
        SPAN | {"text": f"step {n}", "start_ns": at * US, "end_ns": (at + step_us) * US - 1}
        for n, at in enumerate(starts)
    ]
    moved = [
        (name, at + start, at + end, work and (work[0], at + work[1], at + work[2], *work[3:]))
        for at in starts
        for name, start, end, work in events
    ]
    return launched(*moved, nvtx_ranges=steps, **tables)


def won_us(profile, change):
    [phase] = phases(profile)
    steps = Steps(phase.devices, (phase.start_ns, phase.end_ns))
    return effect(profile, [change], steps)[0] / US


@pytest.mark.parametrize("late_us", [-5, 5])
def test_hidden_copies_no_longer_hold_up_the_host(late_us):
    """Each step begins with a copy of 200 µs whose call returns a little before or after it."""
    profile = marked(
        600,
        ("cudaMemcpyAsync", 0, 200, ("HtoD", 10, 200 + late_us)),
        ("cudaLaunchKernel", 210, 210 + LAUNCH_US, ("k", 220, 220 + KERNEL_US)),
    )

    # Borders of steps do not move with the copies, which run far ahead.
    won = won_us(profile, "hide=HtoD")
    assert np.median(won) == pytest.approx(200 - LAUNCH_US, abs=12)


def test_a_call_that_waits_for_long_does_no_work_of_its_own_though_it_returns_a_little_later():
    """The host reads a result in each step, and gets it 60 µs after the copy."""
    profile = marked(
        11_000,
        ("cudaLaunchKernel", 0, LAUNCH_US, ("k", 10, 10_010)),
        ("cudaMemcpyAsync", 10, 10_080, ("DtoH", 10_015, 10_020)),
    )

    assert won_us(profile, "scale=k:0.5") == pytest.approx(5_000, abs=10)


def test_a_recording_lasts_from_its_own_first_start():
    """What launches cost before the first kernel is no part of it, with or without a change."""
    setup = [("cudaMalloc", n * 100, n * 100 + 99, None) for n in range(50)]
    work = [
        ("cudaLaunchKernel", at, at + 40, ("k", at + 5, at + 25)) for at in range(6_000, 6_500, 50)
    ]
    result = predict(launched(*setup, *work), ["no-launch-cost"])
    row = result.tables["prediction"].to_pylist()[0]

    assert row["measured_ns"] == (9 * 50 + 20) * US
    assert 10 * 20 * US <= row["predicted_ns"] <= 10 * 30 * US


def test_what_a_change_wins_is_told_for_each_step():
    """Without its copy each step is 150 µs shorter."""
    profile = marked(
        700,
        ("cudaMemcpy", 0, 150, ("HtoD", 10, 148)),
        ("cudaLaunchKernel", 155, 155 + LAUNCH_US, ("k", 170, 170 + KERNEL_US)),
        count=8,
    )

    won = won_us(profile, "drop=^HtoD")
    assert len(won) > 1
    assert np.median(won) == pytest.approx(150, abs=12)


def test_a_process_with_work_on_two_devices_waits_for_the_one_that_is_named():
    """It waits for a device without work, in a call that takes as long as a kernel of another."""
    other = PLACE | {"device_id": 1}
    wait = {"start_ns": 10 * US, "sync_kind": "context", "process_id": 1, "device_id": 2}
    profile = trace(
        kernels=[
            kernel("a", 10 * US, 310 * US, stream_id=7, correlation_id=1, **PLACE),
            kernel("b", 12 * US, 20 * US, stream_id=8, correlation_id=2, **other),
            kernel("c", 330 * US, 430 * US, stream_id=8, correlation_id=4, **other),
        ],
        api_calls=[
            call("cudaLaunchKernel", 0, 4 * US, 1),
            call("cudaLaunchKernel", 5 * US, 9 * US, 2),
            call("cudaDeviceReset", 10 * US, 315 * US, 3),
            call("cudaLaunchKernel", 320 * US, 324 * US, 4),
        ],
        synchronizations=[wait | {"correlation_id": 3}],
    )

    assert effect(profile, ["scale=a:0.5"], Steps((0, 1), None))[0].tolist() == [0]


@pytest.mark.parametrize("number", [0, 1])
def test_waits_of_a_process_that_sees_two_of_four_gpus_are_for_these_in_order(number):
    awaited, other = (
        PLACE | {"device_id": 2 + n, "stream_id": 7 + n} for n in (number, 1 - number)
    )
    wait = {"sync_kind": "context", "process_id": 1, "device_id": number}
    profile = trace(
        kernels=[
            kernel("awaited", 10 * US, 310 * US, correlation_id=1, **awaited),
            kernel("other", 12 * US, 212 * US, correlation_id=2, **other),
            kernel("next", 330 * US, 430 * US, correlation_id=4, **awaited),
        ],
        api_calls=[
            call("cudaLaunchKernel", 0, 4 * US, 1),
            call("cudaLaunchKernel", 5 * US, 9 * US, 2),
            call("cudaDeviceSynchronize", 10 * US, 315 * US, 3),
            call("cudaLaunchKernel", 320 * US, 324 * US, 4),
            call("cudaDeviceSynchronize", 325 * US, 435 * US, 5),
        ],
        synchronizations=[
            wait | {"start_ns": 10 * US, "correlation_id": 3},
            wait | {"start_ns": 325 * US, "correlation_id": 5, "device_id": 1},
            wait | {"start_ns": 325 * US, "correlation_id": 5, "device_id": 0},
        ],
    )

    on_awaited = Steps((2 + number,), None)
    assert effect(profile, ["scale=awaited:2"], on_awaited)[0].tolist() == [-300 * US]
    assert effect(profile, ["scale=other:3"], on_awaited)[0].tolist() == [0]


def test_nothing_waits_for_copies_that_are_dropped():
    """PyTorch waits for what it copies from pageable memory, and so for the kernel before it."""
    profile = marked(
        430,
        ("cudaLaunchKernel", 0, LAUNCH_US, ("k", 10, 310)),
        ("cudaMemcpyAsync", 5, 9, ("HtoD", 312, 322)),
        ("cudaStreamSynchronize", 10, 330, None),
        count=8,
    )

    # The host is ahead from then on, and one kernel follows another.
    for change in ("drop=^HtoD", "hide=HtoD"):
        assert np.median(won_us(profile, change)) == pytest.approx(130, abs=3)
    [_, assumes] = effect(profile, ["drop=^HtoD"], Steps((0,), None))
    assert "; calls after them that wait for these alone (8) go on; " in assumes


def test_a_step_that_begins_with_a_hidden_copy_is_no_longer_than_before():
    kernels, copies, calls = [], [], []
    begun, steps = 0, 8
    for step in range(steps):
        begun += 100_000 + 7_000 * (step * step % 5)  # what the host does between steps
        number = 10 * step
        ends = {"bytes": 4096, "src_memory_kind": "pinned"}
        copies.append(
            copy(
                "HtoD",
                begun + 5_000,
                begun + 8_000,
                stream_id=7,
                correlation_id=number,
                **PLACE | ends,
            )
        )
        calls.append(call("cudaMemcpyAsync", begun, begun + 2_000, number))
        for n in range(1, 6):
            at = begun + 10_000 * n
            calls.append(call("cudaLaunchKernel", at - 4_000, at - 2_000, number + n))
            kernels.append(
                kernel(f"k{n}", at, at + 5_000, stream_id=7, correlation_id=number + n, **PLACE)
            )
    marks = [
        {"text": f"step {n}", "start_ns": c["start_ns"], "end_ns": c["start_ns"] + 60_000}
        | {"process_id": c["process_id"], "thread_id": c["thread_id"]}
        for n, c in enumerate(calls[:: len(calls) // steps])
    ]
    profile = trace(kernels=kernels, memcpys=copies, api_calls=calls, nvtx_ranges=marks)

    def of_step(*what):
        return predict(profile, what).tables["prediction"].to_pylist()[1]["predicted_ns"]

    assert of_step("no-launch-cost", "hide=HtoD") <= of_step("no-launch-cost")


def test_dropped_copies_move_no_border_of_a_step():
    """Copies keep their stream busiest; a kernel and the host wait for each of them."""
    profile = marked(
        430,
        ("cudaMemcpyAsync", 0, 4, ("HtoD", 10, 310, 8)),
        ("cudaLaunchKernel", 5, 5 + LAUNCH_US, ("k", 312, 312 + KERNEL_US)),
        ("cudaDeviceSynchronize", 10, 415, None),
        count=8,
    )

    assert np.median(won_us(profile, "drop=^HtoD")) == pytest.approx(300, abs=12)
    row = predict(profile, ["drop=^HtoD"]).tables["prediction"].to_pylist()[-1]
    assert row["predicted_ns"] == pytest.approx(130 * US, abs=12 * US)


def test_collectives_beside_the_kernels_move_no_border_of_a_step():
    """They wait for longer on their stream than the kernels run; the host sets the pace."""
    profile = marked(
        500,
        ("cudaLaunchKernel", 0, LAUNCH_US, ("k", 10, 10 + KERNEL_US)),
        ("cudaLaunchKernel", 5, 5 + LAUNCH_US, ("ncclDevKernel_AllReduce", 115, 415, 8)),
        count=4,
    )
    [phase] = phases(profile)
    # Its last border is within the collective.
    steps = Steps(phase.devices, (phase.start_ns[:1], phase.end_ns[:1] - 50 * US))

    assert effect(profile, ["scale=nccl:0.1"], steps)[0].tolist() == [0]


def test_a_step_of_which_nothing_is_left_takes_no_time():
    """It begins 90 µs after a kernel and ends with one."""
    profile = launched(
        ("cudaLaunchKernel", 0, LAUNCH_US, ("k", 10, 110)),
        ("cudaLaunchKernel", 300, 300 + LAUNCH_US, ("k", 310, 410)),
    )
    steps = Steps((0,), (np.array([200 * US]), np.array([410 * US])))

    assert effect(profile, ["drop=k"], steps)[0].tolist() == [210 * US]


def test_removed_operations_do_not_begin_a_recording():
    profile = launched(
        ("cudaMemcpyAsync", -10, -5, ("HtoD", 0, 100)),
        ("cudaLaunchKernel", 500, 504, ("k", 505, 605)),
    )
    row = predict(profile, ["drop=^HtoD"]).tables["prediction"].to_pylist()[0]

    assert (row["measured_ns"], row["predicted_ns"]) == (605 * US, 100 * US)
    assert "; the recording begins 505 µs later, with the first one that" in row["assumptions"]
    # The host takes as long as before, but for the call of the copy.
    assert effect(profile, ["drop=^HtoD"], Steps((0,), None))[0].tolist() == [5 * US]


def test_copies_that_the_host_waits_for_are_won_where_they_begin_and_end_a_recording():
    profile = launched(
        ("cudaMemcpy", 0, 115, ("HtoD", 10, 110)),
        ("cudaLaunchKernel", 120, 124, ("k", 130, 230)),
        ("cudaMemcpy", 125, 355, ("DtoH", 250, 350)),
        ("cudaFree", 1_000, 1_010, None),
    )

    ((won_ns,), _) = effect(profile, ["drop=^(HtoD|DtoH)"], Steps((0,), None))
    # Both calls: the host then works on, and the kernel runs meanwhile.
    assert won_ns == (115 + 230) * US


def test_a_call_that_synchronises_by_its_name_waits_for_each_stream():
    profile = marked(
        330,
        ("cudaLaunchKernel", 0, LAUNCH_US, ("a", 10, 310)),
        ("cudaLaunchKernel", 5, 5 + LAUNCH_US, ("b", 12, 292, 8)),
        ("cudaDeviceSynchronize", 10, 315, None),
    )

    # Then b ends last, 18 µs before a did.
    assert np.median(won_us(profile, "scale=a:0.5")) == pytest.approx(18, abs=4)


@pytest.mark.parametrize("device", [0, 1])
def test_a_call_waits_for_its_stream_also_where_its_process_counts_devices_by_itself(device):
    """A process that sees one GPU calls it 0 in its waits, whichever it is."""
    waits = [
        {"start_ns": at * US, "sync_kind": "stream", "process_id": 1, "device_id": device}
        | {"stream_id": 7, "correlation_id": number}
        for at, number in zip(range(1_010, 1_010 + 6 * 330, 330), range(3, 21, 3), strict=True)
    ]
    profile = marked(
        330,
        ("cudaLaunchKernel", 0, LAUNCH_US, ("a", 10, 310)),
        ("cudaLaunchKernel", 5, 5 + LAUNCH_US, ("b", 12, 292, 8)),
        ("cudaStreamSynchronize", 10, 315, None),
        synchronizations=waits,
    )

    # The next a need not wait for b, which then takes longer.
    assert won_us(profile, "scale=a:0.5")[0] == pytest.approx(150, abs=4)


@pytest.mark.parametrize(("kind", "change"), [("HtoD", "drop=^HtoD"), ("DtoH", "hide=DtoH")])
def test_an_inferred_wait_for_what_is_gone_is_for_the_work_before_it(kind, change):
    """A kernel on another stream starts when the copy after p has ended."""
    profile = marked(
        400,
        ("cudaLaunchKernel", 0, LAUNCH_US, ("p", 10, 200, 8)),
        ("cudaMemcpyAsync", 5, 9, (kind, 200, 250, 8)),
        ("cudaLaunchKernel", 10, 10 + LAUNCH_US, ("k", 252, 252 + KERNEL_US)),
        ("cudaStreamSynchronize", 15, 355, None),
    )

    assert np.median(won_us(profile, change)) == pytest.approx(50, abs=12)


def test_waits_that_return_before_their_work_ends_are_said_to_be_left_out():
    wait = {"start_ns": 10 * US, "sync_kind": "context", "process_id": 1, "device_id": 0}
    profile = trace(
        kernels=[kernel("a", 12 * US, 310 * US, stream_id=7, correlation_id=1, **PLACE)],
        api_calls=[
            call("cudaLaunchKernel", 0, 4 * US, 1),
            call("cudaDeviceSynchronize", 10 * US, 250 * US, 2),
        ],
        synchronizations=[wait | {"correlation_id": 2}],
    )

    (note,) = [text for text in predict(profile, []).notes if "could not be matched" in text]
    assert note == (
        "In 1 case a call that waits returns before work that it waits for ends: the clocks of GPU"
        " and host are apart, or it waits for less of the work. These waits could not be matched"
        " and are left out."
    )
