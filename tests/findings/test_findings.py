"""Which cause comes first, where it lies, what it costs a step, and what mending it can win."""

import itertools

import numpy as np
import pytest
from collective_jobs import REDUCE, Job
from drawing import draw, stepped
from drawn_steps import DTOH, HTOD, PEER, US, kernel, steps
from drawn_steps import REDUCE as NCCL
from ranks.joint import job_report, of_rank

from gpuprof.analyses.breakdown import breakdown
from gpuprof.facts.activity_sums import activity_sums
from gpuprof.facts.timeline import timelines
from gpuprof.findings.findings import findings
from gpuprof.findings.scope import Scope, scopes
from gpuprof.model import profile
from gpuprof.model.intervals import union
from gpuprof.model.table import Selection

HALF = {"path": "staged", "src_device_id": 0, "dst_device_id": 1, "correlation_id": 900}


def rows(profile):
    return findings(profile).to_pylist()


def causes(profile):
    return [row["cause"] for row in rows(profile)]


BUSY = (0, 2, 52, kernel())


def halves(**columns):
    """Copies from device 0 to device 1 through the host, each in two halves."""
    return [
        (0, 10, HALF | columns | {"memcpy_kind": "DtoH"}),
        (10, 30, HALF | columns | {"memcpy_kind": "HtoD", "device_id": 1}),
    ]


def in_host(begin_us, end_us, **call):
    """A call of the host in each step of 100 µs."""
    return lambda n: [
        (1_000_000 + (n * 100 + begin_us) * US, 1_000_000 + (n * 100 + end_us) * US, call)
    ]


FIRST, LATE = (0, 2, 30, kernel()), (60, 62, 95, kernel(name="late"))
IN_TIME = (1, 62, 95, kernel(name="waits"))
DIRECTLY = {"path": "staged", "src_device_id": 0, "dst_device_id": 1, "bytes": 6}
MESSAGE = {"name": "MPI_Sendrecv", "library": "mpi", "process_id": 100, "thread_id": 1}


