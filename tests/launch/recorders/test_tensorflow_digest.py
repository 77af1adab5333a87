"""Condensing what the recorder left, on windows made by hand: no TensorFlow is needed."""

import json

import pytest
from xspaces import space

from gpuprof.launch.recorders.tensorflow_digest import digest, label
from gpuprof.launch.recorders.tensorflow_events import Execution, ProfilerWindow

JOB = "/job:localhost/replica:0/task:0/device:"
STEP = "__inference_step_9"


def executor(executor_id, step_id, start, *operations, caller=()):
    """A thread's events of one executor: its process event, and operations within."""
    events = [("ExecutorState::Process", start, start + 50, {"_c": executor_id, "id": step_id})]
    for i, (name, stats) in enumerate(operations):
        events.append((name, start + 1 + 5 * i, start + 4 + 5 * i, stats))
    return [*events, *caller]


def called(function, start, end, *runs):
    """The script's thread: a function's execution and its runs of (executor, step id)."""
    return [
        (f"EagerLocalExecute: {function}", start, end, {}),
        *(
            ("FunctionRun", start + 1 + i, start + 2 + i, {"_p": executor_id, "id": step_id})
            for i, (executor_id, step_id) in enumerate(runs)
        ),
    ]


def run(executor_id, step_id, start):
    return ("FunctionRun", start, start + 1, {"_p": executor_id, "id": step_id})


def received(name, step_id, kind="_Recv"):
    stats = {"name": name, "kernel_type": kind, "step_id": step_id}
    return ("ExecutorState::ProcessAsync::Done", stats)


def sent(source="CPU:1", target="CPU:0"):
    key = f"{JOB}{source};abc;{JOB}{target};edge_4_a;0:0"
    return ("a/_1:_Send", {"from": "a", "to": "b", "key": key})


def graph(size=100, **changes):
    return {
        "functions": [STEP],
        "is_training": True,
        "has_control_flow": False,
        "collectives": 0,
        "operations": [["a", "Exp", "CPU:1", "CPU:1", None], ["b", "Sum", "CPU:0", "CPU:0", 8]],
        "inputs": [
            ["w", 0, "CPU:1", "a", "CPU:1", None, True],
            ["a", 1, "CPU:1", "b", "CPU:0", 100, False],
        ],
        "variables": [["w", "CPU:1", 400]],
        "copies": [
            {
                "send": "a/_1",
                "recv": "a/_2",
                "src_device": "CPU:1",
                "dst_device": "CPU:0",
                "tensor": "a",
                "src_operation": "a",
                "dst_operations": ["b"],
                "is_gradient": False,
                "is_control": False,
                "bytes_per_call": size,
            }
        ],
    } | changes


def recording(folder, graphs, *windows):
    folder = folder / "tensorflow-7"
    rows = {"process.json": [{"process_id": 7}], "graphs.jsonl": graphs, "end.json": [{}]}
    rows["windows.jsonl"] = [
        {"folder": f"window-{i}", "start_unix_ns": 100 * i, "stop_unix_ns": 100 * i + 90}
        for i in range(len(windows))
    ]
    folder.mkdir()
    for name, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    for i, window in enumerate(windows):
        (folder / f"window-{i}").mkdir()
        (folder / f"window-{i}" / "vm.xplane.pb").write_bytes(window)
    return digest(folder)


ON_FIRST = executor(11, 1, 100, received("a/_2", 1), ("b:Sum", {}))
ON_SECOND = executor(12, 1, 100, ("a:Exp", {}), sent())
COMPLETE = space(called(STEP, 100, 200, (11, 1), (12, 1)), ON_FIRST, ON_SECOND)
COPY = {
    "function": "step",
    "src_device": "CPU:1",
    "dst_device": "CPU:0",
    "tensor": "a",
    "src_operation": "a",
    "dst_operation": "b",
    "is_gradient": False,
    "is_control": False,
    "calls": 1,
    "bytes_per_call": 100,
}


