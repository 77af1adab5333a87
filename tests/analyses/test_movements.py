"""Copies and collectives by the ranges, modules and operations that launched them."""

import pytest
from drawing import draw

from gpuprof.analyses.movements import movements
from gpuprof.facts.launch_paths import paths_of_ranges
from gpuprof.findings.findings import findings
from gpuprof.model.table import Selection

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
MODULE = {"library": "python", "process_id": 100, "thread_id": 1}


def launched(*work, ranges=(), modules=(), **tables):
    """Copies of 10 ns and kernels, each launched at an instant, and what is open then.

    Args:
        work: Instants with a memcpy kind, or the name of a kernel; a thread may follow.
        ranges: Start, end and text.
        modules: Start, end and name.
    """
    tables = {"kernels": [], "memcpys": [], "api_calls": []} | tables
    for number, (at, what, *thread) in enumerate(work, start=1):
        call, is_copy = {"correlation_id": number}, what.endswith(("toD", "toH"))
        row = {"memcpy_kind": what, "bytes": 40} if is_copy else {"name": what}
        tables["memcpys" if is_copy else "kernels"].append((100 + at, 110 + at, row | call))
        tables["api_calls"].append((at, at + 1, call | {"thread_id": thread[0] if thread else 1}))
    tables["nvtx_ranges"] = [
        (start, end, {"text": text} | (rest[0] if rest else {}))
        for start, end, text, *rest in ranges
    ]
    if modules:
        tables["host_calls"] = [
            (start, end, MODULE | {"name": f"nn.Module: {name}"}) for start, end, name in modules
        ]
    return draw(**tables)


def told(profile):
    return {
        (row["program_part"], row["movement"]): (row["part_kind"], row["calls"])
        for row in movements(profile).to_pylist()
    }


def test_a_recording_without_movement_has_no_rows():
    assert told(draw(kernels=[(0, 9)], api_calls=[])) == {}


def test_paths_have_all_parts_that_are_open_from_the_outermost_on():
    profile = launched(
        *((12, "HtoD"), (22, "HtoD"), (23, NCCL), (35, "DtoD"), (60, "HtoD"), (24, "matmul")),
        ranges=[(10, 50, "encoder"), (20, 30, "layer_3"), (21, 29, "ncclAllReduce"), (30, 31, "x")],
    )

    assert told(profile) == {
        ("encoder", "HtoD"): ("range", 1),
        ("encoder/layer_3", "HtoD"): ("range", 1),
        ("encoder/layer_3", "AllReduce"): ("range", 1),
        ("encoder", "DtoD"): ("range", 1),
        (None, "HtoD"): (None, 1),
    }


def test_modules_are_parts_within_and_around_ranges():
    profile = launched(
        *((12, "HtoD"), (22, NCCL)),
        ranges=[(0, 50, "forward")],
        modules=[(1, 49, "Net_0"), (20, 30, "Linear_3")],
    )

    assert told(profile) == {
        ("forward/Net_0", "HtoD"): ("module", 1),
        ("forward/Net_0/Linear_3", "AllReduce"): ("module", 1),
    }


def test_steps_are_one_part_and_layers_that_come_back_are_several():
    steps = [
        part
        for at in (0, 100)
        for part in (
            (at, at + 90, f"batch {at}"),
            (at + 10, at + 20, "block 1"),
            (at + 20, at + 30, "block 2"),
            (at, at + 90, f"ProfilerStep#{at}"),
        )
    ]
    profile = launched((12, "HtoD"), (22, "HtoD"), (112, "HtoD"), ranges=steps)

    assert told(profile) == {
        ("batch */block 1", "HtoD"): ("range", 2),
        ("batch */block 2", "HtoD"): ("range", 1),
    }


def test_where_no_part_is_open_the_outermost_operation_is_it():
    operation = {"range_kind": "operation"}
    profile = launched(
        *((12, "HtoD"), (22, NCCL), (32, "HtoD")),
        ranges=[
            (10, 30, "MmBackward0, seq = 3, op_id = 7"),
            (20, 25, "c10d::allreduce_", operation),
            (30, 40, "load"),
            (31, 39, "aten::to", operation),
        ],
    )

    assert told(profile) == {
        ("MmBackward0", "HtoD"): ("operation", 1),
        ("MmBackward0", "AllReduce"): ("operation", 1),
        ("load", "HtoD"): ("range", 1),
    }


def test_ranges_of_other_threads_are_not_meant():
    assert told(launched((12, "HtoD", 2), ranges=[(0, 50, "forward")])) == {
        (None, "HtoD"): (None, 1)
    }


def test_kernels_of_a_graph_belong_to_the_part_that_launched_the_graph():
    """It was captured within another one."""
    of_graph = {"name": NCCL, "correlation_id": 1, "graph_node_id": 5}
    profile = draw(
        kernels=[(100, 120, of_graph), (120, 140, of_graph)],
        api_calls=[(50, 51, {"name": "cudaGraphLaunch", "correlation_id": 1})],
        nvtx_ranges=[(0, 20, {"text": "capture"}), (40, 60, {"text": "replay"})],
    )

    assert told(profile) == {("replay", "AllReduce"): ("range", 2)}


