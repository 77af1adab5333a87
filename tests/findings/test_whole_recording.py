"""What a recording lacks, is of, or pays once."""

import itertools
from dataclasses import replace

import pytest
from drawing import draw
from drawn_steps import US, launched
from measured import scope_of

from gpuprof.facts.launches import EVENTS_LOST
from gpuprof.facts.phases import phases
from gpuprof.facts.timeline import timeline_of, timelines
from gpuprof.findings.findings import findings
from gpuprof.findings.scope import scopes
from gpuprof.findings.set_up import set_up_of
from gpuprof.findings.whole_recording import of_recording
from gpuprof.model.derived import UNKNOWN

MS = 1_000_000
PHILOX = "void tensorflow::functor::FillPhiloxRandomKernelLaunch<UniformDistribution>(int)"
EIGEN = "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<float>>(float, long)"


def found(profile, cause, some_scopes=None):
    every = of_recording(profile, scopes(profile) if some_scopes is None else some_scopes)
    return [one.with_details() for one in every if one.cause == cause]


def steps(number, devices=(0,), begin=0, length=10 * MS, **columns):
    """Steps that ranges mark, of three kernels each, with an idle tenth of each step at its end."""
    numbers = itertools.count(1 + begin)
    kernels, calls, ranges = [], [], []
    for at in range(begin, begin + number * length, length):
        ranges.append((at, at + length // 10, {"text": f"step {at // length}"}))
        for device, part in itertools.product(devices, range(3)):
            call = {"correlation_id": next(numbers)}
            start = at + length // 100 + part * 3 * length // 10
            kernels.append(
                (start, start + 3 * length // 10, {"device_id": device} | call | columns)
            )
            calls.append((at + part * US, at + part * US + US, call))
    return {"kernels": kernels, "api_calls": calls, "nvtx_ranges": ranges}


def test_launches_after_the_last_that_was_recorded_are_lost():
    tables = steps(20)
    ranges = [*tables["nvtx_ranges"], (0, 1, {"text": "load"})]
    profile = draw(**tables | {"kernels": tables["kernels"][:15], "nvtx_ranges": ranges})

    [one] = found(profile, "truncated")

    assert (one.cost_ns, one.win_ns) == (0, 0)
    assert one.phrase.endswith("after 5 of 20 steps: of 45 of 60 launches")


def test_lost_launches_of_several_devices_are_not_said_of_one():
    tables = steps(20, devices=(0, 1))
    profile = draw(**tables | {"kernels": tables["kernels"][:30]})

    [one] = found(profile, "truncated")

    assert one.phrase.endswith(": of 90 of 120 launches of all devices")


def test_a_recording_that_ends_with_its_program_lacks_nothing():
    tables = steps(20)
    waits = [
        (200 * MS + at, 200 * MS + at + 1, {"name": "cudaStreamSynchronize"}) for at in range(60)
    ]

    assert found(draw(**tables), "truncated") == []
    assert found(draw(**tables | {"api_calls": [*tables["api_calls"], *waits]}), "truncated") == []


@pytest.mark.parametrize(("lost", "is_said"), [(9, False), (10, True), (11, True)])
def test_a_few_launches_may_be_lost(lost, is_said):
    tables = steps(20)
    profile = draw(**tables | {"kernels": tables["kernels"][:-lost]})

    assert bool(found(profile, "truncated")) is is_said


def of_two_threads(number, lost):
    """Steps of 40 launches by each of two threads, those of the second in the first half only.

    The numbers of its calls are missing where these are lost; else the thread has ended.
    """
    kernels, calls, ranges, call = [], [], [], 0
    for step in range(number):
        at = step * 10 * MS
        ranges.append((at, at + 9 * MS, {"text": f"step {step}"}))
        for part, thread in itertools.product(range(40), (1, 2)):
            is_there = thread == 1 or step < number // 2
            call += is_there or lost
            if is_there:
                start, id_ = at + (2 * part + thread) * 50 * US, {"correlation_id": call}
                calls.append((start, start + US, id_ | {"thread_id": thread}))
                kernels.append((start + 10 * US, start + 50 * US, id_))
    profile = draw(kernels=kernels, api_calls=calls, nvtx_ranges=ranges)
    warning = f'nsys reported: "{EVENTS_LOST}."'
    return profile, replace(profile, origin=replace(profile.origin, warnings=(warning,)))


def test_steps_without_the_launches_of_a_thread_whose_calls_are_lost_are_no_samples():
    silent, warned = of_two_threads(20, lost=True)

    [one] = found(warned, "truncated")
    [phase] = phases(warned)

    assert "what thread 2 launched after 0.094 s" in one.phrase
    assert len(phase.start_ns) == 9
    assert phase.end_ns.max() <= 94 * MS
    assert found(silent, "truncated") == []
    assert sum(len(phase.start_ns) for phase in phases(silent)) == 19


def test_a_thread_that_ends_loses_nothing():
    _, warned = of_two_threads(20, lost=False)

    assert found(warned, "truncated") == []
    assert sum(len(phase.start_ns) for phase in phases(warned)) == 19


def test_initial_values_are_no_training():
    kernels = [(0, 20, {"name": PHILOX}), (20, 90, {"name": EIGEN})]
    devices = [{"device_id": number} for number in range(4)]
    profile = draw(kernels=kernels, devices=devices)

    [one] = found(profile, "no_training")

    assert "3 of 4 devices ran no kernel" in one.phrase
    assert "initial values" in one.phrase


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([(0, 80, {"name": PHILOX}), (80, 90)], id="a-product-too"),
        pytest.param([(0, 80, {"name": EIGEN})], id="none-that-fills"),
        pytest.param([(0, 5, {"name": PHILOX}), (20, 90, {"name": EIGEN})], id="a-few"),
    ],
)
def test_what_may_be_training_is_not_called_otherwise(kernels):
    assert found(draw(kernels=kernels), "no_training") == []


def test_devices_that_compute_for_longer_are_named_with_what_equal_work_wins():
    kernels = [
        (begin, begin + length, {"device_id": device})
        for begin in range(0, 300, 100)
        for device, length in ((0, 90), (1, 60))
    ]
    profile = draw(kernels=kernels)
    both = [scope_of(profile, [(0, 100), (100, 200), (200, 300)], device) for device in (0, 1)]

    [one] = found(profile, "unbalanced_devices", both)

    assert one.scope.device.device_id == 0
    assert (one.cost_ns, one.win_ns, one.where) == (30, 15, "device 1")
    assert found(profile, "unbalanced_devices", both[:1]) == []


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([(0, 100), (100, 200), (200, 300)], id="8-percent-less"),
        pytest.param([(300, 400), (400, 500), (500, 600)], id="at-another-time"),
        pytest.param([(0, 150), (150, 300)], id="in-other-steps"),
        pytest.param([], id="no-steps"),
    ],
)
def test_devices_are_compared_in_the_same_steps_alone(others):
    kernels = [
        (begin, begin + length, {"device_id": device})
        for begin in range(0, 600, 100)
        for device, length in ((0, 90), (1, 83 if others and others[0][0] == 0 else 60))
    ]
    profile = draw(kernels=kernels)
    first = scope_of(profile, [(0, 100), (100, 200), (200, 300)])

    assert found(profile, "unbalanced_devices", [first, scope_of(profile, others, 1)]) == []