def test_an_empty_recording_says_so(tmp_path):
    digest = recording(tmp_path, [])

    assert digest["functions"] == digest["operations"] == digest["tensor_copies"] == []
    assert digest["notes"] == [
        "no window of TensorFlow's profiler was kept, so it is unknown what ran"
    ]


def test_an_execution_has_its_operations_and_copies(tmp_path):
    digest = recording(tmp_path, [graph()], COMPLETE)

    assert digest["functions"] == [{"function": "step", "executions": 1, "is_step": True}]
    assert digest["tensor_copies"] == [COPY]
    assert [(r["operation"], r["calls"], r["total_ns"]) for r in digest["operations"]] == [
        ("a", 1, 3),
        ("b", 1, 3),
    ]
    assert digest["notes"] == []


def test_windows_add_up(tmp_path):
    digest = recording(tmp_path, [graph()], COMPLETE, COMPLETE)

    assert digest["functions"][0]["executions"] == 2
    assert digest["tensor_copies"] == [COPY | {"calls": 2}]
    assert digest["windows"]["recorded_ns"] == 180
    assert digest["windows"]["span_ns"] == 190


def test_an_execution_that_a_window_cut_is_left_out(tmp_path):
    # The function's own event began before the window, or ends after it: it is not there.
    cut = space([run(11, 1, 101), run(12, 1, 102)], ON_FIRST, ON_SECOND)
    digest = recording(tmp_path, [graph()], cut)

    assert (digest["functions"], digest["tensor_copies"]) == ([], [])
    assert digest["windows"]["cut_executions"] == 2


def test_an_execution_whose_last_receipt_a_window_cut_is_left_out(tmp_path):
    # The function has returned, and the thread that received has not closed its event yet.
    cut = space(called(STEP, 100, 200, (11, 1), (12, 1)), executor(11, 1, 100), ON_SECOND)
    digest = recording(tmp_path, [graph()], COMPLETE, cut, COMPLETE)

    assert digest["functions"][0]["executions"] == 2
    assert digest["tensor_copies"] == [COPY | {"calls": 2}]
    assert digest["windows"]["cut_executions"] == 1


def test_a_graph_is_kept_by_number_with_each_name_once(tmp_path):
    digest = recording(tmp_path, [graph()], COMPLETE, COMPLETE)

    assert digest["graphs"] == [
        {
            "function": "step",
            "calls": 2,
            "names": ["w", "a", "b"],
            "devices": ["CPU:1", "CPU:1", "CPU:0"],
            "inputs": [[0, 0, 1, None], [1, 1, 2, 100]],
            "variables": [[0, 400]],
        }
    ]
    assert [row["flops"] for row in digest["operations"]] == [None, 8]


def batches(*element_bytes):
    """A window with an execution for each size of an element of a dataset; None: not traced."""
    threads, calls = [], []
    for number, size in enumerate(element_bytes, 1):
        start, ids = 1000 * number, (20 + number, 40 + number)
        took = (
            []
            if size is None
            else [("IteratorGetNextOp::DoCompute", {"element_size": size, "id": number})]
        )
        operations = (received("a/_2", number), *took, ("b:Sum", {}))
        threads.append(executor(ids[0], number, start, *operations))
        threads.append(executor(ids[1], number, start, ("a:Exp", {}), sent()))
        calls += called(STEP, start, start + 100, *((i, number) for i in ids))
    return space(calls, *threads)


def sizes(found):
    copied = [(row["calls"], row["bytes_per_call"]) for row in found["tensor_copies"]]
    taken = [(row["calls"], row["inputs"][1][3]) for row in found["graphs"]]
    assert sorted(copied, key=str) == sorted(taken, key=str)
    return copied


def by_row(size, **changes):
    """A graph of which a copy has some bytes, and more for each row of its batch."""
    made = graph(size=size, **changes)
    made["inputs"][1][5] = size
    return made


