"""Which cause comes first, where it lies, what it costs a step, and what mending it can win."""

import pytest
from drawing import draw
from ranks.joint import job_report, of_rank

from gpuprof.findings.causes import CAUSES
from gpuprof.findings.findings import findings

US = 1_000
PEER = {"memcpy_kind": "PtoP", "path": "direct", "src_device_id": 0, "dst_device_id": 1}
HALF = {"path": "staged", "src_device_id": 0, "dst_device_id": 1, "correlation_id": 900}


def rows(profile):
    return findings(profile).to_pylist()


def causes(profile):
    return [row["cause"] for row in rows(profile)]


def steps(count, step_us, *events, **others):
    """A recording of steps, each with the same events at the same times within it.

    Args:
        count: How many steps.
        step_us: Length of a step.
        events: ``(launched, start, end, name or copy)`` in us within the step; what ends in a
            second device's dict runs there.
        others: Further tables.
    """
    tables = {"kernels": [], "memcpys": [], "api_calls": [], "nvtx_ranges": []}
    number = 0
    for step in range(count):
        at = 1_000_000 + step * step_us * US
        marks = (at, at + (step_us - 1) * US, {"text": f"step {step}"})
        tables["nvtx_ranges"].append(marks)
        for launched, start, end, what in events:
            number += 1
            table = "memcpys" if "memcpy_kind" in what else "kernels"
            row = what | {"correlation_id": number}
            tables[table].append((at + start * US, at + end * US, row))
            call = "cudaMemcpyAsync" if table == "memcpys" else "cudaLaunchKernel"
            tables["api_calls"].append(
                (at + launched * US, at + (launched + 1) * US,
                 {"correlation_id": number, "name": call})
            )  # fmt: skip
    for name, more in others.items():
        tables[name] = tables.get(name, []) + [row for n in range(count) for row in more(n)]
    return draw(**tables)


def kernel(**row):
    return {"name": "matmul", "stream_id": 7} | row


BUSY = (0, 2, 52, kernel())
LAST = (1, 90, 99, kernel(name="end"))


def test_costs_are_of_a_step_the_median_over_its_phase():
    """Copies of 20 us in every step but one, in which they take 38."""
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pinned", "bytes": 8}
    [row] = [
        row
        for row in rows(steps(9, 100, BUSY, (1, 52, 72, copy), (1, 72, 99, kernel(name="end"))))
        if row["cause"] == "exposed_host_copies"
    ]

    assert (row["phase"], row["steps"], row["device_id"]) == ("step #", 8, 0)
    assert (row["cost_ns"], row["step_ns"]) == (20 * US, 100 * US)
    assert row["where"] == "host to device 0"
    assert row["finding"].endswith(": 20.00 us of a step (20.0 %)")
    assert row["win_ns"] == row["cost_ns"]
    assert row["means"].startswith("fewer bytes; hiding them behind compute wins ")


def test_hiding_copies_wins_no_more_than_there_is_to_compute():
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pinned", "bytes": 8}
    profile = draw(kernels=[(0, 5 * US)], memcpys=[(100 * US, 195 * US, copy)])

    assert rows(profile)[0]["means"].endswith("wins 2.6 %")


def test_copies_between_devices_are_named_with_both_ends():
    [row] = rows(draw(kernels=[(0, 50), (95, 100)], memcpys=[(50, 80, PEER | {"bytes": 10})]))[:1]

    assert (row["cause"], row["where"]) == ("exposed_peer_copies", "device 0 to device 1")
    assert (row["phase"], row["steps"], row["step_ns"]) == (None, None, 100)
    assert row["finding"] == (
        "device 0 waits for copies between devices (device 0 to device 1, one copy): 30 ns (30.0 %)"
    )


def test_halves_by_way_of_the_host_are_told_to_go_directly():
    profile = draw(
        memcpys=[
            (0, 10, HALF | {"memcpy_kind": "DtoH", "bytes": 6}),
            (10, 30, HALF | {"memcpy_kind": "HtoD", "device_id": 1, "bytes": 6}),
        ]
    )

    row = rows(profile)[0]
    assert (row["cause"], row["device_id"], row["cost_ns"]) == ("staged_copies", 1, 20)
    assert row["suggestion"].startswith("turn on peer access")


def test_what_the_host_does_while_the_device_has_no_work_is_named():
    """Each step is launched 30 us after the last one ended, in an operation or a call."""
    late = (60, 62, 95, kernel(name="late"))

    def calls(name):
        return lambda n: [
            (1_000_000 + n * 100 * US - 4 * US, 1_000_000 + n * 100 * US - 1, {"name": name})
        ]

    row = rows(steps(6, 100, (0, 2, 30, kernel()), late))[0]
    assert (row["cause"], row["where"]) == ("host_late", None)
    assert row["cost_ns"] == pytest.approx(32 * US, rel=0.05)

    waiting = {"name": "cudaStreamSynchronize"}
    profile = steps(
        6,
        100,
        (0, 2, 30, kernel()),
        late,
        api_calls=lambda n: [
            (1_000_000 + (n * 100 + 5) * US, 1_000_000 + (n * 100 + 50) * US, waiting)
        ],
    )
    row = rows(profile)[0]
    assert (row["cause"], row["where"]) == ("synchronising_call", "cudaStreamSynchronize")
    # The 10 us after the call count, too: without it the host would have been ahead.
    assert row["cost_ns"] == pytest.approx(32 * US, rel=0.05)


