"""Two towers on two devices, trained by ``fit``; TensorFlow puts all gradients on the first one."""

import sys

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
DEVICES = {"user": "/CPU:0", "item": "/CPU:1"}
FEATURES, WIDTH, BATCH = 32, 64, 64


def tower(name, device):
    features = inputs = keras.Input((FEATURES,), name=f"{name}_inputs")
    with tf.device(device):
        for number in range(2):
            layer = keras.layers.Dense(WIDTH, activation="relu", name=f"{name}_{number}")
            features = layer(features)
    return keras.Model(inputs, features, name=name)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.user, self.item = (tower(*place) for place in DEVICES.items())
        self.head = keras.layers.Dense(1, name="rating")

    def call(self, inputs):
        with tf.device("/CPU:0"):
            user = self.user(inputs[:, :FEATURES])
        with tf.device("/CPU:1"):
            item = self.item(inputs[:, FEATURES:])
        with tf.device("/CPU:0"):
            return self.head(tf.concat([user, item], 1))


keras.utils.set_random_seed(1)
inputs = np.random.default_rng(0).normal(size=(8 * BATCH, 2 * FEATURES)).astype(np.float32)
model = Model()
model.compile("sgd", "mse", jit_compile=False)
history = model.fit(inputs, inputs.sum(1), batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
sys.stdout.write(f"loss {history.history['loss']}\n")
