"""What framework operations and the backward pass launched."""

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from drawing import copied, draw

from gpuprof.analyses.ranges import ranges
from gpuprof.analyses.steps import steps
from gpuprof.facts.moves import backward_peer_share
from gpuprof.model.data_model import NVTX_RANGES
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "kineto"
NS = "hta_ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
OLD = "tb_resnet50_v2_worker0.pt.trace.json.gz"
OLDEST = "tb_resnet50_oldest_worker0.pt.trace.json.gz"
OPERATIONS = {"cpu_op", "Operator"}
WORK = {"kernel": "kernel_ns", "Kernel": "kernel_ns", "Memcpy": "transfer_ns"}
# Copies within one memory are no transfers.
WORK |= {"gpu_memcpy": "transfer_ns"}

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


@cache
def _read(name):
    return read_profile(CORPUS / name)


def _events(name):
    trace = json.loads(gzip.decompress((CORPUS / name).read_bytes()), parse_float=Decimal)
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def _number(args):
    return args.get("External id") or args.get("external id")


def _stacks(operations):
    """The texts of all operations around each one, itself the last, by its id."""
    by_thread = defaultdict(list)
    for event in operations:
        by_thread[event["tid"]].append(event)
    stacks = {}
    for events in by_thread.values():
        opened = []
        for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            while opened and opened[-1]["ts"] + opened[-1]["dur"] <= event["ts"]:
                opened.pop()
            opened.append(event)
            stacks[_number(event["args"])] = [re.sub(r"#\d+$", "#*", one["name"]) for one in opened]
    return stacks


def _by_id(name):
    """Time of kernels and transfers by text: of all work in it, and of what it launched itself.

    Operations call others of their own text, which hold the same work.
    """
    events = _events(name)
    stacks = _stacks([event for event in events if event.get("cat") in OPERATIONS])
    times = defaultdict(lambda: defaultdict(int))
    for event in events:
        column = WORK.get(event.get("cat"))
        stack = stacks.get(_number(event["args"]), []) if column else []
        if column == "transfer_ns" and "DtoD" in event["name"]:
            continue
        for text in set(stack):
            times[text][column] += int(event["dur"] * 1000)
        for text in stack[-1:]:
            times[text][f"self_{column}"] += int(event["dur"] * 1000)
    return {text: dict(sums) for text, sums in times.items()}


@needs_corpus
@pytest.mark.parametrize("name", [NS, OLD, OLDEST])
def test_work_of_each_operation_is_what_the_ids_in_the_trace_say(name):
    expected = _by_id(name)
    columns = ("kernel_ns", "self_kernel_ns", "transfer_ns", "self_transfer_ns")
    found = {
        row["text"]: {column: row[column] for column in columns if row[column]}
        for row in ranges(_read(name)).to_pylist()
        if row["text"] in expected
    }

    assert expected["aten::conv2d"]["kernel_ns"] > 0
    assert {text: sums for text, sums in found.items() if sums} == expected


@needs_corpus
def test_operations_and_annotations_together_own_all_work_that_was_launched_in_them():
    profile = _read(NS)
    rows = ranges(profile).to_pylist()

    owned = sum(row["self_kernel_ns"] for row in rows)
    [row] = profile.query("SELECT sum(end_ns - start_ns)::BIGINT AS ns FROM kernels").to_pylist()
    assert {row["range_kind"] for row in rows} == {"annotation", "operation"}
    assert 0.99 * row["ns"] < owned <= row["ns"]


@needs_corpus
@pytest.mark.parametrize("name", [OLD, OLDEST])
def test_steps_of_traces_whose_annotations_were_operators_are_named(name):
    found = steps(_read(name)).to_pylist()

    assert [row["step"] for row in found] == [0, 1, 2, 3, 4, 5]
    assert {(row["source"], row["text"]) for row in found} == {("ranges", "ProfilerStep##")}


NODE = "autograd::engine::evaluate_function: ToCopyBackward0"


@pytest.mark.parametrize(
    ("category", "forward", "backward"),
    [
        pytest.param("cpu_op", "aten::to", NODE, id="now"),
        pytest.param("Operator", "aten::to", "torch::autograd::AccumulateGrad", id="before-2022"),
    ],
)
def test_the_backward_pass_is_known_by_its_operations(tmp_path, category, forward, backward):
    """Peer copies of 30 and 90 µs: one of the script's thread, one of autograd's."""
    made = [(forward, 41, 30), (backward, 52, 90)]
    peers = {"fromDevice": 0, "toDevice": 1, "inDevice": 0, "bytes": 64}
    events = [_event("user_annotation", "ProfilerStep#1", 41, 1, 900)]
    for number, (name, thread, length) in enumerate(made, start=1):
        at, link = 100 * number, {"correlation": number}
        events += [
            _event(category, name, thread, at, 20),
            _event("cuda_runtime", "cudaMemcpyAsync", thread, at + 5, 2, **link),
            _event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 7, at + 8, length)
            | {"args": peers | link},
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")

    assert backward_peer_share(read_profile(path)) == 0.75


def _event(category, name, thread, ts, dur, **args):
    said = {"ph": "X", "cat": category, "name": name, "pid": 40, "tid": thread}
    return said | {"ts": ts, "dur": dur, "args": args}


_PEER = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1}


def _recording(*texts, thread=1):
    """Copies of 10, 30 and 60 ns, each launched in a range of its text."""
    times = [(100, 110), (200, 230), (300, 360)]
    ranges = [{"text": text, "thread_id": thread} for text in texts] or [None] * 3
    return copied(*((*time, _PEER, said) for time, said in zip(times, ranges, strict=True)))


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        pytest.param([], None, id="no-ranges"),
        pytest.param(["forward", "loss", "optimizer"], None, id="none-names-it"),
        pytest.param(["forward", "backward", "Backward pass"], 0.9, id="as-a-script-says"),
        pytest.param(["aten::mm", "MmBackward0, seq = 12", "step"], 0.3, id="emit-nvtx"),
        pytest.param(
            ["x", "y", "autograd::engine::evaluate_function: AddBackward0"], 0.6, id="autograd"
        ),
        pytest.param(["gradients/item_tower", "grads", "upgrade"], 0.4, id="gradients"),
    ],
)
def test_copies_belong_to_the_ranges_that_launched_them(texts, share):
    assert backward_peer_share(_recording(*texts)) == share


def test_nested_ranges_count_a_copy_once():
    profile = _recording("backward", "MmBackward0", "forward")
    inner = profile.table("nvtx_ranges").to_pylist()
    around = {**inner[0], "end_ns": 29}

    nested = profile.with_table("nvtx_ranges", NVTX_RANGES.table([around, *inner]))

    assert backward_peer_share(nested) == 1


def test_a_range_that_launched_nothing_tells_nothing():
    assert backward_peer_share(_recording(*["backward"] * 3, thread=2)) is None


def test_only_the_part_that_is_looked_at_counts():
    profile = _recording("forward", "backward", "forward").restricted(Selection(((100, 300),)))

    assert backward_peer_share(profile) == 0.75


def test_without_copies_between_devices_there_is_no_share():
    profile = draw(
        kernels=[(5, 9, {"correlation_id": 1})],
        api_calls=[(1, 2, {"correlation_id": 1})],
        nvtx_ranges=[(0, 3, {"text": "backward"})],
    )

    assert backward_peer_share(profile) is None
    assert backward_peer_share(draw()) is None
