"""A second thread does its tasks in order, each once, and ends with them; cores are shared."""

import threading

import pytest

from gpuprof.base import machine
from gpuprof.base.machine import SecondThread, in_turn


def test_tasks_are_done_in_their_order_and_urgent_ones_first():
    second, is_open, done = SecondThread(), threading.Event(), []

    second.add([is_open.wait, lambda: done.append("later"), lambda: done.append("last")])
    second.add([lambda: done.append("first"), lambda: done.append("second")], is_first=True)
    is_open.set()
    second.finish(is_all=True)

    assert done == ["first", "second", "later", "last"]


def test_what_has_not_begun_is_dropped_at_the_end():
    second, has_begun, is_open, done = SecondThread(), threading.Event(), threading.Event(), []

    def task():
        has_begun.set()
        is_open.wait()
        done.append("running")

    second.add([task, lambda: done.append("waiting")])
    has_begun.wait()
    threading.Timer(0.05, is_open.set).start()
    second.finish(is_all=False)

    assert done == ["running"]


def test_a_task_that_fails_ends_neither_the_thread_nor_the_others():
    second, done = SecondThread(), []

    second.add([lambda: 1 // 0, lambda: done.append("next")])
    second.finish(is_all=True)
    second.add([lambda: done.append("again")])
    second.finish(is_all=True)

    assert done == ["next", "again"]


def test_without_tasks_there_is_nothing_to_wait_for():
    before = threading.active_count()
    second = SecondThread()

    second.add([])
    second.finish(is_all=True)

    assert threading.active_count() == before


@pytest.mark.parametrize(("cores", "is_own"), [(1, True), (2, False)])
def test_a_single_core_works_on_the_thread_of_the_caller(monkeypatch, cores, is_own):
    monkeypatch.setattr(machine, "core_count", lambda: cores)
    monkeypatch.delenv(machine.PROCESSES, raising=False)

    threads = {*in_turn(lambda _: threading.current_thread(), range(3))}

    assert (threads == {threading.current_thread()}) == is_own
