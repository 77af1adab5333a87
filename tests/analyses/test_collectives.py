"""Collectives, and the map of devices."""

import pytest
from drawing import draw

from gpuprof.analyses.collectives import collective_of, collectives
from gpuprof.analyses.device_map import device_map


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", ("AllReduce", "f32")),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", ("AllReduce", "float")),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWork)", ("SendRecv", "int8_t")),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", ("ReduceScatter", "bf16")),
        ("ncclDevKernel_AllGather_RING_LL(x)", ("AllGather", None)),
        ("ncclAllReduceRingLLKernel_sum_f16(ncclColl)", ("AllReduce", "f16")),
        ("ncclDevKernel_Generic(x)", ("ncclDevKernel_Generic(x)", None)),
    ],
)
def test_collective_and_type_are_read_from_the_name(name, expected):
    assert collective_of(name) == expected


def test_collectives_are_exposed_where_nothing_is_computed():
    reduce = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}
    profile = draw(
        kernels=[(0, 10), (5, 20, reduce), (18, 30, reduce), (0, 4, reduce | {"device_id": 1})]
    )

    names = ("device_id", "collective", "data_type", "calls", "total_ns", "exposed_ns")
    assert [tuple(row[n] for n in names) for row in collectives(profile).to_pylist()] == [
        (0, "AllReduce", "f32", 2, 27, 20),
        (1, "AllReduce", "f32", 1, 4, 4),
    ]


def test_no_communication_kernel_is_an_empty_table():
    assert collectives(draw(kernels=[(0, 10)])).num_rows == 0


def test_devices_are_mapped_to_the_processes_that_use_them():
    profile = draw(
        kernels=[(0, 1), (0, 1), (0, 1, {"device_id": 1, "process_id": 200})],
        memcpys=[(0, 1, {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1})],
        devices=[{"device_id": n, "name": f"V100 no. {n}"} for n in (0, 1, 2)],
        runs=[{"run_id": 0, "process_id": 100, "rank": 4}],
    )

    names = ("device_id", "process_id", "rank", "name", "kernel_calls", "direct_peers")
    assert [tuple(row[n] for n in names) for row in device_map(profile).to_pylist()] == [
        (0, 100, 4, "V100 no. 0", 2, "1"),
        (1, 200, None, "V100 no. 1", 1, "0"),
        (2, None, None, "V100 no. 2", 0, None),
    ]
