"""What every step copies again."""

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from drawing import draw

from gpuprof.analyses.avoidable_copies import repeated_transfers
from gpuprof.model.table import Selection

STEP = 100


def rows(profile, *names):
    return [tuple(row[name] for name in names) for row in repeated_transfers(profile).to_pylist()]


def launched(steps, copies, *, kernels=((0, 2, "open"), (50, 52, "close"))):
    """Steps of 100 ns, in each of which things are launched 1 ns before they run.

    A copy is (step or None for all, time within the step, columns, range or None).
    """
    found = defaultdict(list)
    for step in range(steps):
        begin, number = step * STEP, step * 1000
        found["nvtx_ranges"].append((begin, begin + 99, {"text": f"step {step}"}))
        for place, (start, end, name) in enumerate(kernels):
            columns = {"name": name, "correlation_id": number + place}
            found["kernels"].append((begin + start + 1, begin + end + 1, columns))
            call = (begin + start, begin + start + 1, {"correlation_id": number + place})
            found["api_calls"].append(call)
        for place, (only, at, columns, text) in enumerate(copies, start=len(kernels)):
            if only in {None, step}:
                here = begin + at
                copy = {"bytes": 8, "correlation_id": number + place} | columns
                found["memcpys"].append((here + 1, here + 6, copy))
                call = (here, here + 1, {"correlation_id": number + place})
                found["api_calls"].append(call)
                if text:
                    found["nvtx_ranges"].append((here, here + 1, {"text": text}))
    return draw(**found)


def test_a_copy_that_every_step_makes_is_named_with_its_place_and_cost():
    profile = launched(4, [(None, 10, {}, "load table"), (2, 30, {"bytes": 16}, None)])

    assert rows(profile, "src", "dst", "copy_bytes", "steps", "step_source", "calls_per_step") == [
        ("host", "device 0", 8, 4, "ranges", 1.0)
    ]
    assert rows(profile, "range", "dst_operation", "bytes_per_step", "total_ns", "exposed_ns") == [
        ("load table", "close", 8.0, 20, 20)
    ]
    assert rows(profile, "is_constant", "suggestion") == [
        (
            None,
            (
                "copy the next batch while this one computes (pinned memory, non_blocking, a stream"
                " of its own); if it is the same data in every step, copy it from host to device 0"
                " once and keep it"
            ),
        )
    ]


def test_what_a_step_copies_more_than_once_is_no_batch():
    profile = launched(4, [(None, 10, {}, "table"), (None, 20, {}, "table")])

    assert rows(profile, "calls_per_step", "suggestion") == [
        (
            2.0,
            "if it is the same data in every step, copy it from host to device 0 once and keep it",
        )
    ]


@pytest.mark.parametrize(("last_at", "found"), [(51, 1), (52, 0)])
def test_a_copy_that_starts_where_a_step_ends_is_not_in_it(last_at, found):
    # Nothing tells which call launched the copies: only when they start tells their step.
    alone = {"correlation_id": 9_999}
    times = (10, 10, 10, last_at)
    profile = launched(4, [(step, at, alone, None) for step, at in enumerate(times)])

    assert repeated_transfers(profile).num_rows == found


def test_ranges_that_number_the_step_are_one_place():
    numbered = [(n, 10, {}, f"batch {n}") for n in range(4)]

    assert rows(launched(4, numbered), "range") == [("batch #",)]


def test_results_that_go_to_the_host_differ_from_step_to_step():
    assert rows(launched(4, [(None, 10, {"memcpy_kind": "DtoH"}, None)]), "steps") == []


def test_what_the_driver_migrates_by_itself_is_no_copy_of_the_program():
    assert rows(launched(4, [(None, 10, {"memcpy_kind": "UVM_HtoD"}, None)]), "steps") == []


def test_a_peer_copy_names_the_kernels_at_both_ends():
    peer = {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0, "path": "direct"}
    profile = launched(3, [(None, 10, peer, None)])
    # Those that are nearest in time, not others before and after them.
    more = draw(
        kernels=[
            (0, 3, {"device_id": 1, "name": "earlier"}),
            (0, 5, {"device_id": 1, "name": "made"}),
            (90_000, 90_001, {"name": "later"}),
        ]
    )
    kernels = pa.concat_tables([profile.table("kernels"), more.table("kernels")])

    assert rows(
        profile.with_table("kernels", kernels), "src", "src_operation", "dst_operation"
    ) == [("device 1", "made", "close")]