def test_mpi_is_no_lateness_of_the_host():
    message = {"name": "MPI_Sendrecv", "library": "mpi", "process_id": 100, "thread_id": 1}
    profile = steps(
        6,
        100,
        (0, 2, 30, kernel()),
        (60, 62, 95, kernel(name="late")),
        host_calls=lambda n: [
            (1_000_000 + (n * 100 + 5) * US, 1_000_000 + (n * 100 + 58) * US, message)
        ],
    )

    row = rows(profile)[0]
    assert (row["cause"], row["where"]) == ("mpi", "MPI_Sendrecv")
    assert row["cost_ns"] == pytest.approx(28 * US, rel=0.05)


def test_work_that_was_launched_in_time_waits_for_its_stream():
    profile = steps(6, 100, (0, 2, 30, kernel()), (1, 62, 95, kernel(name="waits")))

    row = rows(profile)[0]
    assert row["cause"] == "waits_for_stream"
    assert row["cost_ns"] == pytest.approx(32 * US, rel=0.1)


def test_work_that_begins_as_another_device_ends_waits_for_that():
    profile = steps(
        6,
        100,
        (0, 2, 30, kernel()),
        (0, 2, 61, kernel(device_id=1)),
        (1, 62, 95, kernel(name="waits")),
    )

    row = next(row for row in rows(profile) if row["device_id"] == 0)
    assert (row["cause"], row["where"]) == ("waits_for_device", "device 1")
    assert row["cost_ns"] == pytest.approx(32 * US, rel=0.1)
    assert "of it for device 1" in row["finding"]


def test_halves_of_staged_copies_take_the_pauses_beside_them():
    """Device 0 sends its half, and goes on when device 1 has written the other."""
    half = {"path": "staged", "src_device_id": 0, "dst_device_id": 1, "bytes": 6}
    profile = steps(
        6,
        100,
        (0, 2, 30, kernel()),
        (0, 30, 40, half | {"memcpy_kind": "DtoH"}),
        (0, 41, 60, half | {"memcpy_kind": "HtoD", "device_id": 1}),
        (1, 61, 95, kernel(name="waits")),
    )

    row = next(row for row in rows(profile) if row["cause"] == "staged_copies")
    assert row["device_id"] == 0
    assert row["cost_ns"] == pytest.approx(31 * US, rel=0.05)
    assert "waits_for_device" not in causes(profile)


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
        memcpys=[
            (0, 10, HALF | {"memcpy_kind": "DtoH", "bytes": 6}),
            (10, 30, HALF | {"memcpy_kind": "HtoD", "device_id": 1, "bytes": 6}),
        ],
        **({"links": [dict(zip(names, link, strict=True)) for link in links]} if links else {}),
    )

    suggestion = rows(profile)[0]["suggestion"]
    assert suggestion.endswith(reason or "(nvidia-smi topo -p2p r)") or reason in suggestion


def test_pageable_memory_is_said_in_place_of_its_copies():
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pageable", "bytes": 8}
    profile = steps(6, 100, BUSY, (1, 52, 72, copy), (1, 72, 99, kernel(name="end")))

    row = rows(profile)[0]
    assert (row["cause"], row["cost_ns"]) == ("pageable_memory", 20 * US)
    assert "exposed_host_copies" not in causes(profile)


def test_a_host_that_is_late_for_small_kernels_is_said_once():
    """Sixty kernels of 2 us, each launched 3 us before it starts, 12 us after the last one."""
    small = [(n * 14 + 9, n * 14 + 12, n * 14 + 14, kernel(name=f"k{n % 3}")) for n in range(60)]
    profile = steps(6, 850, *small)

    first = rows(profile)[0]
    assert first["cause"] == "small_kernels"
    assert first["cost_share"] == pytest.approx(0.85, rel=0.05)
    assert "host_late" not in causes(profile)


def test_without_api_calls_the_cause_of_a_pause_is_not_known():
    profile = draw(kernels=[(0, 500 * US), (600 * US, 1000 * US)])

    [row] = rows(profile)
    assert (row["cause"], row["cost_ns"]) == ("idle", 100 * US)
    assert "no calls of the host were recorded" in row["finding"]
    assert "nsys profile --trace=cuda" in row["suggestion"]


def test_set_up_is_no_part_of_what_the_rest_pays_and_comes_last():
    kernels = [(0, 10), (1_000, 1_400), (1_500, 2_000)]
    profile = draw(kernels=[(start * US, end * US) for start, end in kernels])

    costs = [(row["cause"], row["cost_ns"]) for row in rows(profile)]
    assert costs == [("idle", 100 * US), ("setup", 990 * US)]


def test_a_recording_that_is_all_set_up_says_so_first():
    kernels = [(0, 10), (9_600, 9_700), (9_800, 10_000)]
    profile = draw(kernels=[(start * US, end * US) for start, end in kernels])

    assert causes(profile)[0] == "setup"


