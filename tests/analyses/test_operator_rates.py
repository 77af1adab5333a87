"""How fast operators compute and move data, beside the peaks of their GPU."""

import gzip
import json
from math import prod

import pytest
from commands import CORPUS
from recordings import kernel, trace

from gpuprof.analyses.operator_rates import operator_rates
from gpuprof.readers import read_profile

A100 = {"device_id": 0, "name": "NVIDIA A100-SXM4-40GB"}
HALF = "c10::Half"
SQUARES = [[1024, 1024], [1024, 1024]]
FLOPS, BYTES = 2 * 1024**3, 3 * 2 * 1024**2


def operation(name, start, end, shapes=SQUARES, data_type=HALF, **columns):
    inputs = {"shapes": shapes, "types": [data_type] * len(shapes), "values": []}
    return {
        "text": name,
        "start_ns": start,
        "end_ns": end,
        "range_kind": "operation",
        "inputs": json.dumps(inputs),
        "process_id": 1,
        "thread_id": 1,
        **columns,
    }


def rows(operations, kernels, devices=(A100,)):
    """Kernels by when they were launched, and how long they ran on which device."""
    calls, run = [], []
    for number, (launch_ns, duration_ns, device) in enumerate(kernels):
        ids = {"process_id": 1, "correlation_id": number}
        calls.append({"name": "cudaLaunchKernel", "start_ns": launch_ns, "thread_id": 1, **ids})
        begin = 1_000_000 + 1_000_000 * number
        run.append(kernel("k", begin, begin + duration_ns, device_id=device, **ids))
    tables = {"nvtx_ranges": operations, "api_calls": calls, "kernels": run}
    return operator_rates(trace(**tables, devices=[*devices])).to_pylist()


def test_a_product_is_set_beside_the_peak_of_its_type():
    [row] = rows(
        [operation("aten::mm", 0, 10), operation("aten::mm", 20, 30)],
        [(5, 10_000, 0), (25, 30_000, 0), (28, 10_000, 0), (40, 99_000, 0)],
    )

    assert (row["operator"], row["calls"], row["total_ns"]) == ("aten::mm", 2, 50_000)
    assert (row["flops"], row["bytes"], row["data_type"]) == (FLOPS, BYTES, "half")
    assert row["shapes"] == "1024x1024 1024x1024"
    assert row["flops_per_s"] == pytest.approx(2 * FLOPS / 50e-6)
    assert row["bytes_per_s"] == pytest.approx(2 * BYTES / 50e-6)
    assert (row["gpu"], row["limited_by"]) == ("A100", "compute")
    least_ns = 2 * FLOPS / 312e12 * 1e9
    assert row["roofline_share"] == pytest.approx(least_ns / 50_000)
    assert row["excess_ns"] == 50_000 - round(least_ns)


def test_what_multiplies_no_matrices_is_limited_by_memory():
    [row] = rows([operation("aten::add", 0, 10)], [(5, 8_000, 0)])

    assert (row["flops"], row["flops_per_s"], row["limited_by"]) == (None, None, "memory")
    assert row["roofline_share"] == pytest.approx(BYTES / 1555e9 * 1e9 / 8_000)


def test_from_the_cache_it_can_be_faster_than_the_memory():
    [row] = rows([operation("aten::add", 0, 10)], [(5, 1_000, 0)])

    assert row["roofline_share"] > 1
    assert row["excess_ns"] == 0


def test_operators_within_another_are_a_part_of_it():
    [row] = rows(
        [operation("aten::mm", 0, 10), operation("aten::copy_", 2, 6)],
        [(3, 1_000, 0), (8, 9_000, 0)],
    )

    assert (row["operator"], row["total_ns"]) == ("aten::mm", 10_000)


def test_other_shapes_types_and_gpus_are_other_rows():
    found = rows(
        [
            operation("aten::mm", 0, 10),
            operation("aten::mm", 20, 30, shapes=[[8, 8], [8, 8]]),
            operation("aten::mm", 40, 50, data_type="float"),
            operation("aten::mm", 60, 70),
        ],
        [(5, 4_000, 0), (25, 3_000, 0), (45, 2_000, 0), (65, 1_000, 1)],
        devices=[A100, {"device_id": 1, "name": "TITAN V"}],
    )

    assert [(r["total_ns"], r["shapes"], r["data_type"], r["gpu"]) for r in found] == [
        (4_000, "1024x1024 1024x1024", "half", "A100"),
        (3_000, "8x8 8x8", "half", "A100"),
        (2_000, "1024x1024 1024x1024", "float", "A100"),
        (1_000, "1024x1024 1024x1024", "half", None),
    ]
    assert [r["roofline_share"] is None for r in found] == [False, False, False, True]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("aten::mm", {"inputs": None}),
        ("aten::mm", {"shapes": [[4, 8], [9, 2]]}),
        ("aten::mm", {"shapes": [[1 << 40, 4], [4, 4]]}),
        ("aten::nonzero", {}),
        ("aten::mm", {"range_kind": "push_pop"}),
    ],
)
def test_of_unknown_work_there_is_no_row(name, changes):
    assert rows([operation(name, 0, 10, **changes)], [(5, 1_000, 0)]) == []


def test_on_a_device_that_is_not_known_it_is_the_same_work():
    product, addition = rows(
        [operation("aten::mm", 0, 10), operation("aten::add", 20, 30)],
        [(5, 9_000, None), (25, 3_000, None)],
    )

    assert [product["operator"], addition["operator"]] == ["aten::mm", "aten::add"]
    assert (product["flops"], product["gpu"], product["roofline_share"]) == (FLOPS, None, None)


def test_calls_that_launch_nothing_do_not_count():
    assert rows([operation("aten::mm", 0, 10)], [(15, 1_000, 0)]) == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
def test_large_tensors_of_a_real_network_pass_at_the_speed_of_the_memory():
    profile = read_profile(CORPUS / "kineto" / "tb_resnet50_v2_worker0.pt.trace.json.gz")
    large = [
        row
        for row in operator_rates(profile).to_pylist()
        if row["limited_by"] == "memory" and row["bytes"] > 100e6
    ]

    assert len(large) > 10
    assert {row["gpu"] for row in large} == {"V100"}
    # Streaming kernels of a V100 reach some 800 of 900 GB/s.
    assert all(0.5 < row["roofline_share"] < 1 for row in large)
    assert 0.88 < large[0]["roofline_share"] < 0.95


PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2)}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
@pytest.mark.parametrize(
    ("name", "without_kernels"),
    [
        ("hta_timeline_analysis__sampled_rank-0.json.gz", [[256, 2048, 2048, 2400]]),
        ("hta_trace_diff__test__test.json.gz", []),
        ("param_dlrm_worker0_step_12.1694128201545.pt.trace.json", []),
    ],
)
def test_products_of_real_traces_count_two_for_each_multiplication(name, without_kernels):
    path = CORPUS / "kineto" / name
    text = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    expected = 0
    for event in json.loads(text)["traceEvents"]:
        if event.get("name") in PRODUCTS and "Input Dims" in event.get("args", {}):
            first, second = (event["args"]["Input Dims"][at] for at in PRODUCTS[event["name"]])
            expected += 2 * prod(first) * second[-1]
    expected -= sum(2 * rows * inner * columns for rows, inner, _, columns in without_kernels)

    counted = [
        row["calls"] * row["flops"]
        for row in operator_rates(read_profile(path)).to_pylist()
        if row["operator"] in PRODUCTS
    ]
    assert sum(counted) == expected > 0
