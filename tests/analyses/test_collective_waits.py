"""Collectives as transfer and waiting: drawn jobs whose answer is known by how they were drawn."""

import random
import tarfile
from pathlib import Path

import numpy as np
import pytest
from collective_jobs import GATHER, GEMM, REDUCE, US, Job
from drawing import draw

import gpuprof
from gpuprof.analyses.collectives import collective_waits
from gpuprof.facts.collective_parts import NO_INSTANCE, collective_parts, part_times
from gpuprof.facts.last_ranks import last_ranks
from gpuprof.model.table import Selection

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
PER_RANK = ("transfer_ns", "waiting_ns", "last_share", "basis")


def by_rank(profile):
    return {
        (row["device_id"], row["collective"]): row for row in collective_waits(profile).to_pylist()
    }


@pytest.mark.parametrize(("ranks", "seed"), [(2, 1), (4, 2), (8, 3), (5, 4)])
def test_the_shortest_kernel_of_a_call_is_the_transfer_and_the_rest_waits(ranks, seed):
    job = Job(ranks, 20, seed)
    rows = by_rank(job.drawn())

    assert len(rows) == 2 * ranks
    for rank in range(ranks):
        for name, collective in ((REDUCE, "AllReduce"), (GATHER, "AllGather")):
            row = rows[rank, collective]
            assert tuple(row[key] for key in PER_RANK) == job.answer(rank, name)
            assert (row["ranks"], row["calls"], row["unknown_ns"]) == (ranks, 10, 0)


def test_parts_of_all_kernels_add_up_to_their_time_and_do_not_overlap():
    job = Job(4, 12, seed=5)
    profile = job.drawn()
    times, parts = part_times(profile), collective_parts(profile)

    assert (
        parts.waiting_ns + parts.transfer_ns == parts.kernels.end_ns - parts.kernels.start_ns
    ).all()
    for rank in range(4):
        took = sum(ends[rank] - starts[rank] for _, starts, ends in job.calls)
        assert times[rank].waiting.length + times[rank].transfer.length == took
    waits = times[0].waiting
    came = {max(starts) for _, starts, _ in job.calls}
    # Ends differ by 2 µs at most, and so does where the last rank came.
    assert all(min(abs(end - last) for last in came) <= 2 * US for end in waits.end.tolist())


def test_calls_lost_at_the_ends_of_a_recording_move_no_other_call():
    """Of a call whose rank is lost, what is longer than the shortest known kernel waited."""
    job = Job(3, 16, seed=6)
    cut = {(1, 0), (1, 1), (2, 15)}
    rows = collective_waits(job.drawn(cut=cut)).to_pylist()

    took = [
        [end - start for start, end in zip(starts, ends, strict=True)]
        for _, starts, ends in job.calls
    ]
    shortest = [
        min(took[number][rank] for rank in range(3) if (rank, number) not in cut)
        for number in range(16)
    ]
    for rank in range(3):
        mine = [row for row in rows if row["device_id"] == rank]
        known = [number for number in range(16) if (rank, number) not in cut]
        lost = {0, 1, 15}
        for name, expected in (
            ("transfer_ns", (shortest[n] for n in known if n not in lost)),
            ("unknown_ns", (shortest[n] for n in known if n in lost)),
            ("waiting_ns", (took[n][rank] - shortest[n] for n in known)),
        ):
            assert sum(row[name] for row in mine) == sum(expected)


def test_each_call_has_a_number_that_is_the_same_on_its_ranks_alone():
    one, two = Job(2, 12, seed=7, names=(REDUCE,)), Job(2, 9, seed=8, names=(REDUCE,))
    later = [(s, e, by | {"device_id": by["device_id"] + 2}) for s, e, by in two.executions()]
    alone = [(s, e, by | {"device_id": 4}) for s, e, by in one_rank([100 * US] * 7)]
    parts = collective_parts(draw(kernels=[*one.executions(), *later, *alone]))

    numbers, waited = {}, {}
    for row, (start, device) in enumerate(
        zip(parts.kernels.start_ns.tolist(), parts.kernels.device.tolist(), strict=True)
    ):
        job, first = (one, 0) if device < 2 else (two, 2)
        if device == 4:
            assert parts.instance[row] == NO_INSTANCE
            continue
        (call,) = [
            n for n, (_, starts, _) in enumerate(job.calls) if starts[device - first] == start
        ]
        numbers.setdefault((first, call), set()).add(int(parts.instance[row]))
        _, starts, ends = job.calls[call]
        took = [end - start for start, end in zip(starts, ends, strict=True)]
        waited[int(parts.instance[row])] = sum(took) - 2 * min(took)
    assert all(len(of_call) == 1 for of_call in numbers.values())
    assert len(set().union(*numbers.values())) == len(numbers) == 21
    assert {n: int(parts.waiting_by_instance[n]) for n in waited} == waited