@pytest.mark.parametrize("some_steps", [[], [(200, 250), (250, 300)]], ids=["none", "idle-ones"])
def test_devices_are_not_compared_without_steps_in_which_they_compute(some_steps):
    kernels = [(0, 180), (0, 100, {"device_id": 1}), (320, 330), (320, 330, {"device_id": 1})]
    profile = draw(kernels=kernels)
    both = [scope_of(profile, some_steps, device) for device in (0, 1)]

    assert found(profile, "unbalanced_devices", both) == []


def test_what_is_before_and_between_phases_is_set_up():
    first = steps(10, begin=100 * MS)
    second = steps(10, begin=400 * MS, length=20 * MS, name="other")
    copy = {"correlation_id": 1}
    tables = {table: [*first[table], *second[table]] for table in first}
    calls = [(-US, 0, copy | {"name": "cudaMemcpy"}), (MS, 91 * MS, {"name": "cudaHostRegister"})]
    profile = draw(
        **tables | {"api_calls": [*tables["api_calls"], *calls]}, memcpys=[(0, MS, copy)]
    )

    [one] = found(profile, "setup")

    device = timeline_of(profile, 0)
    set_up = set_up_of(profile, device)
    assert all(end - start > 50 * MS for start, end in zip(set_up.start, set_up.end, strict=True))
    assert len(set_up) == 2
    assert one.cost_ns == one.win_ns == set_up.length
    assert not one.scope.has_steps


def test_set_up_is_computed_once_for_all_who_ask():
    profile = draw(kernels=[(0, 2), (90, 100), (95, 99, {"device_id": None})])
    devices = timelines(profile)

    assert [device.number for device in devices] == [0, UNKNOWN]
    for device in devices:
        assert set_up_of(profile, device) is set_up_of(profile, device)


