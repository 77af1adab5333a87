"""Training steps: named by ranges, or found by the pattern of their kernels."""

import random
from collections import Counter

import numpy as np
import pytest
from drawing import draw

from gpuprof.analyses.steps import steps
from gpuprof.facts.step_windows import opening_kernels
from gpuprof.model.table import Selection


def rows(profile, names):
    return [tuple(row[n] for n in names.split()) for row in steps(profile).to_pylist()]


def loop(texts, pause=0, length=100, **extra):
    """One kernel and one copy per range; GPU work lags 50 ns behind its launch."""
    starts = [number * (length + pause) for number in range(len(texts))]
    return {
        "nvtx_ranges": [
            (at, at + length, {"text": t}) for at, t in zip(starts, texts, strict=True)
        ],
        "api_calls": [
            (at + shift, at + shift + 1, {"correlation_id": 2 * n + (shift > 10)})
            for n, at in enumerate(starts)
            for shift in (10, 20)
        ],
        "kernels": [(at + 60, at + 90, {"correlation_id": 2 * n}) for n, at in enumerate(starts)],
        "memcpys": [
            (at + 80, at + 100, {"correlation_id": 2 * n + 1}) for n, at in enumerate(starts)
        ],
    } | extra


def test_nothing_that_repeats_has_no_steps():
    assert steps(draw(kernels=[(0, 5, {"name": n}) for n in "abcdef"])).num_rows == 0


@pytest.mark.parametrize(
    "texts",
    [
        ["step 0", "step 1", "step 2"],
        ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"],
        ["train_step", "train_step", "train_step"],
        ["iteration 10", "iteration 11", "iteration 12"],
    ],
)
def test_adjacent_ranges_give_steps_that_follow_one_another(texts):
    names = "step source start_ns span_ns compute_ns exposed_transfer_ns idle_ns"

    assert rows(draw(**loop(texts)), names) == [
        (0, "ranges", 60, 100, 30, 10, 60),
        (1, "ranges", 160, 100, 30, 10, 60),
        (2, "ranges", 260, 40, 30, 10, 0),
    ]


def test_time_between_ranges_that_are_apart_belongs_to_the_step_before():
    profile = draw(**loop(["step 0", "step 1"], pause=500))

    assert rows(profile, "start_ns span_ns idle_ns status") == [
        (60, 600, 560, "sample"),
        (660, 40, 0, "cut"),
    ]


def test_a_pause_that_is_little_of_all_time_belongs_to_no_step():
    """Of 40 steps of 100 ns 39 follow one another; a pause of 100 ns is under 5 % of 4 µs."""
    drawn = loop([f"step {n}" for n in range(40)])
    late = {"nvtx_ranges": 4, "api_calls": 8, "kernels": 4, "memcpys": 4}
    for table, first in late.items():
        moved = [
            (start + 100, end + 100, rest)
            for start, end, rest in ((*row, {})[:3] for row in drawn[table][first:])
        ]
        drawn[table] = drawn[table][:first] + moved

    assert rows(draw(**drawn), "span_ns")[2:5] == [(100,), (40,), (100,)]


@pytest.mark.parametrize("text", ["stepwise", "footsteps", "epoch", "batchnorm", "forward"])
def test_other_words_are_no_steps(text):
    assert rows(draw(**loop([text, text])), "step") == []


def test_operations_are_no_steps():
    drawn = loop(["aten::step 1", "aten::step 2"])
    kind = {"range_kind": "operation"}
    drawn["nvtx_ranges"] = [(s, e, said | kind) for s, e, said in drawn["nvtx_ranges"]]

    assert rows(draw(**drawn), "step") == []


def test_the_steps_that_hold_most_launches_are_taken():
    recording = loop(["step 0", "step 1"])
    recording["nvtx_ranges"] += [(9, 12, {"text": "optimizer step"})]
    recording["nvtx_ranges"] += [(109, 112, {"text": "optimizer step"})]

    assert {row[0] for row in rows(draw(**recording), "text")} == {"step #"}


@pytest.mark.parametrize("early", [0, 5], ids=["ends-with-it", "ends-before-it"])
def test_a_step_within_one_of_the_same_text_is_no_further_step(early):
    recording = loop(["train_step"] * 3)
    inner = [(start + 15, end - early, said) for start, end, said in recording["nvtx_ranges"]]
    recording["nvtx_ranges"] += inner

    assert rows(draw(**recording), "start_ns span_ns") == [(60, 100), (160, 100), (260, 40)]


