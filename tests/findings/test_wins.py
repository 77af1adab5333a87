"""What mending a finding wins of a step, of programs in which that is known by construction."""

import pytest
from collective_jobs import REDUCE as JOINT
from collective_jobs import Job
from drawing import draw
from drawn_steps import DTOD, HTOD, LAYOUT, REDUCE, US, kernel, launched, queued, steps
from ranks.joint import job_report, of_rank

from gpuprof.analyses.reports import report
from gpuprof.findings import costs, wins
from gpuprof.findings.findings import findings
from gpuprof.model.table import Selection
from gpuprof.readers.merged_ranks import joined

HALF = {"path": "staged", "src_device_id": 0, "dst_device_id": 1, "bytes": 8}
CASTS = kernel(name="void at::native::direct_copy_kernel_cuda(float*)")
PLAIN = kernel(name="volta_sgemm_128x64_nn")
V100 = {"devices": [{"device_id": 0, "name": "Tesla V100-SXM2-16GB"}]}


def row_of(profile, cause):
    return next(row for row in findings(profile).to_pylist() if row["cause"] == cause)


def test_a_finding_says_when_it_can_be_seen_in_a_typical_step():
    took = 80 * US, 20 * US
    row = row_of(queued((80, kernel()), (20, HTOD)), "exposed_host_copies")

    assert row["end_ns"] - row["start_ns"] == took[1]
    assert (row["start_ns"] - 10 * US) % sum(took) == took[0]


DEVICE_BOUND = {
    "exposed_host_copies": (20, HTOD, 20),
    "local_copies": (20, DTOD, 20),
    "layout_conversions": (20, LAYOUT, 20),
    "copy_kernels": (20, CASTS, 10),
    "no_tensor_cores": (20, PLAIN, 5),
}


@pytest.mark.parametrize("cause", DEVICE_BOUND)
def test_what_the_device_does_needlessly_is_won_where_the_step_waits_for_the_device(cause):
    took, what, won = DEVICE_BOUND[cause]
    row = row_of(queued((80, kernel()), (took, what), (10, kernel(name="end")), **V100), cause)

    assert row["predicted_win_ns"] == pytest.approx(won * US, rel=0.02)
    assert row["predicted_win_ns"] <= row["win_ns"]
    assert row["assumptions"]


def test_collectives_on_a_stream_of_their_own_are_hidden_but_for_the_last_one():
    """What follows that needs them all: of 45 µs the first 20 run beside a kernel of 30."""
    works = (80, kernel()), (20, REDUCE), (30, kernel()), (25, REDUCE), (10, kernel(name="end"))
    row = row_of(queued(*works), "same_stream")

    assert (row["cost_ns"], row["change"]) == (45 * US, "streams=nccl")
    assert row["predicted_win_ns"] == pytest.approx(20 * US, rel=0.02)


def test_copies_are_told_with_what_hiding_them_wins_and_with_the_command_that_tells_more():
    row = row_of(queued((80, kernel()), (20, HTOD)), "exposed_host_copies")

    assert row["means"] == "fewer bytes; hiding them behind compute wins 20.0 % (replay)"
    assert (row["change"], row["win"]) == (r"drop=^(HtoD)\b", "all of it without these copies")
    assert row["command"] == r"gpuprof predict drawn.sqlite --what 'drop=^(HtoD)\b'"


def test_what_the_step_does_not_wait_for_wins_nothing_and_ranks_last():
    """A host that launches every 100 µs, whatever the device does: calls alone are won."""
    events = (0, 2, 52, kernel()), (1, 52, 62, HTOD), (2, 62, 92, CASTS)
    rows = findings(steps(8, 100, *events)).to_pylist()
    copies, casts = (
        next(row for row in rows if row["cause"] == cause)
        for cause in ("exposed_host_copies", "copy_kernels")
    )

    assert casts["win_ns"] == 15 * US > copies["win_ns"]
    assert casts["predicted_win_ns"] == 0 < copies["predicted_win_ns"] < 2 * US
    assert casts["rank"] > copies["rank"]
    words = "next to nothing by itself, if these kernels took half the time; at most 15.0 %"
    assert casts["win"] == words


def test_small_kernels_win_what_their_launches_cost():
    """A kernel of 4 µs every 20 µs, of which its launch takes 18."""
    works = ((at, at + 5, at + 9) for at in range(0, 1_600, 20))
    row = row_of(launched(*works, call_us=18), "small_kernels")

    # Short pauses between kernels remain, of which the recording shows none.
    assert 0.6 * row["win_ns"] < row["predicted_win_ns"] <= row["win_ns"] == 16 * US
    assert row["change"] == "no-launch-cost"


