"""A host that waits for each result before it launches more: what each step costs is known."""

import pytest
from drawing import draw

from gpuprof.findings.findings import findings

US = 1_000
WAIT = "cudaDeviceSynchronize"
FLAG = {"memcpy_kind": "DtoH", "src_device_id": 0, "bytes": 4}


def looping(*, wait=(3, 9), launched=10, call=WAIT, copy=None, kernel_end=8):
    """Steps of 10 µs: a kernel runs from 5 to 8, and the device has nothing to do until 15.

    Args:
        wait: When a call waits in each step, in us.
        launched: When the next kernel is launched.
        call: The name of the call that waits.
        copy: What is copied from 8 to 9 in each step; None for nothing.
        kernel_end: When the kernel ends, in us.
    """
    kernels, calls, copies = [], [], []
    for step in range(80):
        at, row = step * 10 * US, {"correlation_id": step}
        kernels.append((at + 5 * US, at + kernel_end * US, row))
        begin = at - (10 - launched) * US if step else at
        calls.append((begin, begin + US // 2, row))
        calls.append((at + wait[0] * US, at + wait[1] * US, {"name": call}))
        if copy is not None:
            of_copy = {"correlation_id": 1_000 + step}
            copies.append((at + 8 * US, at + 9 * US, copy | of_copy))
            calls.append((at + 7 * US, at + 7 * US + 1, of_copy | {"name": "cudaMemcpyAsync"}))
    return draw(kernels=kernels, memcpys=copies, api_calls=sorted(calls, key=lambda row: row[0]))


def rows(profile):
    return {row["cause"]: row for row in findings(profile).to_pylist()}


def test_gaps_after_a_call_that_waited_are_not_for_want_of_launches():
    by_cause = rows(looping())

    row = by_cause["synchronising_call"]
    assert (row["where"], row["cost_ns"], row["step_ns"]) == (WAIT, 7 * US, 10 * US)
    assert row["finding"].startswith(f"device 0 has no work because the host waited in {WAIT}: ")
    assert row["suggestion"].startswith("read results later")
    assert "small_kernels" not in by_cause


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"wait": (3, 7)}, id="returned-before-the-gap"),
        pytest.param({"wait": (9, 10)}, id="called-within-the-gap"),
        pytest.param({"launched": 4, "wait": (5, 9)}, id="launched-before-it-returned"),
        pytest.param({"call": "cudaEventQuery"}, id="does-not-wait"),
    ],
)
def test_other_gaps_wait_for_launches(change):
    by_cause = rows(looping(**change))

    assert "synchronising_call" not in by_cause
    assert by_cause["small_kernels"]["cost_ns"] == 7 * US


def test_a_flag_that_each_step_reads_back_is_named():
    row = rows(looping(wait=(3, 10), call="cudaMemcpy", copy=FLAG))["synchronising_call"]

    assert "waited in cudaMemcpy, as it reads 4 B back in each step" in row["finding"]
    assert row["suggestion"].startswith("read it every n-th step, or test it on the device")
    assert row["cost_ns"] == 6 * US


PIECE = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": 1 << 14}


def test_steps_that_do_little_but_copy_a_piece_to_the_device_are_to_copy_all_at_once():
    row = rows(looping(wait=(3, 10), copy=PIECE, kernel_end=7))["synchronising_call"]

    assert f"waited in {WAIT}, as it copies 16.4 KB to the device in each step" in row["finding"]
    assert row["suggestion"].startswith("copy the data of all steps at once")


OTHER_COPIES = {
    "more-than-a-number": (FLAG | {"bytes": 65}, 8),
    "the-other-way": (FLAG | {"memcpy_kind": "HtoD", "dst_device_id": 0}, 8),
    "from-another-device": (FLAG | {"src_device_id": 1, "device_id": 1}, 8),
    "more-than-a-piece": (PIECE | {"bytes": 1 + (1 << 14)}, 7),
    "steps-that-compute": (PIECE, 8),
    "to-another-device": (PIECE | {"dst_device_id": 1, "device_id": 1}, 7),
}


@pytest.mark.parametrize(("copy", "kernel_end"), OTHER_COPIES.values(), ids=OTHER_COPIES)
def test_other_copies_are_no_flag_and_no_pieces(copy, kernel_end):
    row = rows(looping(wait=(3, 10), copy=copy, kernel_end=kernel_end))["synchronising_call"]

    assert "reads" not in row["finding"]
    assert "copies" not in row["finding"]


def test_a_flag_that_few_steps_read_is_no_part_of_each():
    profile = looping(wait=(3, 10), copy=FLAG)
    copies = profile.table("memcpys").slice(0, 70)

    row = rows(profile.with_table("memcpys", copies))["synchronising_call"]
    assert "reads" not in row["finding"]


def test_the_advice_is_of_what_the_host_does_after_it_waited():
    """It waits for 1 µs of a pause of 37, and then frees and allocates memory for 30."""
    kernels, calls = [], []
    for step in range(20):
        at, row = step * 40 * US, {"correlation_id": step}
        kernels.append((at + 5 * US, at + 8 * US, row))
        calls += [(at, at + US, row), (at + 3 * US, at + 9 * US, {"name": WAIT})]
        calls.append((at + 9 * US, at + 39 * US, {"name": "cudaMalloc"}))
    by_cause = rows(draw(kernels=kernels, api_calls=calls))

    late, waited = (by_cause[cause] for cause in ("host_late", "synchronising_call"))
    assert (late["where"], late["cost_ns"]) == ("cudaMalloc", 31 * US)
    assert late["suggestion"].startswith("allocate memory once")
    # The end of the call, and the launch after it.
    assert (waited["where"], waited["cost_ns"]) == (WAIT, US + 5 * US)


