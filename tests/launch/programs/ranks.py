"""A launcher, as torchrun and mpirun are, of ranks that train on two logical devices each."""

import os
import signal
import subprocess
import sys
import time

KILLED = 1


def train(rank):
    import tensorflow as tf  # noqa: PLC0415 - the launcher imports neither

    import gpuprof  # noqa: PLC0415

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

    for _ in range(2):
        with gpuprof.epoch():
            for _ in range(5):
                with gpuprof.step():
                    training_step(tf.ones([4, 10]))
    if rank == KILLED and "kill" in sys.argv:
        # A window of the recorder has closed by then, and marks are written at once.
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGKILL)


def launch(ranks):
    children = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(rank)})
        for rank in range(ranks)
    ]
    sys.exit(max(abs(child.wait()) for child in children))


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]))
    else:
        launch(3)
