import os
import signal
import threading

import duckdb
import pytest

from gpuprof.base.signals import handling, interrupting


def test_signals_are_taken_for_a_while_but_for_those_that_are_ignored():
    taken = []
    before = signal.getsignal(signal.SIGTERM), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handling(lambda number, _: taken.append(number)):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
        after = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before[1])

    assert taken == [signal.SIGTERM]
    assert after == (before[0], signal.SIG_IGN)


def test_outside_of_the_main_thread_handlers_stay():
    signals = []

    def work():
        with handling(lambda *_: None), interrupting():
            signals.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert signals == [signal.default_int_handler]


def test_ctrl_c_ends_a_query_of_duckdb():
    connection = duckdb.connect()
    endless = "SELECT count(DISTINCT a.range + b.range) FROM range(1000000) a, range(1000000) b"
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

    timer.start()
    with pytest.raises((KeyboardInterrupt, RuntimeError)), interrupting(connection):
        connection.execute(endless)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_callers_own_stays():
    def handler(*_):
        pass

    before = signal.signal(signal.SIGINT, handler)
    try:
        with interrupting():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
