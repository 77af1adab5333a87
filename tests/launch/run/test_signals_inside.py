"""What a recorder inside a program does with the signals that would end it."""

import signal

import pytest
from commands import python

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


HANDLED = (
    "import signal, sys, os\nsignal.signal(15, lambda *_: (os.write(1, b'mine '), sys.exit(4)))"
)
LOOP = """
import asyncio
async def main():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(15, done.set)
    gpuprof_ending.at_end(lambda: os.write(1, b'once more\\n'))
    os.kill(os.getpid(), 15)
    await asyncio.wait_for(done.wait(), 30)
    os.write(1, b'heard\\n')
asyncio.run(main())
"""
# What runs before the recorder is there and after, what is printed, and the signal or the status.
PROGRAMS = {
    "SIGTERM": ("", "os.kill(os.getpid(), 15); time.sleep(60)", "brought home\n", -15),
    "SIGHUP": ("", "os.kill(os.getpid(), 1); time.sleep(60)", "brought home\n", -1),
    "outside-python": ("", BLOCKED, "", -15),
    "own-handler": (
        HANDLED,
        "os.kill(os.getpid(), 15); time.sleep(60)",
        "mine brought home\n",
        4,
    ),
    "ignored": (
        "import signal\nsignal.signal(1, signal.SIG_IGN)",
        "os.kill(os.getpid(), 1); os.write(1, b'on ')",
        "on brought home\n",
        0,
    ),
    "forked-child": ("", CHILD, "child 15\nbrought home\n", 0),
    "event-loop": ("", LOOP, "heard\nonce more\nbrought home\n", 0),
}


@pytest.mark.parametrize(("before", "code", "printed", "status"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_recording_comes_home_and_the_program_ends_as_it_would(before, code, printed, status):
    """A program outside Python cannot bring it home; a child that was forked leaves it alone."""
    ended = python("-c", before + BEGINNING + code, check=False, PYTHONPATH=str(INJECT))

    assert (ended.stdout, ended.returncode) == (printed, status)


def test_an_error_while_it_comes_home_does_not_keep_the_program_alive():
    code = "import os, time, gpuprof_ending\ngpuprof_ending.at_end(lambda: 1 / 0)\n"
    code += "os.kill(os.getpid(), 15); time.sleep(60)"

    assert python("-c", code, check=False, PYTHONPATH=str(INJECT)).returncode == -signal.SIGTERM