def test_pauses_that_launches_do_not_make_win_nothing_by_launches_and_keep_their_bound():
    """Of two kernels that are launched at once the second one starts late; then the host waits."""
    kernels, calls = [], []
    for step in range(40):
        at, first, second = step * 18 * US, {"correlation_id": step}, {"correlation_id": 99 + step}
        second["name"] = "end"
        calls += [(at, at + US, first), (at + US, at + 2 * US, second)]
        calls.append((at + 2 * US, at + 15 * US, {"name": "cudaStreamSynchronize"}))
        kernels += [(at + 5 * US, at + 8 * US, first), (at + 11 * US, at + 14 * US, second)]
    profile = draw(kernels=kernels, api_calls=calls)

    row = row_of(profile, "small_kernels")

    assert (row["cost_ns"], row["predicted_win_ns"]) == (3 * US, None)
    assert row["win"] == "at most 16.7 %, next to nothing if launches took no time"
    assert "the host waits for more than launches" in row["assumptions"]
    assert row_of(profile, "synchronising_call")["cost_ns"] == 9 * US


def test_pageable_copies_win_what_they_take_ahead_from_pinned_memory():
    pageable = HTOD | {"src_memory_kind": "pageable"}
    profile = queued((80, kernel()), (20, pageable))
    calls = profile.table("api_calls").to_pylist()
    for call in calls:
        call["name"] = (
            "cudaMemcpyAsync" if call["correlation_id"] in range(1, 99, 2) else call["name"]
        )
    row = row_of(draw(
        kernels=profile.table("kernels").to_pylist(), memcpys=profile.table("memcpys").to_pylist(),
        api_calls=calls, nvtx_ranges=profile.table("nvtx_ranges").to_pylist(),
    ), "pageable_memory")  # fmt: skip

    assert row["change"] == "hide=HtoD"
    assert row["predicted_win_ns"] == pytest.approx(20 * US, rel=0.02)


@pytest.mark.parametrize(
    ("links", "link"),
    [
        ([], "pcie3"),
        ([{"device_id": 0, "peer_device_id": 2, "link": "NVLink 2 x2"}], "nvlink2"),
    ],
)
def test_copies_by_way_of_the_host_are_replayed_over_a_direct_link(links, link):
    kernels, copies, calls = [], [], []
    for number in range(8):
        at, row = number * 100 * US, {"correlation_id": number}
        half = HALF | row
        calls += [(number * 2 * US, number * 2 * US + US, row | {"name": "cudaMemcpyPeerAsync"})]
        copies += [(at + 5 * US, at + 45 * US, half | {"memcpy_kind": "DtoH"})]
        copies += [(at + 45 * US, at + 85 * US, half | {"memcpy_kind": "HtoD", "device_id": 1})]
        kernels += [(at + 85 * US, at + 105 * US, kernel(device_id=1, correlation_id=100 + number))]
        calls += [
            (number * 2 * US + US, number * 2 * US + 2 * US, {"correlation_id": 100 + number})
        ]
    profile = draw(kernels=kernels, memcpys=copies, api_calls=calls, links=links)
    row = row_of(profile, "staged_copies")

    assert row["change"] == f"link[PtoP_staged]={link}"
    assert row["win"].partition(";")[0].endswith(f"with direct copies over {link}")
    assert 0 < row["predicted_win_ns"] <= row["win_ns"]


def test_without_an_answer_the_bound_stays_and_says_why():
    """Without calls nothing explains the pauses."""
    kernels = [(0, 50 * US), (900 * US, 1000 * US)]
    profile = draw(kernels=kernels, memcpys=[(50 * US, 250 * US, HTOD)])
    row = row_of(profile, "exposed_host_copies")

    assert (row["predicted_win_ns"], row["change"], row["command"]) == (None, None, None)
    assert "no CUDA calls were recorded" in row["assumptions"]
    assert row["win"] == "at most 20.0 %"
    assert row["means"] == "fewer bytes; hiding them behind compute wins 15.0 %"


def test_of_too_many_operations_the_command_is_said_that_replays_them(monkeypatch):
    monkeypatch.setattr(wins, "MOST_OPERATIONS", 3)
    row = row_of(queued((80, kernel()), (20, HTOD)), "exposed_host_copies")

    assert row["predicted_win_ns"] is None
    assert row["assumptions"].endswith("ask `gpuprof predict`")
    assert row["command"].endswith(row["change"] + "'")


