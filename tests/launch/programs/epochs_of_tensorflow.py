"""Six epochs of ten steps each, the steps on two logical devices."""

import time

import tensorflow as tf

import gpuprof

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
for _ in range(6):
    with gpuprof.epoch():
        for _ in range(10):
            with gpuprof.step():
                training_step(x)
        time.sleep(0.2)