# What these causes take the place of.
ABSENT = {"staged_copies": "waits_for_device", "pageable_memory": "exposed_host_copies"}
COSTS = {
    "both-ends-of-a-peer-copy": (
        draw(kernels=[(0, 50), (95, 100)], memcpys=[(50, 80, PEER | {"bytes": 10})]),
        ("exposed_peer_copies", "device 0 to device 1", 0, 30),
        (
            "device 0 waits for copies between devices (device 0 to device 1, one copy): 30 ns"
            " (30.0 %)"
        ),
    ),
    "halves-by-way-of-the-host": (
        draw(memcpys=halves(bytes=6)),
        ("staged_copies", "device 0 to device 1", 1, 20),
        "turn on peer access",
    ),
    # Device 0 sends its half, and goes on when device 1 has written the other.
    "halves-with-the-pauses-beside-them": (
        steps(
            *(6, 100, FIRST),
            (0, 30, 40, DIRECTLY | {"memcpy_kind": "DtoH"}),
            (0, 41, 60, DIRECTLY | {"memcpy_kind": "HtoD", "device_id": 1}),
            (1, 61, 95, kernel(name="waits")),
        ),
        ("staged_copies", "device 0 to device 1", 0, 31 * US),
        "with pauses of",
    ),
    # Each step is launched 30 µs after the last one ended.
    "host-that-launches-late": (
        steps(6, 100, FIRST, LATE),
        ("host_late", None, 0, 32 * US),
        "launches late",
    ),
    # The 10 µs after the call count, too: without it the host would have been ahead.
    "host-that-waits": (
        steps(6, 100, FIRST, LATE, api_calls=in_host(5, 50, name="cudaStreamSynchronize")),
        ("synchronising_call", "cudaStreamSynchronize", 0, 32 * US),
        "waited in cudaStreamSynchronize",
    ),
    "mpi-is-no-lateness": (
        steps(6, 100, FIRST, LATE, host_calls=in_host(5, 58, **MESSAGE)),
        ("mpi", "MPI_Sendrecv", 0, 28 * US),
        "in MPI_Sendrecv",
    ),
    "launched-in-time": (
        steps(6, 100, FIRST, IN_TIME),
        ("waits_for_stream", None, 0, 32 * US),
        "although its next work is launched",
    ),
    "begins-as-another-device-ends": (
        steps(6, 100, FIRST, (0, 2, 61, kernel(device_id=1)), IN_TIME),
        ("waits_for_device", "device 1", 0, 32 * US),
        "of it for device 1",
    ),
    # They compute for 61 and 59 µs of a step.
    "no-equal-work-for-devices-that-compute-for-equal-times": (
        steps(6, 100, FIRST, (0, 2, 61, kernel(device_id=1)), IN_TIME),
        ("waits_for_device", "device 1", 0, 32 * US),
        "start the copies between them earlier",
    ),
    # 51 and 59 µs.
    "equal-work-for-devices-that-compute-for-unequal-times": (
        steps(6, 100, (0, 2, 20, kernel()), (0, 2, 61, kernel(device_id=1)), IN_TIME),
        ("waits_for_device", "device 1", 0, 42 * US),
        "give the devices equal work",
    ),
    "pageable-memory": (
        steps(
            *(6, 100, BUSY),
            (1, 52, 72, HTOD | {"src_memory_kind": "pageable"}),
            (1, 72, 99, kernel(name="end")),
        ),
        ("pageable_memory", "host to device 0", 0, 20 * US),
        "waits for asynchronous HtoD copies of pageable memory",
    ),
    "pageable-memory-of-both-directions": (
        steps(
            *(6, 100, BUSY),
            (1, 52, 72, HTOD | {"src_memory_kind": "pageable"}),
            (1, 72, 82, DTOH | {"dst_memory_kind": "pageable"}),
            (1, 82, 99, kernel(name="end")),
        ),
        ("pageable_memory", "host to device 0", 0, 30 * US),
        "waits for asynchronous HtoD and DtoH copies of pageable memory",
    ),
    "pageable-memory-of-most-copies": (
        steps(
            *(6, 100, BUSY),
            (1, 52, 72, HTOD | {"src_memory_kind": "pageable"}),
            (1, 72, 82, DTOH | {"dst_memory_kind": "pinned"}),
            (1, 82, 99, kernel(name="end")),
        ),
        ("pageable_memory", "host to device 0", 0, 30 * US),
        (
            "waits for copies from and to the host, most of them asynchronous HtoD copies of"
            " pageable memory"
        ),
    ),
    "without-api-calls": (
        draw(kernels=[(0, 500 * US), (600 * US, 1000 * US)]),
        ("idle", None, 0, 100 * US),
        (
            "no calls of the host were recorded to tell why: 100 µs (10.0 %); record these calls,"
            " too (nsys profile --trace=cuda"
        ),
    ),
}


@pytest.mark.parametrize(("profile", "cost", "words"), COSTS.values(), ids=COSTS)
def test_what_costs_a_device_time_has_its_cause_place_and_words(profile, cost, words):
    cause, where, device, cost_ns = cost
    of_all = rows(profile)
    row = next(row for row in of_all if row["cause"] == cause)

    assert row["rank"] == 1 or len({other["device_id"] for other in of_all}) > 1
    assert (row["device_id"], row["where"]) == (device, where)
    assert row["cost_ns"] == pytest.approx(cost_ns, rel=0.05)
    assert words in f"{row['finding']}; {row['suggestion']}"
    assert ABSENT.get(cause) not in causes(profile)


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ([], None),
        ([(0, None, "PCIe 3 x16")], "no link between devices was found"),
        ([(0, 1, "NVLink 2 x2")], "NVLink 2 x2 joins the two, so that peer access is only off"),
        ([(2, 0, "NVLink 2 x1")], "but NVLink 2 x1 joins device 2 and device 0"),
    ],
)
def test_why_copies_go_by_way_of_the_host_is_said_where_links_are_listed(links, reason):
    names = ("device_id", "peer_device_id", "link")
    profile = draw(
        memcpys=halves(bytes=6),
        **({"links": [dict(zip(names, link, strict=True)) for link in links]} if links else {}),
    )

    suggestion = rows(profile)[0]["suggestion"]
    assert suggestion.endswith(reason or "(nvidia-smi topo -p2p r)") or reason in suggestion