def test_only_what_no_kernel_hides_is_at_stake():
    profile = launched(3, [(None, 48, {}, None)])

    # It runs from 49 to 54, the kernel from 51 to 53.
    assert rows(profile, "total_ns", "exposed_ns") == [(15, 9)]


def test_two_steps_are_no_pattern_and_no_steps_are_no_claim():
    copies = [(None, 10, {}, None)]
    assert rows(launched(2, copies), "steps") == []
    without = launched(4, copies, kernels=((0, 2, "a"),))
    without = without.with_table("nvtx_ranges", draw(nvtx_ranges=[]).table("nvtx_ranges"))
    without = without.with_table("kernels", draw(kernels=[(0, 1)]).table("kernels"))
    assert rows(without, "steps") == []


def test_detected_steps_are_said_to_be():
    profile = launched(6, [(None, 10, {}, None)])
    bare = draw(
        kernels=[
            (r["start_ns"], r["end_ns"], {"name": r["name"]})
            for r in profile.table("kernels").to_pylist()
        ],
        memcpys=[
            (r["start_ns"], r["end_ns"], {"bytes": 8}) for r in profile.table("memcpys").to_pylist()
        ],
    )

    assert rows(bare, "step_source", "steps", "range", "process_id") == [
        ("detected", 6, None, None)
    ]


def test_a_window_counts_its_own_steps():
    profile = launched(6, [(n, 10, {}, None) for n in range(2, 6)])

    assert rows(profile, "steps") == []
    assert rows(profile.restricted(Selection(((200, 600),))), "steps") == [(4,)]


def test_constants_and_variables_of_tensorflow_are_named():
    def tensor(operation, size, calls=10, **columns):
        ends = {"src_device": "CPU:0", "dst_device": "CPU:1", "src_operation": operation}
        ends |= {"tensor": operation, "dst_operation": "add", "function": "step"}
        ends["is_control"] = False
        return ends | {"calls": calls, "bytes_per_call": size, "bytes": size * calls} | columns

    def operation(name, kind):
        return {"function": "step", "operation": name, "operation_type": kind, "device": "CPU:0"}

    profile = draw(
        tensor_copies=[
            tensor("mask", 64),
            tensor("weights", 32, calls=20),
            tensor("activation", 128),
            tensor("rare", 128, calls=9),
            tensor("order", 0, is_control=True),
        ],
        operations=[
            operation("mask", "Const"),
            operation("weights", "ReadVariableOp"),
            operation("activation", "Tanh"),
            operation("rare", "Const"),
            operation("order", "Const"),
        ],
        functions=[{"function": "step", "executions": 10, "is_step": True}],
    )
    assert rows(profile, "src_operation", "is_constant", "calls_per_step", "bytes_per_step") == [
        ("mask", True, 1.0, 64.0),
        ("weights", None, 2.0, 64.0),
    ]
    assert "tf.device('CPU:1')" in repeated_transfers(profile).to_pylist()[0]["suggestion"]


@pytest.mark.parametrize("seed", range(15))
def test_rows_are_those_of_a_plain_count(seed):
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    steps = dice.randrange(3, 6)
    copies = [
        (
            dice.choice([None, None, *range(steps)]),
            dice.randrange(3, 90),
            {"bytes": dice.choice([4, 8]), "device_id": dice.choice([0, 1])},
            dice.choice([None, "a", "b"]),
        )
        for _ in range(8)
    ]
    seen, calls = defaultdict(set), Counter()
    for only, _, columns, text in copies:
        for step in range(steps) if only is None else [only]:
            key = (columns["device_id"], columns["bytes"], text)
            seen[key].add(step)
            calls[key] += 1

    kernels = ((0, 1, "open"), (97, 98, "close"))
    found = {
        (int(row["dst"][-1]), row["copy_bytes"], row["range"]): row["calls_per_step"]
        for row in repeated_transfers(launched(steps, copies, kernels=kernels)).to_pylist()
    }
    assert found == {
        key: calls[key] / steps for key, numbers in seen.items() if len(numbers) == steps
    }