def test_a_device_that_computes_less_wins_nothing_for_the_step():
    """Device 1 computes 10 us and waits 20 us for a copy; device 0 computes all the time."""
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


def test_a_device_that_loses_as_much_has_a_word_in_the_same_sentence():
    copy = {"memcpy_kind": "HtoD", "src_memory_kind": "pinned", "bytes": 8}
    events = [
        event
        for device in (0, 1)
        for event in (
            (0, 2, 52, kernel(device_id=device)),
            (1, 52, 72 + device, copy | {"dst_device_id": device, "device_id": device}),
            (1, 73, 99, kernel(name="end", device_id=device)),
        )
    ]
    [row] = [r for r in rows(steps(6, 100, *events)) if r["cause"] == "exposed_host_copies"]

    assert row["device_id"] == 1
    assert row["finding"].endswith("21.00 us of a step (21.0 %); device 0 20.0 %")


def test_a_busy_device_has_no_findings():
    assert rows(draw(kernels=[(0, 1000)], memcpys=[(995, 1003)])) == []
    assert rows(draw()) == []


def test_few_steps_are_said_to_be_few():
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pinned", "bytes": 8}
    profile = steps(3, 100, BUSY, (1, 52, 72, copy), (1, 72, 99, kernel(name="end")))

    assert "2 steps only" in rows(profile)[0]["finding"]


def test_every_cause_that_these_recordings_have_is_documented():
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": 8}
    profile = steps(6, 100, BUSY, (1, 52, 72, copy), LAST)

    assert {*causes(profile)} <= CAUSES.keys()
    assert len({*causes(profile)}) >= 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"src_memory_kind": "pageable"}, " at 40.000 GB/s from pageable memory"),
        ({"src_memory_kind": "pinned"}, " at 40.000 GB/s"),
        ({"bytes": 8, "src_memory_kind": "pageable"}, ""),
        ({"bytes": None, "src_memory_kind": "pageable"}, ""),
    ],
)
def test_large_copies_are_told_with_their_speed_and_memory(columns, words):
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": 20_000_000} | columns
    profile = draw(kernels=[(0, 500 * US)], memcpys=[(500 * US, 1000 * US, copy)])

    row = rows(profile)[0]

    assert row["cause"] == "exposed_host_copies"
    assert f"(host to device 0{words}, one copy): 500.0 us" in row["finding"]
    assert row["suggestion"].startswith("pin the") == ("from pageable" in words)


def test_copies_back_are_told_with_the_memory_that_they_are_into():
    copy = {"memcpy_kind": "DtoH", "src_device_id": 0, "dst_memory_kind": "pageable"}
    copies = [(at * US, (at + 100) * US, copy | {"bytes": 5_000_000}) for at in (600, 800)]
    profile = draw(kernels=[(0, 500 * US)], memcpys=copies)

    assert "(device 0 to host at 50.000 GB/s into pageable memory)" in rows(profile)[0]["finding"]


def test_from_a_single_copy_nothing_follows():
    assert causes(draw(memsets=[(0, 1000)])) == ["no_kernels"]


@pytest.mark.parametrize(("pause_us", "first"), [(300, "no_kernels"), (200, "exposed_host_copies")])
def test_without_kernels_pauses_tell_nothing_and_copies_of_half_of_the_time_do(pause_us, first):
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": 8, "src_memory_kind": "pinned"}
    second = (100 + pause_us) * US
    copies = [(0, 100 * US, copy), (second, second + 100 * US, copy)]

    assert causes(draw(memcpys=copies))[0] == first


@pytest.mark.parametrize(("pause_us", "first"), [(600, "setup"), (300, "exposed_host_copies")])
def test_without_steps_most_of_the_time_comes_first_though_it_is_set_up(pause_us, first):
    """A copy of 200 us, and a pause in a call that is made once."""
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": 8, "src_memory_kind": "pinned"}
    launch, total = {"correlation_id": 1}, 400 + pause_us
    profile = draw(
        kernels=[(0, 200 * US), ((total - 1) * US, total * US, launch)],
        memcpys=[(200 * US, 399 * US, copy)],
        api_calls=[
            (400 * US, (400 + pause_us - 5) * US, {"name": "cudaMalloc"}),
            ((400 + pause_us - 4) * US, (400 + pause_us - 3) * US, launch),
        ],
    )

    assert causes(profile)[0] == first
    [row] = [row for row in rows(profile) if row["cause"] == "setup"]
    assert row["suggestion"].startswith("record more than the start") == (first == "setup")


def test_a_cause_in_two_phases_is_one_finding_that_names_them():
    """Long steps wait 30 us for a copy, and short ones 10 us; device 1 waits less."""
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
    assert '30.00 us of a step of "relax (1)" (15.0 %); device 1 14.0 %' in row["finding"]
    assert row["finding"].endswith('; device 0 10.00 us of a step of "relax (2)" (10.0 %)')
    assert len(of_job) == 1
    for phase in ("relax (1)", "relax (2)"):
        assert f'of a step of "{phase}"' in of_job[0]["finding"]
