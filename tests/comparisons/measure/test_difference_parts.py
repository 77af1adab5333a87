"""The difference splits without remainder, whatever ran."""

import pytest
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import PUBLISHED_DUAL, SINGLE, copy, kernel, summary, trace

from gpuprof.analyses.breakdown import breakdown
from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure.device_time import per_step
from gpuprof.show import Page, renderer_named

_times = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda t: (t[0], sum(t)))
_shape = dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)
_names = st.sampled_from(["conv", "dense", "ncclDevKernel_AllReduce_Sum_f32"])
_kernels = st.builds(
    lambda t, device, name, grid: (
        *t,
        {**_shape, "device_id": device, "name": name, "grid_x": grid},
    ),
    _times,
    st.integers(0, 1),
    _names,
    st.integers(1, 2),
)
_ends = {
    "HtoD": {},
    "DtoH": {},
    "DtoD": {},
    "PtoP": {"src_device_id": 0, "dst_device_id": 1},
    "UVM_HtoD": {},
    "unheard_of": {},
}
_copies = st.builds(
    lambda t, device, kind: (*t, {"device_id": device, "memcpy_kind": kind, **_ends[kind]}),
    _times,
    st.integers(0, 1),
    st.sampled_from(sorted(_ends)),
)
_memsets = st.builds(lambda t, device: (*t, {"device_id": device}), _times, st.integers(0, 1))
_recordings = st.builds(
    lambda kernels, memcpys, memsets: {"kernels": kernels, "memcpys": memcpys, "memsets": memsets},
    st.lists(_kernels, min_size=1, max_size=8),
    st.lists(_copies, max_size=8),
    st.lists(_memsets, max_size=3),
)


def _split(result, basis):
    return {r["part"]: r for r in result.split.to_pylist() if r["basis"] == basis}


def _total(rows, column):
    return sum(row[column] for row in rows.values())


_few = settings(max_examples=15)


def _figure(result, metric):
    """A metric of both sides in whole ns, of a step where a pattern was taken for steps."""
    medians = {
        r["variant"]: r["median"] for r in result.figures.to_pylist() if r["metric"] == metric
    }
    return round(medians["a"]), round(medians["b"])


def _totals(rows):
    return _total(rows, "baseline_ns"), _total(rows, "candidate_ns")


@_few
@given(_recordings, _recordings)
def test_the_parts_add_up_without_remainder(first, second):
    result = comparison({"a": draw(**first), "b": draw(**second)})

    clock = "step_ns" if result.unit == "step" else "span_ns"
    assert _totals(_split(result, "exposed")) == _figure(result, clock)
    assert _totals(_split(result, "sums")) == _figure(result, "gpu_activity_ns")
    for row in result.split.to_pylist():
        assert row["difference_ns"] == row["candidate_ns"] - row["baseline_ns"]


_GROUPS = {
    "kernels": "compute_ns",
    "communication": "exposed_communication_ns",
    "transfers": "exposed_transfer_ns",
    "idle": "idle_ns",
}


@_few
@given(_recordings)
def test_the_parts_are_the_breakdown_of_the_busiest_device(drawn):
    profile = draw(**drawn)
    reshaped = draw(kernels=[(0, 5, {**_shape, "name": "conv", "grid_x": 1})])

    result = comparison({"a": profile, "b": reshaped})

    assert result.unit == "recording"
    sums = dict.fromkeys(_GROUPS, 0)
    for row in _split(result, "exposed").values():
        if row["part_group"] in sums:
            sums[row["part_group"]] += row["baseline_ns"]
    devices = breakdown(profile).to_pylist()
    busiest = max(devices, key=lambda row: row["span_ns"] - row["idle_ns"])
    assert sums == {group: busiest[column] for group, column in _GROUPS.items()}


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**15), min_size=1),
    st.integers(1, 10_000),
)
def test_the_parts_of_a_step_add_up_to_the_rounded_step(times, steps):
    rounded = per_step(times, steps)

    assert sum(rounded.values()) == round(sum(times.values()) / steps)
    assert all(abs(rounded[part] - times[part] / steps) <= 1 for part in times)


def test_the_difference_that_is_said_is_what_the_parts_add_up_to():
    marks = {"epochs": [{"epoch": 0, "seconds": 1.0, "steps": 3}]}

    result = comparison(
        {"a": draw(kernels=[(0, 14)], **marks), "b": draw(kernels=[(0, 25)], **marks)}
    )

    # 14 / 3 and 25 / 3 are 5 and 8 ns; their difference as such would be 3.67 ns.
    assert result.outcomes.column("difference").to_pylist() == [3]
    assert _total(_split(result, "exposed"), "difference_ns") == 3
    assert " and 3 ns (60.0 %) more per step: compute grew by 3 ns " in result.verdict


def _memcpy(name, start, end, **columns):
    return (start, end, {**_shape, "name": name, **columns})