@pytest.mark.parametrize(("long_us", "advice"), [(5, "launch less"), (8, "allocate memory once")])
def test_what_takes_little_of_late_launches_is_no_place_for_advice(long_us, advice):
    kernels, calls, allocate = [], [], {"name": "cudaMalloc"}
    for step in range(20):
        at, row = step * 40 * US, {"correlation_id": step}
        kernels.append((at + 5 * US, at + 8 * US, row))
        calls += [(at, at + US, row), (at + 9 * US, at + (9 + long_us) * US, allocate)]

    late = rows(draw(kernels=kernels, api_calls=calls))["host_late"]
    assert late["where"] == "cudaMalloc"
    assert late["suggestion"].startswith(advice)


@pytest.mark.parametrize(
    ("away", "costs"),
    [
        pytest.param(5, {"synchronising_call": 25}, id="launches-at-once"),
        pytest.param(20, {"synchronising_call": 40}, id="launches-soon"),
        pytest.param(21, {"host_late": 21, "synchronising_call": 20}, id="launches-later"),
        pytest.param(100, {"host_late": 100, "synchronising_call": 20}, id="is-away"),
        pytest.param(900, {"host_late": 900, "synchronising_call": 20}, id="is-long-away"),
    ],
)
def test_a_call_that_waits_costs_what_is_left_of_it_and_the_launch_after_it(away, costs):
    """Kernels of 300 µs; after each the host returns from its wait and is away for a while."""
    profile = returning(away)

    cost_ns = {row["cause"]: row["cost_ns"] for row in rows(profile).values()}
    assert cost_ns == {cause: us * US for cause, us in costs.items()}
    if "host_late" in costs:
        finding = rows(profile)["host_late"]["finding"]
        assert ("in no call or range that was recorded" in finding) == (away >= 200)


def returning(away, *, wait=(5, 320), other=None, steps=12):
    """Kernels of 300 µs on device 0, after each of which the host does something.

    Args:
        away: How long the host is away at the end of each step, in us.
        wait: When a call waits in each step, in us.
        other: When a kernel ends on device 1 in each step; None for no such device.
        steps: How many steps.
    """
    kernels, calls, at = [], [], 0
    for step in range(steps):
        row = {"correlation_id": step}
        calls += [(at, at + 5 * US, row), (at + wait[0] * US, at + wait[1] * US, {"name": WAIT})]
        kernels.append((at + 10 * US, at + 310 * US, row))
        if other is not None:
            beside = {"correlation_id": 1000 + step}
            calls.insert(-1, (at + US, at + 2 * US, beside))
            kernels.append((at + 300 * US, at + other * US, beside | {"device_id": 1}))
        at += (max(wait[1], 320) + away) * US
    return draw(kernels=kernels, api_calls=calls)


def test_a_call_that_waits_for_nothing_is_slow_by_itself():
    """It begins 10 µs after the device has drained, and lasts for 60."""
    by_cause = rows(returning(0, wait=(320, 380)))

    assert "synchronising_call" not in by_cause
    assert by_cause["host_late"]["where"] == WAIT
    assert f"launches late, 75.0 % of it in {WAIT}" in by_cause["host_late"]["finding"]


def test_a_call_that_waits_for_another_device_has_waited():
    row = rows(returning(0, wait=(320, 380), other=375))["synchronising_call"]

    assert (row["device_id"], row["where"]) == (0, WAIT)
    # 60 µs in it, and 10 µs of the launch after it.
    assert row["cost_ns"] == 70 * US


def reading(size=4, load=None):
    """Steps of 200 µs: the host waits for 100 µs of work and a copy, and then works for 90."""
    kernels, copies, calls, spans = [], [], [], []
    for step in range(20):
        at = step * 200 * US
        row, of_copy = {"correlation_id": 2 * step}, {"correlation_id": 2 * step + 1}
        calls += [
            (at, at + 5 * US, row),
            (at + 5 * US, at + 9 * US, of_copy | {"name": "cudaMemcpyAsync"}),
            (at + 9 * US, at + 110 * US, {"name": "cudaStreamSynchronize"}),
        ]
        kernels.append((at + 8 * US, at + 105 * US, row))
        copies.append((at + 105 * US, at + 106 * US, FLAG | of_copy | {"bytes": size}))
        spans.append((at, at + 200 * US - 1, {"text": f"step {step}"}))
        if load:
            spans.append((at + 111 * US, at + 199 * US, {"text": load}))
    return draw(kernels=kernels, memcpys=copies, api_calls=calls, nvtx_ranges=spans)


@pytest.mark.parametrize(
    ("profile", "is_of_reading"),
    [
        pytest.param(reading(), True, id="a-number"),
        pytest.param(reading(65), False, id="more-than-a-number"),
        pytest.param(reading(load="load_batch"), False, id="a-loader"),
    ],
)
def test_a_host_that_reads_a_number_before_it_is_late_need_not_wait(profile, is_of_reading):
    row = rows(profile)["host_late"]

    assert (", after it waited to read 4 B back in each step: " in row["finding"]) is is_of_reading
    assert row["suggestion"].startswith("read it every n-th step") is is_of_reading


def test_what_reading_a_number_back_costs_is_replayed():
    """Kernels of 3 µs, and the copies, follow each other where the host waits for none."""
    row = rows(looping(wait=(3, 10), call="cudaMemcpy", copy=FLAG))["synchronising_call"]

    assert row["change"] == r"drop=^(DtoH)\b"
    assert 0 < row["predicted_win_ns"] <= row["win_ns"]
    assert rows(looping())["synchronising_call"]["change"] is None