def test_figures_of_copies_and_collectives():
    message = {"collective": "allreduce", "bytes_in": 100, "group_size": 4, "device_id": 0}
    kernels = [
        (at, at + 10 + extra, {"name": NCCL, "correlation_id": number})
        for number, (at, extra) in enumerate([(200, 0), (300, 0), (400, 0), (500, 0), (600, 40)])
    ]
    profile = draw(
        kernels=[*kernels, (605, 610, {"name": "matmul", "correlation_id": 9, "stream_id": 8})],
        memcpys=[(0, 100, {"correlation_id": 8, "bytes": 50})],
        api_calls=[(at, at + 1, {"correlation_id": at}) for at in range(10)],
        collectives=[(s, e, message | {"process_id": 100}) for s, e, _ in kernels],
    )

    copies, reduce = sorted(movements(profile).to_pylist(), key=lambda row: row["calls"])

    assert (copies["bytes"], copies["total_ns"], copies["exposed_ns"]) == (50, 100, 100)
    assert (copies["bytes_per_s"], copies["waiting_ns"], copies["bus_bytes"]) == (5e8, None, None)
    assert (reduce["calls"], reduce["bytes"], reduce["bus_bytes"]) == (5, 500, 750)
    assert (reduce["total_ns"], reduce["exposed_ns"]) == (90, 85)
    assert (reduce["transfer_ns"], reduce["waiting_ns"], reduce["arrival_lag_ns"]) == (50, 40, None)
    assert (reduce["bytes_per_s"], reduce["bus_bytes_per_s"]) == (1e10, 1.5e10)


def test_arrival_is_compared_where_all_ranks_are_known():
    kernels, calls = [], []
    for device, late in ((0, 0), (1, 30)):
        for call in range(6):
            row = {"correlation_id": 10 * device + call, "device_id": device}
            kernels.append((100 * call + late, 100 * call + 50, row | {"name": NCCL}))
            calls.append((100 * call - 9, 100 * call - 8, row | {"thread_id": device}))
    ranges = [(-50, 900, {"text": "backward", "thread_id": device}) for device in (0, 1)]
    profile = draw(
        kernels=kernels,
        api_calls=[(s, e, {k: v for k, v in r.items() if k != "device_id"}) for s, e, r in calls],
        nvtx_ranges=ranges,
    )

    rows = {row["device_id"]: row for row in movements(profile).to_pylist()}

    figures = ("program_part", "transfer_ns", "waiting_ns", "arrival_lag_ns")
    assert [rows[0][name] for name in figures] == ["backward", 120, 180, 0]
    assert [rows[1][name] for name in figures] == ["backward", 120, 0, 180]


def test_a_part_of_a_recording_has_what_starts_in_it():
    profile = launched((12, "HtoD"), (22, NCCL), ranges=[(0, 50, "forward")])

    assert told(profile.restricted(Selection(((100, 115),)))) == {("forward", "HtoD"): ("range", 1)}
    assert told(profile.restricted(Selection(None, 1))) == {}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        pytest.param(
            ["layer_1", "layer_1", "layer_2"], ", 66.7 % of it from net/layer_1", id="one"
        ),
        pytest.param(["layer_1", "layer_2", "layer_3"], ", 100 % of it from net", id="around"),
    ],
)
def test_a_finding_names_the_innermost_part_that_launched_most(texts, said):
    """A kernel of 100 us and three copies of 20 us, each launched in another range."""
    copies = [
        (at, at + 20_000, {"correlation_id": number, "bytes": 64})
        for number, at in enumerate((100_000, 120_000, 140_000), start=2)
    ]
    profile = draw(
        kernels=[(0, 100_000, {"correlation_id": 1})],
        memcpys=copies,
        api_calls=[(-100 + 10 * n, -99 + 10 * n, {"correlation_id": n}) for n in (1, 2, 3, 4)],
        nvtx_ranges=[
            (-200, 0, {"text": "net"}),
            *(
                (-101 + 10 * n, -98 + 10 * n, {"text": text})
                for n, text in enumerate(texts, start=2)
            ),
        ],
    )

    [row] = [r for r in findings(profile).to_pylist() if r["cause"] == "exposed_host_copies"]
    assert said in row["finding"]
    assert row["where"] == f"host to device 0, {said.rpartition(' ')[2]}"


def test_a_finding_names_no_part_where_none_launched_most():
    ranges = [(10, 20, "a"), (30, 40, "b")]
    profile = launched((12, "HtoD"), (32, "HtoD"), (1, "matmul"), ranges=ranges)

    paths = paths_of_ranges(profile)
    assert paths.most_of(paths.path, (profile.table("memcpys")["start_ns"].to_numpy() > 0) * 5) == (
        (),
        0.0,
    )