def test_sizes_follow_from_the_bytes_of_the_batches(tmp_path):
    window = batches(8 + 32 * 12, 8 + 32 * 12, 8 + 5 * 12)
    found = recording(tmp_path, [by_row([16, 40], batch=[8, 12])], window)

    assert sizes(found) == [(2, 16 + 32 * 40), (1, 16 + 5 * 40)]
    assert found["functions"][0]["executions"] == 3


@pytest.mark.parametrize(
    ("element_bytes", "changes"),
    [
        pytest.param(None, {}, id="its size was not traced"),
        pytest.param(15, {}, id="it is no whole number of rows"),
        pytest.param(8, {}, id="it has no rows"),
        pytest.param(20, {"has_control_flow": True}, id="a loop may take several"),
        pytest.param(20, {"batch": None}, id="more is unknown than its rows"),
    ],
)
def test_sizes_stay_unknown_where_a_batch_does_not_tell_them(tmp_path, element_bytes, changes):
    sized = by_row([16, 40], **{"batch": [8, 12]} | changes)

    assert sizes(recording(tmp_path, [sized], batches(element_bytes))) == [(1, None)]


def test_batches_of_very_many_lengths_have_unknown_sizes(tmp_path):
    found = recording(tmp_path, [by_row([0, 4], batch=[0, 4])], batches(*range(4, 44, 4)))

    assert sizes(found) == [*((1, size) for size in range(4, 36, 4)), (2, None)]


def test_an_operation_counts_in_executions_in_which_it_was_no_longer_traced(tmp_path):
    quiet = space(called(STEP, 100, 200, (11, 1), (12, 1)), ON_FIRST, executor(12, 1, 100))
    found = recording(tmp_path, [by_row([0, 4], batch=[0, 4])], batches(40), quiet)

    rows = [(row["calls"], row["traced_calls"]) for row in found["operations"]]
    assert rows == [(1, 1), (1, 1), (1, None), (1, 1)]


def test_copies_count_though_cheap_sends_are_no_longer_traced(tmp_path):
    quiet = executor(12, 1, 100)
    window = space(called(STEP, 100, 200, (11, 1), (12, 1)), ON_FIRST, quiet)
    digest = recording(tmp_path, [graph()], window)

    assert digest["tensor_copies"] == [COPY]
    [a, b] = digest["operations"]
    assert (a["calls"], a["traced_calls"], a["total_ns"]) == (None, None, None)
    assert (b["calls"], b["traced_calls"], b["total_ns"]) == (1, 1, 3)


def test_calls_within_loops_are_unknown_once_tracing_may_have_stopped(tmp_path):
    # 100 operations in a window of 500 ns; ten windows: 1,000 runs of an operation.
    many = executor(11, 1, 100, *[("b:Sum", {})] * 9)
    window = space(called(STEP, 100, 200, (11, 1)), many)
    loops = graph(has_control_flow=True)
    few = recording(tmp_path, [loops], window)
    (tmp_path / "more").mkdir()
    often = recording(tmp_path / "more", [loops], *[window] * 101)

    assert [r["calls"] for r in few["operations"]] == [None, 9]
    assert [r["calls"] for r in often["operations"]] == [None, None]
    assert [r["traced_calls"] for r in often["operations"]] == [None, 909]


# Of two functions that have the same label.
SECOND = "__inference_step_33"
TWO_TRACES = space(
    [*called(STEP, 100, 200, (11, 1), (12, 1)), *called(SECOND, 300, 400, (13, 2), (14, 2))],
    ON_FIRST + executor(13, 2, 300, received("a/_2", 2)),
    ON_SECOND + executor(14, 2, 300, ("a:Exp", {}), sent()),
)


def test_traces_with_equal_names_are_told_apart_by_their_function(tmp_path):
    digest = recording(tmp_path, [graph(), graph(64, functions=[SECOND])], TWO_TRACES)

    assert digest["functions"] == [{"function": "step", "executions": 2, "is_step": True}]
    assert digest["tensor_copies"] == [COPY, COPY | {"bytes_per_call": 64}]


