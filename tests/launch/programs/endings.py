"""Trains a little on two logical devices, then ends as its argument says."""

import os
import signal
import sys
import time

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
weights = tf.Variable(tf.ones([10, 10]))


@tf.function(jit_compile=False)
def training_step(x):
    with tf.GradientTape() as tape:
        with tf.device("/CPU:1"):
            hidden = tf.tanh(tf.matmul(x, weights))
        with tf.device("/CPU:0"):
            loss = tf.reduce_sum(tf.square(hidden))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


x = tf.ones([4, 10])
until = time.monotonic() + float(os.environ.get("TRAIN_SECONDS", "0"))
for _ in range(20):
    training_step(x)
while time.monotonic() < until:
    training_step(x)

match sys.argv[1]:
    case "exit":
        sys.exit(7)
    case "exception":
        raise ValueError
    case "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    case "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    case "leave-at-once":
        os._exit(3)
    case "kill":  # as the kernel does when memory runs out
        os.kill(os.getpid(), signal.SIGKILL)
    case "hang":
        sys.stdout.write("trained\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)
    case "abort":
        os.abort()
    case "own-profiler":
        with tf.profiler.experimental.Profile(sys.argv[2]):
            training_step(x)
        tf.profiler.experimental.start(sys.argv[2])
        training_step(x)
        tf.profiler.experimental.stop()
