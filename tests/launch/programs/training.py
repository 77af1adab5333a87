"""Marks three epochs, says so, then ends as its arguments say."""

import ctypes
import os
import signal
import sys
import time

import gpuprof


def hang():
    while True:
        time.sleep(60)


def ignore(*numbers):
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


for _ in range(3):
    with gpuprof.epoch(), gpuprof.step():
        pass
ENDINGS = {
    "returns": lambda: None,
    "status": lambda: sys.exit(7),
    "exception": lambda: {}["missing"],
    "leaves-at-once": lambda: os._exit(3),
    "abort": os.abort,
    "segmentation-fault": lambda: ctypes.string_at(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminated": lambda: (os.kill(os.getpid(), signal.SIGTERM), hang()),
    "hung-up": lambda: (os.kill(os.getpid(), signal.SIGHUP), hang()),
    "hangs": hang,
    "hangs-in-a-child": lambda: (os.fork(), hang()),
    "ignores-ctrl-c": lambda: (ignore(signal.SIGINT), hang()),
    "ignores-everything": lambda: (ignore(signal.SIGINT, signal.SIGTERM, signal.SIGHUP), hang()),
}
sys.stdout.write("trained\n")
sys.stdout.flush()
ENDINGS[sys.argv[1]]()
