"""A model of two towers in four writings, each trained by its function; then one by ``fit``.

The item tower's layers and weights are on the second device, its gradients on the first one.
"""

import contextlib

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
DEVICES = {"user": "/CPU:0", "item": "/CPU:1"}
BATCH, LENGTH, WORDS, WIDTH, FEATURES = 8, 10, 100, 8, 4


def tower(name):
    layers = keras.layers
    stack = [
        layers.Embedding(WORDS, WIDTH, name=f"{name}_embedding"),
        layers.Flatten(name=f"{name}_flatten"),
        layers.Dense(FEATURES, activation="relu", name=f"{name}_dense"),
    ]
    return keras.Sequential(stack, name=f"{name}_tower")


class OnDevice(keras.layers.Layer):
    """A layer with its weights on a device: Keras forgets the scope that a layer was called in."""

    def __init__(self, layer, device, **options):
        super().__init__(**options)
        self.layer, self.device = layer, device

    def build(self, shape):
        with tf.device(self.device):
            self.layer.build(shape)

    def call(self, inputs):
        with tf.device(self.device):
            return self.layer(inputs)


def functional():
    inputs = [keras.Input((LENGTH,), dtype="int32", name=name) for name in DEVICES]
    towers = [OnDevice(tower(name), device) for name, device in DEVICES.items()]
    features = [layer(words) for layer, words in zip(towers, inputs, strict=True)]
    joined = keras.layers.Concatenate()(features)
    return keras.Model(inputs, keras.layers.Dense(1, name="rating")(joined))


class TwoTowers(keras.Model):
    def __init__(self):
        super().__init__()
        self.user, self.item = tower("user"), tower("item")
        self.rating = keras.layers.Dense(1, name="rating")
        for name, device in DEVICES.items():
            with tf.device(device):
                getattr(self, name).build((None, LENGTH))

    def call(self, words):
        features = []
        for name, numbers in zip(DEVICES, words, strict=True):
            with tf.device(DEVICES[name]):
                features.append(getattr(self, name)(numbers))
        with tf.device("/CPU:0"):
            return self.rating(tf.concat(features, 1))


class Plain:
    """The same of variables alone, with a scope for each tower or without any."""

    def __init__(self, scope):
        self.scope = scope
        self.trainable_variables = []
        for device in DEVICES.values():
            with tf.device(device):
                self.add(WORDS, WIDTH)
                self.add(LENGTH * WIDTH, FEATURES)
        self.add(2 * FEATURES, 1)

    def add(self, *shape):
        value = tf.random.stateless_normal(shape, (1, len(self.trainable_variables)))
        self.trainable_variables.append(tf.Variable(value))

    def __call__(self, words):
        weights = iter(self.trainable_variables)
        features = []
        for (name, device), numbers in zip(DEVICES.items(), words, strict=True):
            with tf.device(device), self.scope(f"{name}_tower"):
                x = tf.reshape(tf.nn.embedding_lookup(next(weights), numbers), [BATCH, -1])
                features.append(tf.nn.relu(x @ next(weights)))
        with tf.device("/CPU:0"), self.scope("head"):
            return tf.concat(features, 1) @ next(weights)


def train(name, model, user, item, ratings):
    def step(user, item, ratings):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model([user, item]) - ratings))
        variables = model.trainable_variables
        weights = [v if isinstance(v, tf.Variable) else v.value for v in variables]
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            with tf.device(weight.device):
                weight.assign_sub(0.01 * tf.convert_to_tensor(gradient))
        return loss

    step.__name__ = name
    compiled = tf.function(step, jit_compile=False)
    for _ in range(3):
        compiled(tf.constant(user), tf.constant(item), tf.constant(ratings))


random = np.random.default_rng(1)
WORDS_READ = random.integers(0, WORDS, (2, 4 * BATCH, LENGTH)).astype("int32")
RATINGS = random.normal(size=(4 * BATCH, 1)).astype("float32")

if __name__ == "__main__":
    batch = (*WORDS_READ[:, :BATCH], RATINGS[:BATCH])
    train("functional", functional(), *batch)
    train("subclass", TwoTowers(), *batch)
    train("scoped", Plain(tf.name_scope), *batch)
    train("unscoped", Plain(contextlib.nullcontext), *batch)
    fitted = TwoTowers()
    fitted.compile("sgd", "mse")
    fitted.fit([*WORDS_READ], RATINGS, batch_size=BATCH, epochs=2, verbose=0)
    fitted.fit([*WORDS_READ], RATINGS, batch_size=BATCH, epochs=1, verbose=0)
