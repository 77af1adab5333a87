"""Trains a little on two logical devices, then ends as its argument says."""

import os
import signal
import sys
import time

import tensorflow as tf
from two_devices import training_step

for _ in range(20):
    training_step()
until = time.monotonic() + float(os.environ.get("TRAIN_SECONDS", "0"))
while time.monotonic() < until:
    training_step()

match sys.argv[1]:
    case "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    case "leave-at-once":
        os._exit(3)
    case "hang":
        sys.stdout.write("trained\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)
    case "own-profiler":
        with tf.profiler.experimental.Profile(sys.argv[2]):
            training_step()
        tf.profiler.experimental.start(sys.argv[2])
        training_step()
        tf.profiler.experimental.stop()