def ranks(count=20, processes=(100, 100)):
    """Two ranks of one program, of which the first always waits 30 µs in a step of 80 µs."""
    rows = {"kernels": [], "memcpys": [], "api_calls": [], "nvtx_ranges": []}
    for rank, computes in enumerate((40, 70)):
        process = {"process_id": processes[rank]}
        for step in range(count):
            at, called = (5 + step * 80) * US, step * 4 * US
            thread = {"thread_id": rank} | process
            works = (at, at + computes * US, kernel()), (at + computes * US, at + 80 * US, REDUCE)
            for part, (start, end, what) in enumerate(works):
                number = {"correlation_id": (2 * step + part) * 2 + rank}
                place = {"device_id": rank} | process
                rows["kernels"].append((start, end, what | number | place))
                begun = called + 2 * part * US
                rows["api_calls"].append((begun, begun + US, number | thread))
            span = {"text": f"step {step}"} | thread
            rows["nvtx_ranges"].append((called, called + 3 * US, span))
    return draw(**rows)


def test_causes_of_one_family_win_together_no_more_than_that_can_win_at_most():
    """As where the pauses beside copies that overlap go with each of them."""
    found = costs.findings_of_scopes(queued((80, kernel()), (20, HTOD)))
    [copies] = [finding for of_scope in found.values() for finding in of_scope]
    alone = wins.with_win(copies)

    assert wins.won_together([alone]) == alone.won_ns == 20 * US
    assert wins.won_together([alone._replace(of_family_ns=(15 * US, 15 * US, None))]) == 15 * US


@pytest.mark.parametrize("processes", [(100, 100), (100, 200)])
def test_ranks_that_arrive_together_win_the_mean_of_what_they_wait(processes):
    row = row_of(ranks(processes=processes), "collective_waiting")

    assert (row["device_id"], row["change"], row["win_ns"]) == (0, "balance", 30 * US)
    assert row["predicted_win_ns"] == pytest.approx(15 * US, rel=0.1)


def test_without_steps_it_is_not_known_how_ranks_would_arrive_together():
    profile = Job(4, 20, seed=7, names=(JOINT,), late="kernels").drawn()

    assert row_of(profile, "collective_waiting")["assumptions"].startswith("without steps")


def test_a_part_without_steps_is_not_replayed():
    profile = draw(kernels=[(0, 50 * US), (70 * US, 99 * US)], memcpys=[(50 * US, 70 * US, HTOD)])
    part = profile.restricted(Selection(windows=((40 * US, 99 * US),)))

    assert row_of(profile, "exposed_host_copies")["predicted_win_ns"] == 20 * US
    assert row_of(part, "exposed_host_copies")["assumptions"].startswith("a part of a recording")


def test_what_may_be_won_or_not_ranks_by_half():
    """Without calls nothing tells why a device idles for 15 µs of each 100; 10 go to layouts."""
    kernels = []
    for at in range(0, 2400 * US, 100 * US):
        kernels += [(at, at + 75 * US), (at + 75 * US, at + 85 * US, LAYOUT)]
    profile = draw(kernels=kernels)
    layout, idle = row_of(profile, "layout_conversions"), row_of(profile, "idle")

    assert layout["win_ns"] < idle["win_ns"] < 2 * layout["win_ns"]
    assert layout["rank"] < idle["rank"]


def test_a_change_that_mends_more_than_its_finding_wins_no_more_than_that_costs():
    """Without a copy of 1 µs a call of 40 µs of the host, which is late, goes, too."""
    kernels, copies, calls = [], [], []
    for number in range(30):
        at = number * 50 * US
        for begun, took, what in ((0, 10, kernel()), (10, 40, HTOD)):
            row = {"correlation_id": 2 * number + begun // 10}
            calls.append((at + begun * US, at + (begun + took) * US, row))
            start = at + (begun + 5) * US
            rows, length = (copies, 1) if what is HTOD else (kernels, 8)
            rows.append((start, start + length * US, what | row))
    row = row_of(draw(kernels=kernels, memcpys=copies, api_calls=calls), "exposed_host_copies")

    assert row["predicted_win_ns"] == row["win_ns"] == US


def test_copies_hidden_behind_local_copies_are_not_hidden_behind_compute():
    row = row_of(queued((5, kernel()), (25, DTOD), (70, HTOD)), "exposed_host_copies")

    assert row["means"].endswith("wins 5.0 % (replay)")


@pytest.mark.parametrize(
    ("ranks", "won_us"),
    # What each computes and copies in a step, and what the longest step gets shorter by.
    [
        (((100, 40), (120, 0)), 20),
        (((100, 40), (110, 20)), 30),
        (((100, 40), (100, 40)), 40),
        (((100, 20), (140, 0)), 0),
    ],
)
def test_a_job_wins_what_its_longest_step_gets_shorter_by(ranks, won_us):
    files = [
        of_rank(
            queued(*((took, what) for took, what in ((compute, PLAIN), (copy, HTOD)) if took)), n
        )
        for n, (compute, copy) in enumerate(ranks)
    ]

    for result in (report(joined(files), ["findings"]), job_report(files, ["findings"])):
        rows = {row["cause"]: row for row in result.rows("findings")}
        assert rows["exposed_host_copies"]["predicted_win_ns"] == won_us * US
