"""Latency, bandwidth and sizes of copies."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from drawing import draw
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

from gpuprof.analyses.copy_speeds import Sizes, copy_sizes, copy_speeds, fit, sizes_by_link


def copies(sizes, latency=1000, ns_per_byte=0.1, **columns):
    """Copies one after the other that take exactly L + bytes / B."""
    found, at = [], 0
    for size in sizes:
        end = at + latency + round(size * ns_per_byte)
        found.append((at, end, {"bytes": size, "src_memory_kind": "pinned"} | columns))
        at = end
    return found


def one(profile):
    (row,) = copy_speeds(profile).to_pylist()
    return row


def test_exact_copies_give_their_latency_and_bandwidth():
    row = one(draw(memcpys=copies([10_000, 100_000, 1_000_000, 20_000])))

    assert row["latency_ns"] == pytest.approx(1000)
    assert row["bandwidth_bytes_per_s"] == pytest.approx(10e9)
    assert row["latency_error_ns"] == pytest.approx(0, abs=1e-3)
    assert row["half_speed_bytes"] == pytest.approx(10_000, rel=1e-6)


def test_time_of_copies_below_half_speed_is_latency_bound():
    row = one(draw(memcpys=copies([1000, 2000, 50_000, 1_000_000])))

    assert (row["latency_bound_calls"], row["latency_bound_ns"]) == (2, 1100 + 1200)


def test_sizes_that_are_nearly_one_tell_no_line():
    """A real log: 64 KB, and a byte and two fewer: they made a latency of -52 ms at 1.3 MB/s."""
    sizes = ((65_536, 11_008), (65_535, 9_056), (65_534, 9_089), (65_534, 9_088))
    row = one(draw(memcpys=[(0, ns, {"bytes": size}) for size, ns in sizes]))

    assert (row["sizes"], row["latency_ns"], row["bandwidth_bytes_per_s"]) == (3, None, None)


def test_durations_that_do_not_grow_tell_no_bandwidth():
    row = one(draw(memcpys=[(0, 100, {"bytes": n}) for n in (1000, 2000, 3000)]))

    assert row["latency_ns"] == pytest.approx(100)
    assert row["bandwidth_bytes_per_s"] is None


def test_each_direction_and_kind_of_memory_is_a_link_of_its_own():
    profile = draw(
        memcpys=[
            *copies([1000], memcpy_kind="HtoD"),
            *copies([1000], memcpy_kind="DtoH"),
            *copies([1000], src_memory_kind="pageable"),
        ]
    )

    assert copy_speeds(profile).num_rows == 3


@given(
    st.lists(st.integers(1, 10**6), min_size=3, max_size=9, unique=True),
    st.lists(st.integers(1, 10**6), min_size=9, max_size=9),
)
def test_a_latency_is_never_negative_and_the_line_is_the_best_of_those_left(sizes, durations):
    sizes = np.array(sorted(sizes), float)
    durations = np.array(durations[: len(sizes)], float)
    line = fit(Sizes(sizes, np.ones(len(sizes)), durations, np.zeros(len(sizes))))
    assume(line is not None and line.ns_per_byte > 0)

    rows = np.stack([np.ones(len(sizes)), sizes], axis=1) / durations[:, None]
    (latency, slope), _ = optimize.nnls(rows, np.ones(len(sizes)))
    assert line.latency_ns >= 0
    assert line.latency_ns == pytest.approx(latency, rel=1e-6, abs=1e-6 * durations.max())
    assert line.ns_per_byte == pytest.approx(slope, rel=1e-6)


def test_copies_that_grow_faster_than_their_size_have_no_latency():
    row = one(draw(memcpys=[(0, 100, {"bytes": 1000}), (200, 410, {"bytes": 2000}),
                            (500, 950, {"bytes": 4000})]))  # fmt: skip

    assert row["latency_ns"] == 0
    assert row["bandwidth_bytes_per_s"] == pytest.approx(9.2e9, rel=0.1)
    assert (row["half_speed_bytes"], row["latency_bound_calls"]) == (0, 0)


def test_fit_and_errors_are_those_of_weighted_least_squares():
    rng = np.random.default_rng(0)
    sizes = np.repeat(2 ** np.arange(8, 24), 20)
    duration = np.rint((2000 + sizes / 12) * rng.normal(1, 0.05, len(sizes))).astype(np.int64)
    distinct, index = np.unique(sizes, return_inverse=True)
    calls = np.bincount(index)
    total = np.bincount(index, duration).astype(np.int64)
    spread = np.bincount(index, duration.astype(float) ** 2) / calls - (total / calls) ** 2

    line = fit(Sizes(distinct, calls, total, spread))

    (latency, slope), covariance = optimize.curve_fit(
        lambda x, a, b: a + b * x, sizes, duration, sigma=(total / calls)[index], p0=(1, 1)
    )
    assert line.latency_ns == pytest.approx(latency, rel=1e-4)
    assert line.ns_per_byte == pytest.approx(slope, rel=1e-4)
    errors = np.sqrt(np.diag(covariance))
    assert line.latency_error_ns == pytest.approx(errors[0], rel=1e-3)
    assert line.ns_per_byte_error == pytest.approx(errors[1], rel=1e-3)
    assert abs(line.latency_ns - 2000) < 3 * line.latency_error_ns
    assert abs(line.ns_per_byte - 1 / 12) < 3 * line.ns_per_byte_error


def test_histogram_and_speeds_agree_on_latency_bound_time():
    profile = draw(
        memcpys=[*copies([10, 500, 90_000, 10**6]), *copies([10, 700, 10**6], memcpy_kind="DtoH")]
    )

    bound = sum(row["latency_bound_ns"] or 0 for row in copy_sizes(profile).to_pylist())
    assert bound == sum(row["latency_bound_ns"] for row in copy_speeds(profile).to_pylist())
    assert bound > 0


def test_copies_of_unknown_size_are_in_no_row():
    assert copy_sizes(draw(memcpys=[(0, 10)])).num_rows == 0


def half_speed(some):
    """Latency times bandwidth of (bytes, ns) by exact sums; None where the slope may be chance."""
    by_size = defaultdict(list)
    for size, ns in some:
        by_size[size].append(ns)
    if len(by_size) < 3 or max(by_size) < 2 * min(by_size):
        return None
    usual = {size: max(Fraction(sum(t), len(t)), Fraction(1)) for size, t in by_size.items()}
    weighed = [(1 / usual[size] ** 2, size, ns) for size, ns in some]
    total = sum(w for w, _, _ in weighed)
    x, y = (sum(row[0] * row[place] for row in weighed) / total for place in (1, 2))
    width = sum(w * (size - x) ** 2 for w, size, _ in weighed)
    slope = sum(w * (size - x) * (ns - y) for w, size, ns in weighed) / width
    latency = y - slope * x
    left = sum(w * (ns - latency - slope * size) ** 2 for w, size, ns in weighed)
    sure = slope**2 - 4 * left / (len(some) - 2) / width
    # Floats cannot tell on which side of the threshold such a fit is.
    assume(abs(sure) > Fraction(1, 10**9))
    half = max(latency, Fraction(0)) / slope if slope > 0 and sure > 0 else None
    assume(half is None or all(abs(size - half) > Fraction(1, 10**6) for size, _ in some))
    return half


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=12))
def test_sizes_and_latency_bound_time_are_those_of_exact_sums(drawn):
    some = [(size, 10 + size + extra) for size, extra in drawn]
    half = half_speed(some)
    expected = defaultdict(lambda: [0, 0, 0, None if half is None else 0])
    for size, ns in some:
        row = expected[2 ** (size.bit_length() - 1) if size else 0]
        row[:3] = row[0] + 1, row[1] + size, row[2] + ns
        row[3] = None if half is None else row[3] + ns * (size < half)

    names = ("calls", "bytes", "total_ns", "latency_bound_ns")
    profile = draw(memcpys=[(0, ns, {"bytes": size}) for size, ns in some])
    assert {
        row["from_bytes"]: [row[name] for name in names] for row in copy_sizes(profile).to_pylist()
    } == expected


def test_copies_of_each_size_have_the_mean_and_variance_of_their_durations():
    durations = {8: [10, 20, 60], 16: [5], None: [7]}
    profile = draw(
        memcpys=[(0, ns, {"bytes": size}) for size, some in durations.items() for ns in some]
    )

    (sizes,) = sizes_by_link(profile).values()
    assert sizes.bytes.tolist() == [8, 16]
    assert (sizes.calls.tolist(), sizes.total_ns.tolist()) == ([3, 1], [90, 5])
    assert sizes.spread.tolist() == pytest.approx([np.var(durations[8]), 0])
