"""Collectives, and the map of devices."""

import random
from collections import defaultdict

import pytest
from drawing import draw

from gpuprof.analyses.collectives import collectives
from gpuprof.analyses.device_map import device_map
from gpuprof.facts.communication import bus_factor, collective_of


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


REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"
TOLD = ("collective", "data_type", "message_bytes", "group_size", "process_group", "calls")


def message(start, end, **columns):
    usual = {"device_id": 0, "process_id": 100, "kernel": REDUCE, "collective": "allreduce"}
    return usual | {"start_ns": start, "end_ns": end, "data_type": "Float"} | columns


def test_messages_and_groups_are_told_apart_where_the_framework_tells_them():
    small = {"bytes_in": 80, "bytes_out": 80, "group_size": 4, "process_group": "ddp"}
    profile = draw(
        kernels=[(n * 10, n * 10 + 8, {"name": REDUCE}) for n in range(4)],
        collectives=[
            message(0, 8, **small),
            message(10, 18, **small),
            message(20, 28, **small | {"group_size": 2, "process_group": "pair"}),
        ],
    )

    found = {tuple(row[n] for n in TOLD) for row in collectives(profile).to_pylist()}
    assert found == {
        ("allreduce", "Float", 80, 4, "ddp", 2),
        ("allreduce", "Float", 80, 2, "pair", 1),
        ("AllReduce", "f32", None, None, None, 1),
    }


H800 = {"device_id": 0, "name": "NVIDIA H800 PCIe", "compute_capability": "9.0"}
PCIE = {"device_id": 0, "link": "PCIe 3 x16", "bytes_per_s": 16}


def board(name):
    return {"devices": [{"device_id": 0, "name": name}]}


def nvlink(device, peer, rate):
    link = {"device_id": device, "peer_device_id": peer, "link": f"NVLink 2 x{rate // 25}"}
    return link | {"bytes_per_s": rate}


@pytest.mark.parametrize(
    ("tables", "peak"),
    [
        ({}, None),
        (board("Tesla P100-SXM2-16GB"), 80e9),
        (board("Tesla V100-SXM2-32GB"), 150e9),
        (board("NVIDIA A800-SXM4-80GB"), 200e9),
        (board("NVIDIA H800"), 200e9),
        (board("NVIDIA A100-SXM4-40GB"), 300e9),
        (board("NVIDIA H100 80GB HBM3"), 450e9),
        (board("NVIDIA H200"), 450e9),
        (board("NVIDIA H200 NVL"), None),
        (board("NVIDIA B200"), 900e9),
        ({"devices": [H800]}, 63e9),
        ({"devices": [{"device_id": 1, "name": "Tesla V100-SXM2-32GB"}]}, None),
        ({"links": [nvlink(0, 1, 50), nvlink(0, 2, 25), nvlink(1, 2, 25), PCIE]}, 75),
        ({"links": [PCIE]}, 16),
    ],
)
def test_the_peak_is_that_of_all_links_of_the_device(tables, peak):
    sizes = {"bytes_in": 80, "bytes_out": 80, "group_size": 4}
    of_call = {"kernels": [(0, 16, {"name": REDUCE})], "collectives": [message(0, 16, **sizes)]}

    [row] = collectives(draw(**of_call, **tables)).to_pylist()

    assert row["peak_bytes_per_s"] == (peak if peak is None else pytest.approx(peak, rel=0.01))
    share = None if peak is None else pytest.approx(7.5e9 / row["peak_bytes_per_s"])
    assert row["peak_share"] == share


def test_bandwidths_are_those_of_nccl_tests():
    """Two all-reduces of 80 B in 16 ns: 10 GB/s; of four ranks, each link carries 3/2 of it."""
    sizes = {"bytes_in": 80, "bytes_out": 80, "group_size": 4}
    profile = draw(
        kernels=[(0, 6, {"name": REDUCE}), (10, 20, {"name": REDUCE})],
        collectives=[message(0, 6, **sizes), message(10, 20, **sizes)],
    )

    [row] = collectives(profile).to_pylist()
    assert (row["algorithm_bytes_per_s"], row["bus_bytes_per_s"]) == (10e9, 15e9)


@pytest.mark.parametrize(
    ("word", "size", "factor"),
    [
        ("allreduce", 8, 1.75),
        ("AllReduce", 2, 1.0),
        ("allreduce_coalesced", 4, 1.5),
        ("_allgather_base", 4, 0.75),
        ("reduce_scatter_tensor_coalesced", 4, 0.75),
        ("all_to_allv", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send", None, 1.0),
        ("SendRecv", None, 1.0),
        ("allreduce", None, None),
        ("barrier", 8, None),
    ],
)
def test_a_link_carries_a_message_as_often_as_the_collective_needs(word, size, factor):
    assert bus_factor(word, size) == factor


def test_the_larger_side_of_a_gather_is_its_message():
    gather = message(0, 8, bytes_in=20, bytes_out=80, collective="_allgather_base", group_size=4)
    profile = draw(kernels=[(0, 8, {"name": REDUCE})], collectives=[gather])

    [row] = collectives(profile).to_pylist()
    assert (row["message_bytes"], row["algorithm_bytes_per_s"]) == (80, 10e9)


def test_without_a_size_there_is_no_bandwidth():
    told = message(0, 8, group_size=4)
    profile = draw(kernels=[(0, 8, {"name": REDUCE})], collectives=[told])

    [row] = collectives(profile).to_pylist()
    assert (row["algorithm_bytes_per_s"], row["bus_bytes_per_s"]) == (None, None)


def test_a_message_belongs_to_the_kernel_of_its_own_process_and_device():
    apart = [{"device_id": 1}, {"process_id": 200}]
    profile = draw(
        kernels=[(0, 8, {"name": REDUCE} | other) for other in apart],
        collectives=[message(0, 8, bytes_in=8)],
    )

    assert [row["message_bytes"] for row in collectives(profile).to_pylist()] == [None, None]


@pytest.mark.parametrize("seed", range(20))
def test_sums_are_those_of_a_walk_over_all_instants(seed):
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    names = {"ncclKernel_AllReduce_RING_LL_Sum_float(x)": "AllReduce", "a 'gemm'": None}
    names |= {
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)": "SendRecv",
        "it's ncclKernel": "it's ncclKernel",
    }
    kernels = []
    for _ in range(dice.randrange(1, 15)):
        start = dice.randrange(30)
        place = {"name": dice.choice(list(names)), "device_id": dice.choice([0, 1, None])}
        kernels.append((start, start + dice.randrange(9), place))
    calls, exposed = defaultdict(int), defaultdict(set)
    for start, end, place in kernels:
        key = (place["device_id"], names[place["name"]])
        calls[key] += 1
        exposed[key] |= set(range(start, end))

    found = {
        (row["device_id"], row["collective"]): (row["calls"], row["exposed_ns"])
        for row in collectives(draw(kernels=kernels)).to_pylist()
    }
    assert found == {
        key: (calls[key], len(instants - exposed[key[0], None]))
        for key, instants in list(exposed.items())
        if key[1] is not None
    }


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