def test_launches_of_steps_that_overlap_count_once_when_the_steps_are_chosen():
    recording = loop([f"ProfilerStep#{number}" for number in range(6)])
    # Batches on their way at once, which hold five of six launches, most of them twice.
    recording["nvtx_ranges"] += [
        (at + 15, at + 215, {"text": f"batch {at}", "range_kind": "start_end"})
        for at in range(0, 500, 100)
    ]

    assert {row[0] for row in rows(draw(**recording), "text")} == {"ProfilerStep##"}


def pattern(repeats, names, gap=100):
    """Kernels of 10 ns, 5 apart, with a longer pause before each repetition."""
    times, at = [], 0
    for _ in range(repeats):
        at += gap
        for name in names:
            times.append((at, at + 10, {"name": name}))
            at += 15
    return times


def test_a_pattern_of_kernels_that_repeats_is_detected():
    profile = draw(kernels=[(0, 10, {"name": "init"}), *pattern(4, ["a", "b", "b", "c", "b"])])

    found = rows(profile, "step source text start_ns span_ns compute_ns")
    assert found == [
        (0, "detected", "a", 100, 175, 50),
        (1, "detected", "a", 275, 175, 50),
        (2, "detected", "a", 450, 175, 50),
        (3, "detected", "a", 625, 70, 50),
    ]


def test_layers_that_repeat_within_a_step_are_not_steps():
    layer = ["matmul", "add"]
    profile = draw(kernels=pattern(5, [*layer * 6, "loss", *layer * 6, "adam"]))

    assert {row[0] for row in rows(profile, "text")} <= {"matmul", "loss", "adam"}
    assert len(rows(profile, "step")) == 5


def test_no_opening_where_nothing_repeats_thrice():
    name = np.array([1, 2, 3, 1, 2, 4])

    assert opening_kernels(name, np.full(6, 5)) is None


def test_steps_of_processes_are_their_own():
    first, second = loop(["step 0", "step 1"]), loop(["step 0", "step 1"])
    for table, found in second.items():
        first[table] += [
            (
                s + 7,
                e + 7,
                columns | {"process_id": 200} | ({"device_id": 1} if "s" in table else {}),
            )
            for s, e, columns in found
        ]
    for table in ("api_calls", "nvtx_ranges"):
        for _, _, columns in first[table]:
            columns.pop("device_id", None)

    assert rows(draw(**first), "process_id step device_id start_ns") == [
        (100, 0, 0, 60),
        (200, 0, 1, 67),
        (100, 1, 0, 160),
        (200, 1, 1, 167),
    ]


@pytest.mark.parametrize(("window", "step"), [((100, 200), 1), ((60, 160), 0)])
def test_steps_of_a_window_are_those_that_start_in_it_before_its_end(window, step):
    """They start at 60, 160 and 260 on the device."""
    part = draw(**loop(["step 0", "step 1", "step 2"])).restricted(Selection((window,)))

    assert rows(part, "step start_ns span_ns") == [(step, 60 + 100 * step, 100)]


LAYERS = ("compute", "communication", "transfer", "local_copy")


@pytest.mark.parametrize("seed", range(10))
def test_parts_of_each_step_are_those_of_a_walk_over_its_instants(seed):
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    drawn = loop([f"step {i}" for i in range(5)], pause=dice.choice([0, 40]))
    events = [(end - 30, end, 0) for _, end, _ in drawn["kernels"]]
    events += [(end - 20, end, 2) for _, end, _ in drawn["memcpys"]]
    for _ in range(25):
        start, layer = dice.randrange(700), dice.randrange(4)
        end = start + dice.randrange(1, 40)
        events.append((start, end, layer))
        name = {"name": "ncclKernel_AllReduce" if layer == 1 else "other"}
        copy = {"memcpy_kind": "HtoD" if layer == 2 else "DtoD"}
        drawn["kernels" if layer < 2 else "memcpys"].append(
            (start, end, name if layer < 2 else copy)
        )

    for row in steps(draw(**drawn)).to_pylist():
        instants = range(row["start_ns"], row["start_ns"] + row["span_ns"])
        running = [{layer for s, e, layer in events if s <= at < e} for at in instants]
        first = Counter(min(layers, default=None) for layers in running)
        every = Counter(layer for layers in running for layer in layers)
        assert row["compute_ns"] == first[0]
        assert row["idle_ns"] == first[None]
        for layer, name in enumerate(LAYERS[1:], start=1):
            assert row[f"exposed_{name}_ns"] == first[layer]
            assert row[f"busy_{name}_ns"] == every[layer]
            assert row[f"hidden_{name}_ns"] == every[layer] - first[layer]
