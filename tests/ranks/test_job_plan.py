"""How files are cut into tasks, and the tree in which their results merge."""

import random
from pathlib import Path

import pytest
from counting import Counting

from gpuprof.ranks.work import JobFile
from gpuprof.ranks.work_plan import MOST_LOSSES, Node, Task, Tree, plan, root_of

MIB = 2**20


def files(*sizes):
    return [JobFile(Path(f"{place}"), place, None, size, 1) for place, size in enumerate(sizes)]


def places(tasks):
    return [[file.place for file in task.files] for task in tasks]


def partial(place):
    return Counting().reduce(JobFile(Path("/dev/null"), place, None, 0, 0))


def shape(tree):
    return tree.result["shape"]["shape"][0].as_py()


def test_one_file_is_one_task_at_the_root():
    assert plan(files(5)) == [Task(Node(0, 0), tuple(files(5)))]


def test_small_files_go_together():
    assert [len(task.files) for task in plan(files(*[MIB] * 1000))] == [64] * 15 + [40]
    assert [len(task.files) for task in plan(files(*[3 * MIB] * 64))] == [16] * 4


def test_a_large_file_goes_alone_and_first():
    tasks = plan(files(MIB, MIB, 900 * MIB, MIB, MIB, MIB))

    assert places(tasks) == [[2], [4, 5], [0], [1], [3]]


def test_every_file_is_in_one_task():
    sizes = [random.Random(3).randrange(40 * MIB) for _ in range(333)]  # noqa: S311 - no secret

    planned = sorted(place for task in places(plan(files(*sizes))) for place in task)

    assert planned == list(range(333))


def test_the_files_of_a_task_are_those_of_its_node():
    for task in plan(files(*[MIB] * 77)):
        assert [f.place for f in task.files] == [p for p in task.node.places if p < 77]


SHAPES = {
    "a-single-file-is-not-merged": (1, "0"),
    "two": (2, "(0 1)"),
    "a-full-node": (4, "(0 1 2 3)"),
    "a-node-and-a-file": (5, "((0 1 2 3) 4)"),
    "two-nodes-and-a-file": (9, "((0 1 2 3) (4 5 6 7) 8)"),
    "two-levels": (18, "(((0 1 2 3) (4 5 6 7) (8 9 10 11) (12 13 14 15)) (16 17))"),
}


@pytest.mark.parametrize(("count", "expected"), SHAPES.values(), ids=SHAPES)
def test_the_shape_of_the_tree_depends_on_the_number_of_files_alone(count, expected):
    for seed in range(5):
        tree = Tree(Counting(), root_of(count), count)
        order = random.Random(seed).sample(range(count), count)  # noqa: S311 - no secret
        for place in order:
            tree.add(Node(0, place), partial(place))
        assert shape(tree) == expected


def test_a_task_is_tried_in_a_group_then_alone_then_on_a_worker_of_its_own():
    task = Task(Node(1, 0), tuple(files(1, 1)))

    alone = task.after_loss()
    last = [again for one in alone for again in one.after_loss()]

    assert places(alone) == places(last) == [[0], [1]]
    assert [again.is_last_try for again in [task, *alone, *last]] == [False] * 3 + [True] * 2
    assert [again.after_loss() for again in last] == [[], []]
    assert {again.losses for again in last} == {MOST_LOSSES - 1}
