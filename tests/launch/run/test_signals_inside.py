"""What a recorder inside a program does with the signals that would end it."""

import os
import signal
import subprocess
import sys

import pytest

from gpuprof.launch.recorders.in_process import INJECT

BEGINNING = """
import os, signal, sys, time
import gpuprof_ending
gpuprof_ending.PATIENCE_SECONDS = 0.5
gpuprof_ending.at_end(lambda: os.write(1, b"brought home\\n"))
"""
BLOCKED = """
import ctypes, threading
lib, mutex = ctypes.CDLL(None), (ctypes.c_char * 64)()
threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
for _ in range(2):
    lib.pthread_mutex_lock(mutex)
"""
CHILD = """
child = os.fork()
if not child:
    time.sleep(60)
os.kill(child, signal.SIGTERM)
status = os.waitpid(child, 0)[1]
time.sleep(1)
os.write(1, f"child {status}\\n".encode())
"""


def python(code, beginning=BEGINNING):
    return subprocess.Popen(
        [sys.executable, "-c", beginning + code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(INJECT)},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_the_recording_comes_home_before_the_program_dies_of_it(number):
    child = python(f"os.kill(os.getpid(), {int(number)}); time.sleep(60)")

    assert child.communicate(timeout=30)[0] == "brought home\n"
    assert child.returncode == -number


def test_an_error_while_it_comes_home_does_not_keep_the_program_alive():
    child = python(
        "gpuprof_ending.at_end(lambda: 1 / 0)\nos.kill(os.getpid(), 15); time.sleep(60)",
        "import os, time\nimport gpuprof_ending\n",
    )
    child.communicate(timeout=30)

    assert child.returncode == -signal.SIGTERM


def test_a_program_outside_python_dies_of_it_all_the_same():
    child = python(BLOCKED)

    assert child.communicate(timeout=30)[0] == ""
    assert child.returncode == -signal.SIGTERM


def test_the_scripts_own_handler_stays():
    handler = (
        "import signal, sys, os\nsignal.signal(15, lambda *_: (os.write(1, b'mine '), sys.exit(4)))"
    )
    child = python("os.kill(os.getpid(), 15); time.sleep(60)", handler + BEGINNING)

    assert child.communicate(timeout=30)[0] == "mine brought home\n"
    assert child.returncode == 4


def test_what_is_ignored_stays_ignored():
    ignoring = "import signal\nsignal.signal(1, signal.SIG_IGN)"
    child = python("os.kill(os.getpid(), 1); os.write(1, b'on ')", ignoring + BEGINNING)

    assert child.communicate(timeout=30)[0] == "on brought home\n"
    assert child.returncode == 0


def test_a_forked_child_dies_at_once_and_alone():
    child = python(CHILD)

    assert child.communicate(timeout=30)[0] == "child 15\nbrought home\n"
    assert child.returncode == 0


def test_the_pipe_of_an_event_loop_is_left_to_it():
    loop = (
        "import asyncio\n"
        "async def main():\n"
        "    loop, done = asyncio.get_running_loop(), asyncio.Event()\n"
        "    loop.add_signal_handler(15, done.set)\n"
        "    gpuprof_ending.at_end(lambda: os.write(1, b'once more\\n'))\n"
        "    os.kill(os.getpid(), 15)\n"
        "    await asyncio.wait_for(done.wait(), 30)\n"
        "    os.write(1, b'heard\\n')\n"
        "asyncio.run(main())\n"
    )
    child = python(loop)

    assert child.communicate(timeout=60)[0] == "heard\nonce more\nbrought home\n"
    assert child.returncode == 0