def test_each_part_is_where_the_time_went():
    base = draw(kernels=[_memcpy("conv", 0, 10), _memcpy("old", 10, 14)], memcpys=[(16, 20)])
    candidate = draw(
        kernels=[_memcpy("conv", 0, 12), _memcpy("new", 20, 25)],
        memcpys=[(10, 20, {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0})],
    )

    rows = _split(comparison({"a": base, "b": candidate}), "exposed")

    sides = {part: (row["baseline_ns"], row["candidate_ns"]) for part, row in rows.items()}
    assert sides == {
        "kernels_common": (10, 12),
        "kernels_new": (0, 5),
        "kernels_gone": (4, 0),
        "PtoP": (0, 8),
        "HtoD": (4, 0),
        "idle": (2, 0),
    }


def test_an_instant_of_two_kernels_belongs_to_the_one_that_both_sides_have():
    base = draw(kernels=[_memcpy("conv", 0, 10)])
    candidate = draw(kernels=[_memcpy("conv", 0, 10), _memcpy("new", 5, 15)])

    rows = _split(comparison({"a": base, "b": candidate}), "exposed")

    assert rows["kernels_common"]["candidate_ns"] == 10
    assert rows["kernels_new"]["candidate_ns"] == 5


def test_a_kernel_in_another_launch_shape_is_the_same_kernel():
    base, candidate = (
        draw(kernels=[_memcpy("conv", 0, 10)]),
        draw(kernels=[_memcpy("conv", 0, 6, grid_x=2)]),
    )

    result = comparison({"a": base, "b": candidate})

    rows = {(r["grid"], r["status"], r["is_reshaped"]) for r in result.kernels.to_pylist()}
    assert rows == {(None, "faster", True)}
    assert {r["part"] for r in result.split.to_pylist()} == {"kernels_common"}
    shown = renderer_named("terminal").comparison(result, Page(tables=("kernels",)))
    assert "other shapes" in shown


def test_a_further_launch_shape_is_new_and_none_is_removed():
    base, candidate = (
        draw(kernels=[_memcpy("conv", 0, 10)]),
        draw(kernels=[_memcpy("conv", 0, 10), _memcpy("conv", 10, 16, grid_x=2)]),
    )

    rows = comparison({"a": base, "b": candidate}).kernels.to_pylist()

    shown = {(r["grid"], r["status"], r["is_reshaped"]) for r in rows}
    assert shown == {("1x1x1", "same", False), ("2x1x1", "new", True)}


def test_kernels_are_matched_by_name_where_a_summary_tells_no_shape():
    trace = draw(kernels=[_memcpy("void conv<(int)4, true>(float*)", 0, 10)])
    listed = {
        "activity_kind": "kernel",
        "name": "void conv<int=4, true>(float*)",
        "calls": 1,
        "total_ns": 8,
    }

    result = comparison({"a": summary(listed), "b": trace})
    text = renderer_named("terminal").comparison(result, Page(tables=("kernels",)))

    rows = result.kernels.to_pylist()
    assert [(r["status"], r["difference_ns"], r["grid"]) for r in rows] == [("slower", 2, None)]
    assert "Kernels are matched by name alone, because a has no launch shapes." in result.notes
    assert "Kernels of b against a, by name alone" in text


@pytest.mark.parametrize("candidate", [summary(*PUBLISHED_DUAL), draw()], ids=["excerpt", "empty"])
def test_what_one_side_does_not_know_is_not_split(candidate):
    result = comparison({"a": summary(*SINGLE), "b": candidate})

    assert _split(result, "exposed") == {}


def test_the_share_of_what_did_not_change_has_no_sign():
    place = {"device_id": 0}
    slow, fast = (
        trace(kernels=[kernel("k", 0, 50, **place)], memcpys=[copy("HtoD", 50, end, **place)])
        for end in (90, 70)
    )
    rows = comparison({"slow": slow, "fast": fast}).split.to_pylist()

    assert {str(row["share"]) for row in rows if row["part"] == "kernels_common"} == {"0.0"}


CANCELLED = {
    "cancel-out": (19, -18, None),
    "cancel-in-part": (40, -3, None),
    "next-to-nothing": (40, -1, 40 / 39),
    "together": (40, 10, 0.8),
}


@pytest.mark.parametrize(("kernel_ns", "idle_ns", "share"), CANCELLED.values(), ids=CANCELLED)
def test_shares_of_what_cancels_out_are_not_told(kernel_ns, idle_ns, share):
    base = draw(kernels=[_memcpy("conv", 0, 10), _memcpy("end", 100, 110)])
    end = 100 + kernel_ns + idle_ns
    candidate = draw(kernels=[_memcpy("conv", 0, kernel_ns + 10), _memcpy("end", end, end + 10)])

    result = comparison({"a": base, "b": candidate})

    rows = {row["part"]: row for row in result.split.to_pylist() if row["basis"] == "exposed"}
    assert rows["kernels_common"]["difference_ns"] == kernel_ns
    assert rows["idle"]["difference_ns"] == idle_ns
    assert rows["kernels_common"]["share"] == share
    text = renderer_named("terminal").comparison(result, Page())
    assert ("Share" in text) == (share is not None)