def test_a_host_that_is_late_for_small_kernels_is_said_once():
    """Sixty kernels of 2 µs, each launched 3 µs before it starts, 12 µs after the last one."""
    small = [(n * 14 + 9, n * 14 + 12, n * 14 + 14, kernel(name=f"k{n % 3}")) for n in range(60)]
    profile = steps(6, 850, *small)

    first = rows(profile)[0]
    assert first["cause"] == "small_kernels"
    assert first["cost_share"] == pytest.approx(0.85, rel=0.05)
    assert "host_late" not in causes(profile)


def test_set_up_is_no_part_of_what_the_rest_pays_and_comes_last():
    kernels = [(0, 10), (1_000, 1_400), (1_500, 2_000)]
    profile = draw(kernels=[(start * US, end * US) for start, end in kernels])

    costs = [(row["cause"], row["cost_ns"]) for row in rows(profile)]
    assert costs == [("idle", 100 * US), ("setup", 990 * US)]


def test_a_device_that_waits_for_input_does_not_set_up():
    """The host waits for a batch in the pause that a recording without its calls starts with."""
    kernels = [(0, 10), (1_000, 1_400), (1_500, 2_000)]
    waits = {"text": "IteratorGetNext", "range_kind": "operation", "domain": ""}
    profile = draw(
        kernels=[(start * US, end * US) for start, end in kernels],
        nvtx_ranges=[(5 * US, 900 * US, waits), (1_440 * US, 1_600 * US, waits | {"text": "Pad"})],
    )

    [row] = rows(profile)
    assert (row["cause"], row["cost_ns"]) == ("idle", 1_090 * US)
    assert (
        "990 µs of it at once, while the host runs IteratorGetNext (81.7 % of it)"
        in (row["finding"])
    )
    assert row["suggestion"].startswith("load and prepare input ahead")


def test_a_device_that_computes_less_wins_nothing_for_the_step():
    """Device 1 computes 10 µs and waits 20 µs for a copy; device 0 computes all the time."""
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 1, "device_id": 1, "bytes": 8}
    profile = steps(
        6,
        100,
        (0, 2, 99, kernel()),
        (0, 2, 12, kernel(device_id=1)),
        (1, 12, 32, copy | {"src_memory_kind": "pinned"}),
        (1, 32, 33, kernel(name="end", device_id=1)),
    )

    [row] = [row for row in rows(profile) if row["cause"] == "exposed_host_copies"]
    assert (row["device_id"], row["cost_ns"], row["win_ns"]) == (1, 20 * US, 0)


def test_a_busy_device_has_no_findings():
    assert rows(draw(kernels=[(0, 1000)], memcpys=[(995, 1003)])) == []


def test_few_steps_are_said_to_be_few():
    profile = steps(3, 100, BUSY, (1, 52, 72, HTOD), (1, 72, 99, kernel(name="end")))

    assert "2 steps only" in rows(profile)[0]["finding"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"src_memory_kind": "pageable"}, " at 40.0 GB/s from pageable memory"),
        ({"src_memory_kind": "pinned"}, " at 40.0 GB/s"),
        ({"bytes": 8, "src_memory_kind": "pageable"}, ""),
        ({"bytes": None, "src_memory_kind": "pageable"}, ""),
    ],
)
def test_large_copies_are_told_with_their_speed_and_memory(columns, words):
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": 20_000_000} | columns
    profile = draw(kernels=[(0, 500 * US)], memcpys=[(500 * US, 1000 * US, copy)])

    row = rows(profile)[0]

    assert row["cause"] == "exposed_host_copies"
    assert f"(host to device 0{words}, one copy): 500 µs" in row["finding"]
    assert row["suggestion"].startswith("pin the") == ("from pageable" in words)


def test_copies_back_are_told_with_the_memory_that_they_are_into():
    copy = {"memcpy_kind": "DtoH", "src_device_id": 0, "dst_memory_kind": "pageable"}
    copies = [(at * US, (at + 100) * US, copy | {"bytes": 5_000_000}) for at in (600, 800)]
    profile = draw(kernels=[(0, 500 * US)], memcpys=copies)

    assert "(device 0 to host at 50.0 GB/s into pageable memory)" in rows(profile)[0]["finding"]


def test_from_a_single_copy_nothing_follows():
    assert causes(draw(memsets=[(0, 1000)])) == ["no_kernels"]


