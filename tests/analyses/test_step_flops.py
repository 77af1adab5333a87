"""What share of a GPU's peak whole training steps reach."""

import json

import pytest
from recordings import kernel, trace

from gpuprof.analyses.operator_rates import step_flops

A100 = {"device_id": 0, "name": "NVIDIA A100-SXM4-40GB"}
FLOPS = 2 * 1024**3
STEP_NS = 1_000_000


def rows(*, products=2, others=0, data_type="c10::Half", device=A100, name="aten::mm"):
    """Steps of some products in operators, and of some that no operator launched."""
    inputs = {"shapes": [[1024, 1024]] * 2, "types": [data_type] * 2, "values": []}
    ranges, calls, kernels = [], [], []
    thread = {"process_id": 1, "thread_id": 1}
    for step in range(6):
        start = step * STEP_NS
        mark = {"text": f"ProfilerStep#{step}", "range_kind": "annotation", **thread}
        ranges.append(mark | {"start_ns": start, "end_ns": start + STEP_NS})
        for number in range(products + others):
            begin = start + 10_000 * number
            ids = {"process_id": 1, "correlation_id": len(calls)}
            calls.append({"name": "cudaLaunchKernel", "start_ns": begin, "thread_id": 1, **ids})
            kernels.append(kernel("sgemm", begin, begin + 9_000, device_id=0, **ids))
            if number < products:
                of_call = {"text": name, "range_kind": "operation", "inputs": json.dumps(inputs)}
                ranges.append(of_call | thread | {"start_ns": begin, "end_ns": begin + 100})
    ranges.sort(key=lambda row: row["start_ns"])
    tables = {"nvtx_ranges": ranges, "api_calls": calls, "kernels": kernels, "memcpys": []}
    return step_flops(trace(**tables, devices=[device])).to_pylist()


def test_the_share_of_the_peak_is_of_the_whole_step():
    [row] = rows()

    assert (row["device_id"], row["step_ns"], row["gpu"]) == (0, STEP_NS, "A100")
    assert (row["flops"], row["counted_share"]) == (2 * FLOPS, 1.0)
    assert row["flops_per_s"] == pytest.approx(2 * FLOPS / 1e-3)
    assert row["peak_share"] == pytest.approx(2 * FLOPS / 312e12 / 1e-3)


def test_of_products_that_no_operator_launched_the_work_is_unknown():
    [row] = rows(products=3, others=1)

    assert row["counted_share"] == 0.75
    assert (row["flops"], row["flops_per_s"], row["peak_share"]) == (None, None, None)


@pytest.mark.parametrize(
    "changes", [{"device": {"device_id": 0, "name": "TITAN V"}}, {"data_type": "double"}]
)
def test_without_a_peak_the_share_is_unknown(changes):
    [row] = rows(**changes)

    assert row["flops"] == 2 * FLOPS
    assert row["peak_share"] is None


def test_without_operators_of_known_work_there_are_no_rows():
    assert rows(name="aten::nonzero") == []
