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


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(1, "0", id="a-single-file-is-not-merged"),
        pytest.param(2, "(0 1)", id="two"),
        pytest.param(4, "(0 1 2 3)", id="a-full-node"),
        pytest.param(5, "((0 1 2 3) 4)", id="a-node-and-a-file"),
        pytest.param(9, "((0 1 2 3) (4 5 6 7) 8)", id="two-nodes-and-a-file"),
        pytest.param(
            18,
            "(((0 1 2 3) (4 5 6 7) (8 9 10 11) (12 13 14 15)) (16 17))",
            id="two-levels",
        ),
    ],
)
def test_the_shape_of_the_tree_depends_on_the_number_of_files_alone(count, expected):
    for seed in range(5):
        tree = Tree(Counting(), root_of(count), count)
        order = random.Random(seed).sample(range(count), count)  # noqa: S311 - no secret
        for place in order:
            tree.add(Node(0, place), partial(place))
        assert shape(tree) == expected


def test_what_cannot_be_read_is_left_out_of_its_node():
    tree = Tree(Counting(), root_of(6), 6)
    for place in range(6):
        tree.add(Node(0, place), None if place in {1, 4, 5} else partial(place))

    assert shape(tree) == "(0 2 3)"


def test_where_nothing_can_be_read_there_is_no_result():
    tree = Tree(Counting(), root_of(2), 2)
    for place in range(2):
        tree.add(Node(0, place), None)

    assert tree.result is None


def test_a_task_is_tried_in_a_group_then_alone_then_on_a_worker_of_its_own():
    task = Task(Node(1, 0), tuple(files(1, 1)))

    alone = task.after_loss()
    last = [again for one in alone for again in one.after_loss()]

    assert places(alone) == places(last) == [[0], [1]]
    assert [again.is_last_try for again in [task, *alone, *last]] == [False] * 3 + [True] * 2
    assert [again.after_loss() for again in last] == [[], []]
    assert {again.losses for again in last} == {MOST_LOSSES - 1}