@pytest.mark.parametrize(("pause_us", "first"), [(300, "no_kernels"), (200, "exposed_host_copies")])
def test_without_kernels_pauses_tell_nothing_and_copies_of_half_of_the_time_do(pause_us, first):
    second = (100 + pause_us) * US
    copies = [(0, 100 * US, HTOD), (second, second + 100 * US, HTOD)]

    assert causes(draw(memcpys=copies))[0] == first


@pytest.mark.parametrize(("pause_us", "first"), [(600, "setup"), (300, "exposed_host_copies")])
def test_without_steps_most_of_the_time_comes_first_though_it_is_set_up(pause_us, first):
    """A copy of 200 µs, and a pause in a call that is made once."""
    launch, total = {"correlation_id": 1}, 400 + pause_us
    profile = draw(
        kernels=[(0, 200 * US), ((total - 1) * US, total * US, launch)],
        memcpys=[(200 * US, 399 * US, HTOD)],
        api_calls=[
            (400 * US, (400 + pause_us - 5) * US, {"name": "cudaMalloc"}),
            ((400 + pause_us - 4) * US, (400 + pause_us - 3) * US, launch),
        ],
    )

    assert causes(profile)[0] == first
    [row] = [row for row in rows(profile) if row["cause"] == "setup"]
    assert row["suggestion"].startswith("record more than the start") == (first == "setup")


def test_a_cause_in_two_phases_is_one_finding_that_names_them():
    """Long steps wait 30 µs for a copy, and short ones 10 µs; device 1 waits less."""
    tables = {"kernels": [], "memcpys": []}
    for first_us, step_us, kernel_us, copy_us in ((0, 200, 40, 30), (20_000, 100, 25, 10)):
        for number in range(40):
            at = (first_us + number * step_us) * US
            for device, shorter_us in ((0, 0), (1, 2)):
                on = {"device_id": device}
                for place, name in enumerate(("relax", "norm", "norm")):
                    start = at + kernel_us * place * US
                    end = start + (kernel_us - 1) * US
                    tables["kernels"].append((start, end, on | {"name": name}))
                end = at + (3 * kernel_us + copy_us - shorter_us) * US
                tables["memcpys"].append((at + 3 * kernel_us * US, end, on | {"bytes": 8}))
    alone = [
        draw(
            **{
                name: [row for row in of_table if row[2].get("device_id", number) == number]
                for name, of_table in tables.items()
            }
        )
        for number in range(2)
    ]

    of_joint = [r for r in rows(draw(**tables)) if r["cause"] == "exposed_host_copies"]
    of_job = [
        row
        for row in job_report([*map(of_rank, alone, range(2))], ["findings"]).rows("findings")
        if row["cause"] == "exposed_host_copies"
    ]

    (row,) = of_joint
    assert (row["phase"], row["cost_ns"]) == ("relax (1)", 30 * US)
    assert '30.0 µs of a step of "relax (1)" (15.0 %); device 1 14.0 %' in row["finding"]
    assert row["finding"].endswith('; device 0 10.0 µs of a step of "relax (2)" (10.0 %)')
    assert len(of_job) == 1
    for phase in ("relax (1)", "relax (2)"):
        assert f'of a step of "{phase}"' in of_job[0]["finding"]


def test_the_rank_that_comes_last_is_named_with_what_kept_it():
    profile = Job(4, 20, seed=7, names=(REDUCE,), late="kernels").drawn()

    row = next(row for row in rows(profile) if row["cause"] == "collective_waiting")
    assert row["where"] == "device 2"
    assert row["device_id"] != 2
    assert "came last to" in row["suggestion"]
    assert "kernels:" in row["suggestion"]


def test_ranks_that_come_last_by_turns_are_to_arrive_together_however_their_clocks_are_apart():
    profile = Job(2, 20, seed=9).drawn(late_ns={1: 5_000 * US}.items())

    row = next(row for row in rows(profile) if row["cause"] == "collective_waiting")
    assert row["suggestion"].startswith("make the ranks arrive together")


def test_collectives_on_the_stream_of_compute_cannot_be_hidden():
    events = (0, 2, 60, kernel()), (1, 60, 80, NCCL), (1, 80, 99, kernel(name="end"))
    apart = (0, 2, 60, kernel()), (1, 60, 80, NCCL | {"stream_id": 20}), events[2]

    assert "same_stream" in causes(steps(8, 100, *events))
    assert "collective_transfer" in causes(steps(8, 100, *apart))


