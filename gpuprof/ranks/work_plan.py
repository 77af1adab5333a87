"""Which files a worker takes at a time, and the tree in which their partial results merge.

The nodes of the tree are runs of neighbours: a node of level L has up to ``FAN_IN ** L`` files, and
its first file's place is a multiple of that. A task is such a node, so the result of a task is a
node of the tree, however large tasks are.

How files are cut into tasks depends on their number and sizes alone, not on the number of workers:
a run that is taken up with ``--resume`` finds the same tasks, whatever runs them then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuprof.ranks.work import FAN_IN, JobFile, Partial, Work

# A second of work or so: long beside what it takes to hand over a task, short beside the job.
_TASK_BYTES: Final = 64 * 2**20
_MOST_FILES: Final = FAN_IN**3
# A worker may die of what others do, or of what it did before. A file over which a third one dies,
# which had read no other, is at fault itself.
MOST_LOSSES: Final = 3


@dataclass(frozen=True)
class Node:
    """A node of the tree.

    Args:
        level: How many levels are below it.
        number: Its number among the nodes of its level, from 0.
    """

    level: int
    number: int

    @property
    def parent(self) -> "Node":
        """The node that it is merged into."""
        return Node(self.level + 1, self.number // FAN_IN)

    @property
    def children(self) -> tuple["Node", ...]:
        """The nodes that are merged into it, be there files in them or not."""
        first = self.number * FAN_IN
        return tuple(Node(self.level - 1, first + place) for place in range(FAN_IN))

    @property
    def places(self) -> range:
        """The places of its files; those at or beyond the number of files are empty."""
        width = FAN_IN**self.level
        return range(self.number * width, (self.number + 1) * width)


@dataclass(frozen=True)
class Task:
    """What a worker takes at a time.

    Args:
        node: The node of the tree that its result is.
        files: The node's files.
        losses: How many workers have died over it.
    """

    node: Node
    files: tuple[JobFile, ...]
    losses: int = 0

    @property
    def is_last_try(self) -> bool:
        """Whether it needs a worker that has done nothing else, and is given up with it."""
        return self.losses == MOST_LOSSES - 1

    @property
    def size_bytes(self) -> int:
        """What its files have on disk."""
        return sum(file.size_bytes for file in self.files)

    def of_each_file(self) -> list["Task"]:
        """The same files, each by itself."""
        return [replace(self, node=Node(0, f.place), files=(f,)) for f in self.files]

    def after_loss(self) -> list["Task"]:
        """What is to be tried when a worker died over it; nothing if it is given up."""
        return [] if self.is_last_try else replace(self, losses=self.losses + 1).of_each_file()


def root_of(file_count: int) -> Node:
    """The node that all files of a job are merged into."""
    level = 0
    while FAN_IN**level < file_count:
        level += 1
    return Node(level, 0)


def plan(files: Sequence[JobFile]) -> list[Task]:
    """Cut the files of a job into tasks, those with the most bytes first.

    Small files go together, 16 and more of less than 4 MiB each; a large file goes alone. The
    largest tasks are handed out first, so that no worker begins one when the others end.

    Args:
        files: All files of the job, by their places.
    """
    tasks = _cut(root_of(len(files)), files)
    return sorted(tasks, key=lambda task: (-task.size_bytes, task.node.number))


def _cut(node: Node, files: Sequence[JobFile]) -> list[Task]:
    task = Task(node, tuple(files[node.places.start : node.places.stop]))
    if not task.files:
        return []
    is_small = task.size_bytes <= _TASK_BYTES and len(task.files) <= _MOST_FILES
    if node.level == 0 or is_small:
        return [task]
    return [part for child in node.children for part in _cut(child, files)]


class Tree:
    """Merges partial results as they come, each node as soon as all below it is there.

    Only nodes whose neighbours are missing stay in memory.

    Args:
        work: Merges.
        root: The node that everything is merged into.
        end: The first place beyond those of the files.
    """

    def __init__(self, work: Work, root: Node, end: int) -> None:
        self._work, self._root, self._end = work, root, end
        self._waiting: dict[Node, Partial | None] = {}

    def add(self, node: Node, partial: Partial | None) -> None:
        """Take in the result of a node, None where none of its files could be read."""
        self._waiting[node] = partial
        while node != self._root and all(n in self._waiting for n in self._siblings(node)):
            partials = [self._waiting.pop(sibling) for sibling in self._siblings(node)]
            present = [partial for partial in partials if partial is not None]
            node = node.parent
            # A single one stays as it is.
            several = len(present) > 1
            self._waiting[node] = (
                self._work.merge(present) if several else next(iter(present), None)
            )

    @property
    def result(self) -> Partial | None:
        """The merge of all files, once each of them was added; None where none could be read."""
        return self._waiting[self._root]

    def _siblings(self, node: Node) -> list[Node]:
        """The node and its neighbours with files in them."""
        return [n for n in node.parent.children if n.places.start < self._end]
