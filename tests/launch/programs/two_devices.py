"""A step on two logical devices that copies forward and back between them."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
weights = tf.Variable(tf.ones([10, 10]))
x = tf.ones([4, 10])


@tf.function(jit_compile=False)
def training_step():
    with tf.GradientTape() as tape:
        with tf.device("/CPU:1"):
            hidden = tf.tanh(tf.matmul(x, weights))
        with tf.device("/CPU:0"):
            loss = tf.reduce_sum(tf.square(hidden))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss
