"""Collectives that no compute hides: how fast they move data."""

import pytest
from drawing import draw

from gpuprof.findings.findings import findings

NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
V100 = {"devices": [{"device_id": 0, "name": "Tesla V100-SXM2-32GB"}]}
SIZES = {"bytes_in": 8_000, "bytes_out": 8_000, "group_size": 4}


@pytest.mark.parametrize(
    ("sizes", "tables", "said"),
    [
        # 8 KB in 80 ns are 100 GB/s; of four ranks each link carries 3/2 of it.
        pytest.param(SIZES, V100, ", at 150 GB/s of bus bandwidth (100 % of NVLink)", id="peak"),
        pytest.param(SIZES, {}, ", at 150 GB/s of bus bandwidth: ", id="unknown-peak"),
        pytest.param({"bytes_in": 8_000}, V100, "were recorded: ", id="unknown-group"),
        pytest.param({"group_size": 4}, V100, "were recorded: ", id="unknown-sizes"),
    ],
)
def test_the_speed_is_said_where_sizes_are_known(sizes, tables, said):
    times = [(at, at + 80, {"name": NAME, "stream_id": 8}) for at in range(100, 900, 100)]
    message = {"device_id": 0, "process_id": 100, "kernel": NAME, "collective": "allreduce"}
    told = [message | {"start_ns": start, "end_ns": end} | sizes for start, end, _ in times]
    profile = draw(kernels=[(0, 100), *times], collectives=told, **tables)

    [row] = [r for r in findings(profile).to_pylist() if r["cause"] == "collective_transfer"]
    assert said in row["finding"]