@pytest.mark.parametrize("graphs", [[graph(), graph(64)], []], ids=["two-alike", "none"])
def test_without_a_graph_of_its_own_a_function_has_traced_copies_of_no_size(tmp_path, graphs):
    digest = recording(tmp_path, graphs, COMPLETE)

    assert digest["tensor_copies"] == [COPY | {"bytes_per_call": None, "is_gradient": None}]
    assert digest["notes"] == [
        "no graph was kept of step or of what it calls: sizes of its copies are unknown"
    ]


def test_a_function_that_another_called_counts_for_the_caller(tmp_path):
    outer = "__inference_outer_5"
    window = space(
        called(outer, 100, 200, (1, 8)),
        executor(1, 8, 105, caller=[run(11, 1, 110), run(12, 1, 112)]),
        executor(11, 1, 120, received("a/_2", 1)),
        executor(12, 1, 120, ("a:Exp", {}), sent()),
    )
    graphs = [graph(functions=[outer], operations=[], copies=[], is_training=False), graph()]
    digest = recording(tmp_path, graphs, window)

    assert digest["functions"] == [{"function": "outer", "executions": 1, "is_step": True}]
    assert digest["tensor_copies"] == [COPY | {"function": "outer"}]


def test_training_and_evaluation_of_one_name_are_told_apart(tmp_path):
    graphs = [graph(), graph(functions=[SECOND], is_training=False)]
    digest = recording(tmp_path, graphs, TWO_TRACES)

    assert digest["functions"] == [
        {"function": "step", "executions": 1, "is_step": True},
        {"function": "step (no training)", "executions": 1, "is_step": False},
    ]
    assert digest["tensor_copies"] == [COPY, COPY | {"function": "step (no training)"}]


def test_constant_folding_is_no_copy(tmp_path):
    folding = executor(12, 1, 100, sent("CPU:0", "CPU:0"))
    window = space(called(STEP, 100, 200, (12, 1)), folding)

    assert recording(tmp_path, [], window)["tensor_copies"] == []


def test_eager_copies_belong_to_the_operation_that_takes_them(tmp_path):
    copy = f"_Send input 0 from {JOB}CPU:0 to {JOB}CPU:1"
    window = space([("EagerLocalExecute: MatMul", 1, 9, {}), (copy, 2, 3, {}), (copy, 4, 5, {})])
    [digest] = recording(tmp_path, [], window)["tensor_copies"]

    assert (digest["function"], digest["dst_operation"], digest["calls"]) == (None, "MatMul", 2)
    assert (digest["src_device"], digest["dst_device"]) == ("CPU:0", "CPU:1")
    assert digest["bytes_per_call"] is None


def test_an_operation_on_another_device_than_asked_for_is_noted_if_it_ran(tmp_path):
    operations = [["a", "Exp", "GPU:1", "CPU:1", 0], ["never", "Exp", "GPU:1", "CPU:1", 0]]
    window = space(called(STEP, 100, 200, (12, 1)), executor(12, 1, 100, ("a:Exp", {})))
    digest = recording(tmp_path, [graph(operations=operations)], window)

    [note] = digest["notes"]
    assert note == (
        "operations that ran on another device than asked for: 1, the first a: "
        "asked for GPU:1, ran on CPU:1"
    )


def test_a_broken_window_costs_only_itself(tmp_path):
    digest = recording(tmp_path, [graph()], COMPLETE, COMPLETE[:-3])

    assert digest["functions"][0]["executions"] == 1
    assert digest["notes"] == ["1 of 2 profiler windows are unreadable"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("__inference_step_464", "step", id="traced"),
        pytest.param("__inference_one_step_on_data_12", "one_step_on_data", id="underscores"),
        pytest.param("__backward_f_7", "f", id="backward"),
        pytest.param("MatMul", "MatMul", id="eager"),
    ],
)
def test_a_functions_name_has_no_number(name, expected):
    assert label(name) == expected


def test_an_execution_whose_caller_the_window_cut_has_no_root():
    window = ProfilerWindow({1: Execution(caller=2)})

    assert window.root(window.executions[1]) is None