def test_ranks_of_two_groups_wait_within_theirs_alone():
    one, two = Job(2, 12, seed=7, names=(REDUCE,)), Job(2, 12, seed=8, names=(REDUCE,))
    shift = [
        (start, end, {**place, "device_id": place["device_id"] + 2})
        for start, end, place in two.executions()
    ]
    profile = draw(kernels=[*one.executions(), *shift])

    rows = by_rank(profile)
    for job, first in ((one, 0), (two, 2)):
        for rank in range(2):
            row = rows[rank + first, "AllReduce"]
            assert tuple(row[key] for key in PER_RANK) == job.answer(rank, REDUCE)
            assert row["ranks"] == 2
    assert {one.devices for one in collective_parts(profile).communicators} == {(0, 1), (2, 3)}


@pytest.mark.parametrize("apart_ns", [5_000 * US, -700 * US, 120 * US])
def test_clocks_that_are_apart_are_set_right(apart_ns):
    job = Job(3, 20, seed=9, names=(REDUCE,), late="host")
    profile = job.drawn(late_ns={1: apart_ns}.items())

    rows = by_rank(profile)
    for rank in range(3):
        row = rows[rank, "AllReduce"]
        assert tuple(row[key] for key in PER_RANK) == job.answer(rank, REDUCE)
    assert collective_parts(profile).clocks == ()
    [last] = last_ranks(profile)
    assert (last.device_id, last.delay.cause) == (2, "host")


def test_groups_that_run_one_after_the_other_are_not_taken_for_clocks_apart():
    # Stages of a pipeline: the second group does as the first did, half a millisecond later, give
    # or take some microseconds.
    dice = random.Random(3)  # noqa: S311 - not for secrets
    one = [*Job(2, 20, seed=9).executions()]
    lags = [500 * US + dice.randrange(-60 * US, 60 * US) for _ in one[::2]]
    later = [
        (start + lags[place // 2], end + lags[place // 2], by | {"device_id": by["device_id"] + 2})
        for place, (start, end, by) in enumerate(one)
    ]

    parts = collective_parts(draw(kernels=[*one, *later]))

    assert {communicator.devices for communicator in parts.communicators} == {(0, 1), (2, 3)}
    assert not parts.shift_ns.any()


def test_clocks_that_cannot_be_set_right_are_said_and_nothing_is_split():
    # Two calls tell nothing of a clock that drifts by a tenth.
    job = Job(2, 20, seed=9)
    kernels = [
        (start * 11 // 10 if place["device_id"] else start, end * 11 // 10, place)
        if place["device_id"]
        else (start, end, place)
        for start, end, place in job.executions()
    ]

    rows = collective_waits(draw(kernels=kernels)).to_pylist()
    assert "ranks" not in {row["basis"] for row in rows}
    assert last_ranks(draw(kernels=kernels)) == ()


def test_no_rank_is_last_where_none_waits():
    # By turns, ranks are a nanosecond late, and end so much earlier than the others.
    place = {"stream_id": 20, "name": REDUCE}
    kernels = [
        (start + lag, start + 50 * US + lag, {"device_id": rank, **place})
        for start in range(0, 2_000 * US, 100 * US)
        for rank, lag in enumerate((start // US // 100 % 2, 1 - start // US // 100 % 2))
    ]

    assert last_ranks(draw(kernels=kernels)) == ()


@pytest.mark.parametrize(
    ("late", "kernel", "ratio"),
    [("host", None, None), ("kernels", GEMM, 1.48), ("work", GEMM, 1.5), ("copies", None, None)],
)
def test_the_last_rank_is_named_with_what_kept_it(late, kernel, ratio):
    job = Job(4, 10, seed=10, names=(REDUCE,), late=late)
    # Every rank runs these equally long.
    job.kernels += [(start - 5 * US, start, by | {"name": "relu"}) for start, _, by in job.kernels]
    profile = job.drawn()

    [last] = last_ranks(profile)
    assert (last.device_id, last.devices, last.calls, last.share) == (2, (0, 1, 2, 3), 10, 1)
    assert last.waiting_ns == last.all_waiting_ns
    assert last.waiting_ns == sum(job.answer(rank, REDUCE)[1] for rank in range(4))
    assert (last.delay.cause, last.delay.kernel) == (late, kernel)
    assert last.delay.ratio == (None if ratio is None else pytest.approx(ratio, rel=0.02))
    row = by_rank(profile)[2, "AllReduce"]
    assert row["kept_by"].startswith(late)
    assert by_rank(profile)[0, "AllReduce"]["kept_by"] is None


def test_ranks_are_named_where_devices_have_them():
    devices = [{"device_id": n, "rank": n + 10} for n in range(2)]
    job = Job(2, 8, names=(REDUCE,))
    profile = draw(kernels=[*job.executions()], devices=devices)

    last = last_ranks(profile)[0]
    assert last.name == f"rank {last.device_id + 10}"
    assert by_rank(profile)[1, "AllReduce"]["rank"] == 11


def one_rank(durations, stream=20, gap=100 * US):
    starts = np.cumsum([0, *(took + gap for took in durations[:-1])]).tolist()
    place = {"stream_id": stream, "name": REDUCE}
    return [(start, start + took, place) for start, took in zip(starts, durations, strict=True)]


def test_the_spread_of_one_ranks_calls_says_how_much_can_be_waiting():
    took = [100 * US] * 5 + [100 * US + n * 300 * US for n in range(1, 16)]
    [row] = collective_waits(draw(kernels=one_rank(took))).to_pylist()

    assert (row["basis"], row["transfer_ns"]) == ("spread", 20 * 100 * US)
    assert row["waiting_ns"] == sum(took) - 20 * 100 * US
    assert (row["ranks"], row["last_share"], row["kept_by"]) == (None, None, None)


def test_calls_of_one_rank_that_take_alike_are_transfer():
    took = [100 * US + n % 7 * US for n in range(40)]
    [row] = collective_waits(draw(kernels=one_rank(took))).to_pylist()

    assert row["waiting_ns"] < 0.04 * sum(took)


def test_messages_of_different_size_that_repeat_in_each_step_are_no_waiting():
    step = [30, 900, 250, 80, 4000, 60]
    dice = random.Random(11)  # noqa: S311 - not for secrets
    took = [int(us * US * dice.uniform(1, 1.02)) for _ in range(12) for us in step]
    took[4 + 6 * 5] += 9_000 * US
    [row] = collective_waits(draw(kernels=one_rank(took))).to_pylist()

    assert row["waiting_ns"] == pytest.approx(9_000 * US, rel=0.02)


def test_messages_in_no_order_may_be_waiting():
    dice = random.Random(12)  # noqa: S311 - not for secrets
    took = [int(50 * US * 10 ** dice.uniform(0, 2)) for _ in range(60)]
    [row] = collective_waits(draw(kernels=one_rank(took))).to_pylist()

    assert row["waiting_ns"] == sum(max(t - int(np.quantile(took, 0.1)), 0) for t in took)


def test_too_few_calls_tell_nothing():
    [row] = collective_waits(draw(kernels=one_rank([100, 200, 300]))).to_pylist()

    assert (row["basis"], row["unknown_ns"], row["transfer_ns"]) == ("none", 600, None)


def test_a_first_call_that_sets_up_is_no_part_of_the_rest():
    took = [2_000_000 * US, *[100 * US] * 20]
    [row] = collective_waits(draw(kernels=one_rank(took))).to_pylist()

    assert (row["calls"], row["first_call_ns"]) == (21, 2_000_000 * US)
    assert (row["transfer_ns"], row["waiting_ns"]) == (2_000 * US, 0)


@pytest.mark.parametrize(("first", "others"), [(400, 100), (5_000, 1_000)])
def test_a_first_call_like_others_is_no_setup(first, others):
    took = [first * US, *[others * US] * 20]
    [row] = collective_waits(draw(kernels=one_rank(took))).to_pylist()

    assert (row["first_call_ns"], row["waiting_ns"]) == (None, (first - others) * US)


def test_a_first_call_of_all_ranks_that_sets_up_is_left_out():
    job = Job(2, 12, seed=12, names=(REDUCE,))
    before = [
        (
            -(10**10),
            job.calls[0][1][r] - 500 * US,
            {"device_id": r, "stream_id": 20, "name": REDUCE},
        )
        for r in range(2)
    ]
    rows = by_rank(draw(kernels=[*before, *job.executions()]))

    for rank in range(2):
        row = rows[rank, "AllReduce"]
        assert row["first_call_ns"] == before[rank][1] + 10**10
        assert tuple(row[key] for key in PER_RANK) == job.answer(rank, REDUCE)


def test_a_stream_that_also_computes_cannot_hide_its_collectives():
    took = [100 * US] * 8
    alone, shared = one_rank(took, stream=20), one_rank(took, stream=7)
    compute = [(10**9 + n * 10, 10**9 + n * 10 + 9) for n in range(10)]

    profile = draw(kernels=[*alone, *shared, *compute])
    flags = {
        row["stream_id"]: row["is_same_stream"] for row in collective_waits(profile).to_pylist()
    }
    assert flags == {20: False, 7: True}


def test_of_an_unknown_stream_nothing_is_said():
    kernels = [(n * 10, n * 10 + 9, {"stream_id": None}) for n in range(10)]
    reduce = [(1000 + s, 1000 + e, {**p, "stream_id": None}) for s, e, p in one_rank([100] * 6)]
    profile = draw(kernels=[*kernels, *reduce])
    [row] = collective_waits(profile).to_pylist()

    assert not collective_parts(profile).is_same_stream.any()
    assert (row["stream_id"], row["is_same_stream"], row["basis"]) == (None, None, "spread")


def test_compute_beside_it_hides_transfer_and_waiting_apart():
    reduce = [(0, 100 * US), (0, 60 * US)]
    kernels = []
    for call in range(5):
        for rank, (_, took) in enumerate(reduce):
            at = call * 1000 * US + (0 if rank == 0 else 40 * US)
            kernels.append((at, at + took, {"device_id": rank, "stream_id": 20, "name": REDUCE}))
        # Of rank 0's 40 µs of waiting 10 are hidden, and of its 60 µs of transfer 20.
        kernels.append((call * 1000 * US + 30 * US, call * 1000 * US + 60 * US, {"device_id": 0}))
    row = by_rank(draw(kernels=kernels))[0, "AllReduce"]

    assert (row["waiting_ns"], row["exposed_waiting_ns"]) == (200 * US, 150 * US)
    assert (row["transfer_ns"], row["exposed_transfer_ns"]) == (300 * US, 200 * US)


def test_a_part_of_a_recording_has_the_calls_that_start_in_it():
    job = Job(2, 12, seed=13, names=(REDUCE,))
    profile = job.drawn()
    border = job.calls[6][1][0]
    part = profile.restricted(Selection(((border, 10**12),), 0))

    [row] = collective_waits(part).to_pylist()
    assert (row["device_id"], row["calls"], row["ranks"]) == (0, 6, 2)


def test_bandwidth_is_of_the_transfer_alone():
    job = Job(2, 6, seed=14, names=(REDUCE,))
    kernels = [*job.executions()]
    told = [
        {
            "start_ns": start, "end_ns": end, "device_id": place["device_id"], "process_id": 100,
            "kernel": REDUCE, "collective": "allreduce", "bytes_in": 8000, "bytes_out": 8000,
            "group_size": 2, "process_group": "ddp",
        }
        for start, end, place in kernels
    ]  # fmt: skip
    rows = by_rank(draw(kernels=kernels, collectives=told))

    transfer, *_ = job.answer(0, REDUCE)
    assert rows[0, "allreduce"]["bus_bytes_per_s"] == pytest.approx(6 * 8000 * 1e9 / transfer)


def test_dlrm_of_eight_ranks_waits_for_rank_7(tmp_path):
    """By hand: 97 % of 48.5 ms is waiting; rank 7 is last in five of eight calls."""
    archive = CORPUS / "kineto" / "param_dlrm_8rank_kineto.tar.gz"
    if not archive.exists():
        pytest.skip("no corpus beside the checkout")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    profile = gpuprof.read_profile(tmp_path / "dlrm_kineto")
    rows = collective_waits(profile).to_pylist()

    waiting, transfer = (sum(row[key] for row in rows) for key in ("waiting_ns", "transfer_ns"))
    assert (waiting, waiting + transfer) == (46_806 * US, 48_542 * US)
    [last] = last_ranks(profile)
    assert (last.name, last.calls, last.share, last.delay.cause) == ("rank 7", 8, 5 / 8, "host")


def test_all_to_all_of_two_gpus_runs_on_the_stream_of_compute():
    recording = CORPUS / "nsys-sqlite" / "GindaChen__nsys-ai__mfu_2gpu_before.sqlite"
    if not recording.exists():
        pytest.skip("no corpus beside the checkout")
    rows = by_rank(gpuprof.read_profile(recording))

    assert {row["basis"] for row in rows.values()} == {"ranks"}
    assert all(row["is_same_stream"] for row in rows.values())
    assert rows[0, "SendRecv"]["waiting_ns"] > rows[0, "SendRecv"]["transfer_ns"]
    # Device 1 keeps the other one waiting for longer, although each came last to some calls.
    assert 0 < rows[0, "SendRecv"]["last_share"] < rows[1, "SendRecv"]["last_share"]
    assert rows[0, "SendRecv"]["kept_by"] is None
    assert rows[1, "SendRecv"]["kept_by"].startswith("host")