def test_many_small_collectives_are_to_be_joined():
    small = [(1, 10 + n, 11 + n, NCCL | {"stream_id": 20}) for n in range(60)]
    profile = steps(8, 100, (0, 2, 8, kernel()), *small, (1, 72, 99, kernel(name="end")))

    row = next(row for row in rows(profile) if row["cause"] == "collective_transfer")
    assert "60 calls a step, 1.00 µs each" in row["finding"]
    assert row["suggestion"].startswith("join small collectives")


def test_first_calls_that_set_up_connections_are_set_up():
    """The first AllReduce takes 20 ms, the others 20 µs."""
    calls = [
        (0, 20_000 * US),
        *((20_000 * US + n * 100 * US, 20_000 * US + (n * 100 + 20) * US) for n in range(1, 40)),
    ]
    compute = [(end, start) for (_, end), (start, _) in itertools.pairwise(calls)]
    profile = draw(
        kernels=[
            *((start, end, NCCL | {"stream_id": 20}) for start, end in calls),
            *((start, end, kernel()) for start, end in compute),
        ]
    )

    row = next(row for row in rows(profile) if row["cause"] == "setup")
    assert "20.0 ms in first collectives" in row["finding"]


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([10] * 39 + [100], 10),  # one outlier tells nothing of the others
        ([0] * 39 + [100], 0),
        ([0, 0, 40] * 14, 11),  # every third step: the mean without the longest twentieth
        ([7], 7),
    ],
)
def test_a_step_pays_the_median_or_what_steps_pay_on_average(costs, expected):
    profile = draw(kernels=[(0, 100 * len(costs))])
    start = np.arange(len(costs)) * 100
    scope = Scope(profile, timelines(profile)[0], "step #", start, start + 100, len(costs))

    assert scope.per_step(union(start, start + np.array(costs))) == expected


def solver(at, step_ns):
    return [
        (at + step_ns * n + 10 * k, at + step_ns * n + 10 * k + 9, {"name": name})
        for n in range(30)
        for k, name in enumerate(("relax", "norm", "norm"))
    ]


def test_a_device_whose_phases_hold_its_work_is_not_looked_at_as_a_whole():
    kernels, more = solver(0, 100), (10_000, 60_000, {"name": "other"})

    assert [scope.has_steps for scope in scopes(draw(kernels=kernels))] == [True]
    assert [scope.has_steps for scope in scopes(draw(kernels=[*kernels, more]))] == [True, False]


@pytest.mark.parametrize(("window", "has_steps"), [((100, 400), True), ((120, 180), False)])
def test_a_part_that_holds_no_whole_step_is_looked_at_as_a_whole(window, has_steps):
    part = stepped(*[100] * 6, idle_ns=50).restricted(Selection((window,)))

    assert [scope.has_steps for scope in scopes(part)] == [has_steps]


@pytest.mark.parametrize(
    ("third", "step_ns"),
    [
        # Of every third step; two of thirty, the longest twentieth, are left out.
        pytest.param(500, (20 * 100 + 8 * 500) // 28, id="mean-as-costs"),
        pytest.param(120, 100, id="differ-little"),
    ],
)
def test_steps_that_differ_take_their_mean_as_costs_do(third, step_ns):
    lengths = np.array([100, 100, third] * 10)
    start = np.cumsum(lengths) - lengths
    profile = draw(kernels=[(0, int(lengths.sum()))])
    scope = Scope(profile, timelines(profile)[0], "step #", start, start + lengths, len(start))

    assert (scope.step_ns, scope.median_ns) == (step_ns, 100)


def test_a_large_recording_is_told_of_as_a_small_one_is(monkeypatch):
    def told():
        recording = steps(20, 100, (0, 5, 30, {}), (40, 45, 80, {}), (1, 30, 40, PEER))
        found = findings(recording), activity_sums(recording), breakdown(recording)
        recording.end_second_thread(is_done=True)
        return [rows.to_pylist() for rows in found]

    small = told()
    # Its threads share the work, and kernels are given from arrays.
    monkeypatch.setattr(profile, "_MANY_EVENTS", 1)

    assert told() == small
