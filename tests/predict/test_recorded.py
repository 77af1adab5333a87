"""What operations of a recording are called, and which of them waits for another stream."""

import numpy as np
from launched import PLACE, call
from recordings import copy, kernel, trace

from gpuprof.predict.build import graph_of
from gpuprof.predict.graph import EVENT
from gpuprof.predict.recorded import COLLECTIVE, COPY, KERNEL, MEMSET, recorded


def test_operations_are_called_after_kernels_and_routes_of_copies():
    profile = trace(
        kernels=[kernel("ncclDevKernel_AllReduce", 0, 1), kernel("gemm", 1, 2)],
        memcpys=[
            copy("HtoD", 2, 3, device_id=1, bytes=7, src_memory_kind="pageable"),
            copy("DtoH", 3, 4, device_id=1, dst_memory_kind="pageable"),
            copy("DtoD", 4, 5, device_id=0, src_device_id=0, dst_device_id=1),
            copy("PtoP", 5, 6),
            copy("DtoD", 5, 6, device_id=3),
            copy("HtoD", 6, 7, path="staged", src_device_id=0, dst_device_id=1, bytes=9),
        ],
        memsets=[{"start_ns": 7, "end_ns": 8}],
        graph_launches=[{"start_ns": 8, "end_ns": 9}],
    )

    o, _ = recorded(profile)
    order = np.lexsort((o.device, o.start_ns))

    assert [o.labels[label].text for label in o.label[order].tolist()] == [
        "ncclDevKernel_AllReduce",
        "gemm",
        "HtoD host->1",
        "DtoH 1->host",
        "DtoD_peer 0->1",
        "PtoP ?->?",
        "DtoD 3->3",
        "PtoP_staged 0->1",
        "memset",
        "CUDA graph",
    ]
    assert o.kind[order].tolist() == [COLLECTIVE, KERNEL, *[COPY] * 6, MEMSET, KERNEL]
    assert o.bytes[order].tolist() == [-1, -1, 7, -1, -1, -1, -1, 9, -1, -1]
    assert np.flatnonzero(o.where(lambda label: label.is_pageable)[order]).tolist() == [2, 3]
    assert np.flatnonzero(o.where(lambda label: label.is_peer)[order]).tolist() == [4, 5, 7]
    assert np.flatnonzero(o.where(lambda label: label.is_staged)[order]).tolist() == [7]


def test_work_after_a_wait_of_its_stream_starts_after_what_was_waited_for():
    kernels = [
        kernel(name, start, start + 10, stream_id=stream, correlation_id=number, **PLACE)
        for number, (name, start, stream) in enumerate((("a", 10, 7), ("b", 20, 8)), 1)
    ]
    calls = [call("cudaLaunchKernel", 0, 2, 1), call("cudaLaunchKernel", 6, 8, 2)]
    wait = {"start_ns": 4, "end_ns": 5, "stream_id": 8, "src_stream_id": 7, "src_device_id": 0}

    edges = [
        (
            graph_of(
                trace(kernels=kernels, api_calls=calls, synchronizations=rows)
            ).weights.edges.kind
        )
        for rows in ([wait | PLACE | {"sync_kind": kind}] for kind in ("stream_wait", "event"))
    ]

    assert [np.count_nonzero(kind == EVENT) for kind in edges] == [1, 0]