@pytest.mark.parametrize(
    ("pauses", "set_up"),
    [
        pytest.param([80, 5, 5, 5], [80], id="one-pause-at-the-start"),
        pytest.param([5, 5, 5, 80], [], id="one-at-the-end"),
        pytest.param([80, 5, 30, 5], [], id="another-long-one"),
        pytest.param([5, 4, 4, 4], [], id="none-that-is-long"),
        pytest.param([8, 1, 1, 1], [], id="one-of-a-seventh"),
    ],
)
def test_without_phases_the_pause_that_a_program_starts_with_is_set_up(pauses, set_up):
    at, kernels = 0, [(0, 2, {"name": "start"})]
    for number, pause in enumerate(pauses):
        at = kernels[-1][1] + pause
        kernels.append((at, at + 10, {"name": f"kernel {number}"}))
    profile = draw(kernels=kernels)

    found_set_up = set_up_of(profile, timeline_of(profile, 0))

    assert (found_set_up.end - found_set_up.start).tolist() == set_up


@pytest.mark.parametrize(
    ("launch", "is_set_up"), [(-300, False), (20, False), (21, True), (9_000, True)]
)
def test_without_phases_a_pause_whose_next_work_was_launched_before_is_a_wait(launch, is_set_up):
    """It is the first and by far the longest one."""
    later = ((at - 20, at, at + 100) for at in range(10_150, 10_750, 150))
    profile = launched((-10, 0, 20), (launch, 10_000, 10_100), *later, name="kernel {}")

    assert set_up_of(profile, timeline_of(profile, 0)).length == is_set_up * 9_980 * US
    of_device = {row["cause"]: row for row in findings(profile).to_pylist()}
    assert ("setup" in of_device) == is_set_up
    if not is_set_up:
        assert of_device["waits_for_stream"]["cost_ns"] == 9_980 * US


@pytest.mark.parametrize("launch", [-US, 2 * MS])
def test_outside_of_phases_a_pause_whose_next_work_was_launched_before_is_a_wait(launch):
    tables, copy = steps(10, begin=100 * MS), {"correlation_id": 1}
    begun = [(launch, launch + US, tables["api_calls"][0][2]), *tables["api_calls"][1:]]
    calls = [(-US, 0, copy | {"name": "cudaMemcpyAsync"}), *begun]
    profile = draw(**tables | {"api_calls": calls}, memcpys=[(0, MS, copy)])

    cost_ns = {one.cause: one.cost_ns for one in of_recording(profile, scopes(profile))}
    causes = {launch < MS: "waits_outside_steps", launch > MS: "setup"}
    assert {cause: cost_ns.get(cause) for cause in ("setup", "waits_outside_steps")} == {
        "setup": None, "waits_outside_steps": None, causes[True]: 99_100_000,
    }  # fmt: skip


def test_without_phases_calls_that_are_made_once_are_set_up():
    profile = launched(
        *((-5, 0, 100), (290, 300, 400), (590, 600, 700)),
        name="kernel {}",
        calls=[
            (110 * US, 270 * US, {"name": "cudaMalloc"}),
            (410 * US, 570 * US, {"name": "cudaStreamSynchronize"}),
        ],
    )

    [one] = found(profile, "setup")

    assert (one.cost_ns, one.where, one.table) == (200 * US, "cudaMalloc", "pauses")
    assert "80.0 % of it in cudaMalloc" in one.phrase


@pytest.mark.parametrize(
    ("name", "is_set_up"),
    [("cuModuleLoadData", True), ("cuLibraryLoadData", True), ("cudaMalloc", False)],
)
def test_without_phases_code_that_is_loaded_takes_what_the_host_does_to_compile_it(name, is_set_up):
    """The call takes 20 of 200 µs."""
    loads = (550 * US, 570 * US, {"name": name})
    profile = launched((-5, 0, 400), (590, 600, 1_000), name="kernel {}", calls=[loads])

    assert set_up_of(profile, timeline_of(profile, 0)).length == is_set_up * 200 * US


def test_without_phases_a_launch_that_takes_a_millisecond_loads_code():
    first, second, third = ({"correlation_id": number} for number in range(3))
    kernels = [(0, 8 * MS, first), (10 * MS, 18 * MS, second), (19 * MS, 20 * MS, third)]
    calls = [(-US, 0, first), (8 * MS + US, 10 * MS, second), (18 * MS + 100 * US, 19 * MS, third)]
    profile = draw(kernels=kernels, api_calls=calls)

    [one] = found(profile, "setup")

    assert one.cost_ns == 2 * MS
    assert one.where == "cudaLaunchKernel, which loads code"


