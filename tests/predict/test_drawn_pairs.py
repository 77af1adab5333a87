"""Drawn programs before and after a change: what is predicted of one holds of the other."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from simulated import US, Machine, Rank

from gpuprof.predict.predict import predict

STEPS = 24
MB = 1_000_000
COMPUTE, COPIES, GRADIENTS = 7, 13, 20
USUAL = {
    "load_us": 0, "host_us": 3, "batch": (), "memory": "pinned", "is_ahead": False, "rate": 12,
    "buffers": 0, "buckets": (), "unequal": (1.0,), "is_blocking": False, "is_waiting": True,
    "is_graph": False, "is_sized": False, "apart_ns": 0, "host_apart_ns": 0, "contention": 0.0,
    "stalled_us": 0,
}  # fmt: skip


def training(rank, o, slower):
    """The host of one rank: it loads, copies, launches the layers, reduces gradients, and waits.

    Copies ahead are those of the next batch; kernels wait for those of their own.
    """
    if o.is_ahead:
        yield from batch(rank, o, COPIES)
    for step in range(STEPS):
        since, rank.step = rank.machine.now, step
        if o.load_us:
            yield from rank.work(o.load_us * US, "load batch")
        if o.is_ahead:
            yield from rank.wait(COMPUTE, COPIES)
        yield from batch(rank, o, COPIES if o.is_ahead else COMPUTE)
        for _ in range(o.buffers):
            yield from rank.copy("DtoD", 3 * MB)
        yield from model(rank, o, slower)
        if o.is_waiting or step == STEPS - 1:
            yield from rank.synchronise(COMPUTE)
        rank.marked(f"step {step}", since)


def batch(rank, o, stream):
    """Copies of what a step needs, which the host may wait for."""
    for size in o.batch:
        yield from rank.copy("HtoD", size, stream, o.memory)
        if o.is_blocking:
            yield from rank.synchronise(stream)


def model(rank, o, slower):
    """The layers of a step, and after some of them a collective."""
    for layer, (name, us) in enumerate(o.layers):
        # A graph is one launch.
        is_free = o.is_graph and layer > 0
        yield from rank.work(0 if is_free else o.host_us * US)
        how = {"is_free": is_free, "stalled_ns": o.stalled_us * US * (layer < 3)}
        yield from rank.launch(name, slower * us * US, **how)
        for number, (after, size) in enumerate(o.buckets):
            if after == layer:
                yield from rank.wait(GRADIENTS, COMPUTE)
                yield from rank.collective(size, ((rank.step, number), len(o.unequal)), GRADIENTS)
    if o.buckets:
        yield from rank.wait(COMPUTE, GRADIENTS)
        yield from rank.launch("optimizer", 30 * US)


def simulated(options, seed, pace=1.0):
    """A machine after the program of these options ran on it."""
    o, machine = SimpleNamespace(**USUAL | options), Machine(seed, pace=pace)
    ranks = [Rank(machine, number, o) for number in range(len(o.unequal))]
    machine.run(*(training(rank, o, slow) for rank, slow in zip(ranks, o.unequal, strict=True)))
    return machine


def layers(draw, least_us=20, most_us=300):
    names = ("gemm", "conv", "softmax", "norm")
    count = draw.integers(5, 25)
    return [
        (names[n % 4], float(us)) for n, us in enumerate(draw.uniform(least_us, most_us, count))
    ]


def faster_kernels(draw):
    drawn, factor = layers(draw), round(float(draw.uniform(0.3, 0.8)), 2)
    after = [(name, us * (factor if name == "gemm" else 1)) for name, us in drawn]
    return f"scale=^gemm:{factor}", {"layers": drawn}, {"layers": after}


def a_loader(draw):
    o = {"layers": layers(draw), "load_us": draw.uniform(200, 4000)}
    o |= {"batch": (2 * MB,), "memory": str(draw.choice(["pinned", "pageable"]))}
    return "drop-host=load batch", o, o | {"load_us": 0}


def pinned_copies(draw):
    sizes = tuple(int(draw.uniform(0.5, 8) * MB) for _ in range(draw.integers(1, 4)))
    o = {"layers": layers(draw), "batch": sizes, "is_waiting": False}
    o |= {"is_blocking": True} if draw.integers(2) else {"memory": "pageable"}
    return "streams=HtoD", o, o | {"memory": "pinned", "is_blocking": False, "is_ahead": True}


def copies_ahead(draw):
    sizes = tuple(int(draw.uniform(2, 20) * MB) for _ in range(draw.integers(1, 3)))
    o = {"layers": layers(draw), "batch": sizes, "is_waiting": bool(draw.integers(2))}
    return "hide=HtoD", o, o | {"is_ahead": True}


def no_buffers(draw):
    o = {"layers": layers(draw), "buffers": int(draw.integers(3, 20))}
    return "drop=^DtoD", o, o | {"buffers": 0}


def a_faster_link(draw):
    sizes = tuple(int(draw.uniform(5, 30) * MB) for _ in range(draw.integers(1, 4)))
    o = {"layers": layers(draw), "batch": sizes}
    return "link[HtoD]=2us,24GB/s", o, o | {"rate": 24}


def equal_ranks(draw):
    count = int(draw.choice([2, 4]))
    slow = tuple(draw.uniform(0.7, 1.3, count).tolist())
    drawn = layers(draw, least_us=100)
    o = {
        "layers": drawn,
        "buckets": [(n, 4 * MB) for n in (0, 2, 4)],
        "unequal": slow,
        "is_waiting": False,
    }
    o |= {"apart_ns": int(draw.integers(-5, 5)) * 1_000_000}
    return "balance", o, o | {"unequal": (float(np.mean(slow)),) * count}


def free_launches(draw):
    o = {"layers": [(name, us / 20) for name, us in layers(draw)], "host_us": 8}
    o |= {"is_waiting": bool(draw.integers(2))}
    return "no-launch-cost", o, o | {"is_graph": True}


def larger_buckets(draw):
    drawn, number = layers(draw), int(draw.integers(1, 5))
    buckets = [(n, int(draw.uniform(0.2, 4) * MB)) for n in range(len(drawn)) for _ in range(2)]
    # All of a step, or so many that follow each other.
    together, change = (number, f"merge=nccl:{number}") if number > 1 else (999, "merge=nccl")
    parts = [buckets[n : n + together] for n in range(0, len(buckets), together)]
    merged = [(part[-1][0], sum(size for _, size in part)) for part in parts]
    o = {"layers": drawn, "buckets": buckets, "unequal": (1.0,) * int(draw.choice([1, 2, 4]))}
    o |= {"is_sized": bool(draw.integers(2)), "is_waiting": bool(draw.integers(2))}
    return change, o, o | {"buckets": merged}


def no_faults(draw):
    o = {"layers": layers(draw), "stalled_us": draw.uniform(20, 400)}
    # The other blocks of these kernels do a part of their work meanwhile.
    busy_us = o["stalled_us"] * draw.uniform(0, 0.5)
    after = [(name, us + busy_us * (n < 3)) for n, (name, us) in enumerate(o["layers"])]
    return "faults=0", o, {"layers": after}


FAMILIES = (
    faster_kernels, a_loader, pinned_copies, copies_ahead, no_buffers, a_faster_link, equal_ranks,
    free_launches, larger_buckets, no_faults,
)  # fmt: skip


@cache
def pair(family, seed):
    """What was predicted of a step before a change, and what it takes after it."""
    draw = np.random.default_rng([seed, *family.__name__.encode()])
    change, before, after = family(draw)
    pace = float(draw.normal(1, 0.003))
    both = {
        "contention": draw.uniform(0, 0.08),
        "host_apart_ns": int(draw.integers(-(10**9), 10**9)),
    }
    measured, truth = (
        simulated(before | both, 2 * seed),
        simulated(after | both, 2 * seed + 1, pace),
    )
    result = predict(measured.recording(), [change])
    rows = result.tables["prediction"].to_pylist()
    row = next((r for r in rows if r["phase"] and r["steps"] > STEPS // 2), rows[0])
    return row, measured.step_ns(), truth.step_ns(), result.headline


# The last one makes all collectives of a step one, which then hide behind nothing.
PAIRS = [*((family, seed) for family in FAMILIES for seed in range(4)), (larger_buckets, 8)]


def test_nine_in_ten_truths_are_in_the_range():
    rows = [(*pair(family, seed)[:3], (family.__name__, seed)) for family, seed in PAIRS]
    missed = [of for row, _, truth, of in rows if not row["low_ns"] <= truth <= row["high_ns"]]

    assert len(missed) <= len(PAIRS) / 10, missed


@pytest.mark.parametrize(("family", "seed"), PAIRS)
def test_the_sign_is_right_and_the_size_within_a_quarter(family, seed):
    row, was_ns, truth_ns, headline = pair(family, seed)

    truly_ns, predicted_ns = was_ns - truth_ns, row["measured_ns"] - row["predicted_ns"]
    # Two runs of one program differ by less than that.
    noise_ns = 0.015 * was_ns
    assert abs(truly_ns) < noise_ns or truly_ns * predicted_ns > 0, headline
    assert predicted_ns == pytest.approx(truly_ns, rel=0.25, abs=noise_ns), headline


def test_a_rank_that_is_ahead_of_another_counts_by_its_own_steps():
    """The faster of two ranks is not held up before it is most of a step ahead, in half of them."""
    row, was_ns, truth_ns, _ = pair(equal_ranks, 21)

    assert truth_ns < 0.98 * was_ns
    assert row["predicted_ns"] == pytest.approx(truth_ns, rel=0.003)


def test_steps_of_ranks_that_meet_are_those_of_the_program():
    row, was_ns, _, headline = pair(equal_ranks, 0)

    assert row["device_id"] is None
    assert row["measured_ns"] == pytest.approx(was_ns, rel=0.01)
    # What one rank would win by itself, or none, is no headline.
    assert f"({row['change']:+.1f} %;" in headline