def test_without_phases_pauses_longer_than_all_work_are_set_up():
    """Kernels of 30 µs in all, of which a pause of 40 is no part, but one of 20 may be."""
    works = [(at - 1, at, at + length) for at, length in ((0, 10), (50, 10), (100, 5), (120, 5))]
    with_calls = launched(*works, name="kernel {}")
    without = draw(kernels=with_calls.table("kernels").to_pylist())

    for profile, expected in ((with_calls, [40, 40]), (without, [])):
        set_up = set_up_of(profile, timeline_of(profile, 0))
        assert ((set_up.end - set_up.start) // US).tolist() == expected


def test_copies_that_no_step_pays_are_told_with_their_bytes_and_memory():
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pageable"}
    back = {"memcpy_kind": "DtoH", "src_device_id": 0, "dst_memory_kind": "pageable"}
    inside = copy | {"src_memory_kind": "pinned", "bytes": 8}
    copies = [
        (0, 40 * MS, copy | {"bytes": 200_000_000}),
        (189_200 * US, 189_800 * US, inside),
        (300 * MS, 310 * MS, back | {"bytes": 10_000_000}),
    ]
    profile = draw(**steps(10, begin=100 * MS), memcpys=copies)

    [one] = found(profile, "copies_outside_steps")

    assert (one.cost_ns, one.where) == (50 * MS, "host to device 0")
    assert "(210 MB, most host to device 0 at " in one.phrase
    assert one.phrase.endswith("from pageable memory)")
    assert one.suggestion.startswith("pin the host's memory")


def test_without_steps_no_copy_is_outside_of_them():
    profile = draw(kernels=[(50, 100)], memcpys=[(0, 40, {"dst_device_id": 0})])

    assert found(profile, "copies_outside_steps") == []


COPY = (0, 10, {"dst_device_id": 0, "bytes": 8})


@pytest.mark.parametrize(
    ("tables", "phrase"),
    [
        (
            {"memcpys": [COPY, *[(0, 4, {"dst_device_id": 0, "bytes": 6})] * 2]},
            "3 copies only; most host to device 0, 7 B each at 1.11 GB/s",
        ),
        ({"memcpys": [COPY, (0, 4, {"dst_device_id": 0})]}, "2 copies only"),
        ({"memcpys": [COPY], "memsets": [(20, 30)]}, "1 copy and 1 memset only"),
    ],
)
def test_a_recording_without_kernels_says_so(tables, phrase):
    [one] = found(draw(**tables), "no_kernels")

    assert one.phrase == f"ran no kernel: the recording has {phrase}"
    assert one.suggestion.startswith("see whether the program came to its kernels")


def test_launches_without_kernels_say_that_their_records_are_lost():
    calls = [(0, 1), (2, 3), (4, 5, {"name": "cudaMemcpy"}), (6, 7, {"name": "cuLaunchHostFunc"})]

    [one] = found(draw(memcpys=[COPY], api_calls=calls), "no_kernels")

    assert one.phrase == "has no records of kernels: the recording has 1 copy only"
    assert one.suggestion.startswith("record again: 2 launches of kernels left no record")


def test_kernels_may_have_run_where_the_profiler_warns():
    profile = draw(memcpys=[COPY])
    warned = replace(profile, origin=replace(profile.origin, warnings=("2 records were lost.",)))

    [one] = found(warned, "no_kernels")

    assert one.phrase == "has no records of kernels: the recording has 1 copy only"


@pytest.mark.parametrize("tables", [{"kernels": [(0, 10)]}, {"graph_launches": [(0, 10)]}, {}])
def test_where_kernels_or_nothing_ran_none_is_missed(tables):
    assert found(draw(**tables), "no_kernels") == []


@pytest.mark.parametrize(
    ("pauses_ms", "set_up_ms"),
    [
        pytest.param((50, 60, 1), 110, id="two-alike"),
        pytest.param((50, 60, 55), 0, id="three-alike"),
        pytest.param((50, 60, 55, 200), 200, id="three-alike-and-another"),
        pytest.param((50, 100, 200), 350, id="none-alike"),
    ],
)
def test_without_phases_long_pauses_that_recur_are_no_set_up(pauses_ms, set_up_ms):
    """A program that sleeps between requests, each of which takes 2 ms."""
    works = [(-1, 0, 2_000)]
    for pause_ms in pauses_ms:
        at = works[-1][2] + 1_000 * pause_ms
        works.append((at - 10, at, at + 2_000))
    profile = launched(*works, name="request {}")

    assert set_up_of(profile, timeline_of(profile, 0)).length == set_up_ms * MS
