"""A model of two towers under one placement after the other: each its own training function.

In ``sound`` the user tower and the head are on the first device and all of the item tower on the
second one. Each other placement differs from it in what its name says. Prints the losses as JSON.
"""

import json
import sys
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
NEAR, FAR = "/CPU:0", "/CPU:1"
BATCH, LENGTH, WORDS, WIDTH, FEATURES = 8, 10, 300, 16, 4
STEPS = 4
SHAPES = {
    "embedding": (WORDS, WIDTH),
    "convolution": (3, WIDTH, WIDTH),
    "dense": ((LENGTH - 2) * WIDTH, FEATURES),
}


@dataclass(frozen=True)
class Placement:
    """Where the parts of the item tower are, and what joins the towers.

    Args:
        layers: Device of its embedding, its convolution and its dense layer.
        weights: Device of its weights; None for that of each one's layer.
        slots: Device of its weights' momentum; None for that of each weight.
        joined: Device that the towers' features are joined on.
        is_taped: Whether each tower's gradients are computed under its own device.
        shared: Where the item tower looks words up in the user tower's table; None for its own.
    """

    layers: tuple[str, str, str] = (FAR, FAR, FAR)
    weights: str | None = None
    slots: str | None = None
    joined: str = NEAR
    is_taped: bool = True
    shared: str | None = None


SOUND = Placement()
PLACEMENTS = {
    "sound": SOUND,
    "gradients_outside": replace(SOUND, is_taped=False),
    "weights_apart": replace(SOUND, weights=NEAR),
    "optimiser_slots": replace(SOUND, slots=NEAR),
    "concatenation": replace(SOUND, joined=FAR),
    "alternating_layers": replace(SOUND, layers=(FAR, NEAR, FAR), is_taped=False),
    "shared_embedding": replace(SOUND, shared=FAR),
    "shared_embedding_mended": replace(SOUND, shared=NEAR),
}


class Model:
    """The weights, their momentum, and a step of training."""

    def __init__(self, placement):
        self.placement = placement
        self.weights, self.slots = {}, {}
        random = np.random.default_rng(1)
        for tower, devices in (("user", (NEAR,) * 3), ("item", placement.layers)):
            for (layer, shape), device in zip(SHAPES.items(), devices, strict=True):
                self.add(random, f"{tower} {layer}", shape, device)
        self.add(random, "head dense", (2 * FEATURES, 1), NEAR)

    def add(self, random, name, shape, device):
        is_item = name.startswith("item")
        device = (is_item and self.placement.weights) or device
        value = random.normal(scale=0.1, size=shape).astype("float32")
        if self.placement.shared and name == "item embedding":
            return
        with tf.device(device):
            self.weights[name] = tf.Variable(value)
        with tf.device((is_item and self.placement.slots) or device):
            self.slots[name] = tf.Variable(tf.zeros(shape))

    def tower(self, name, words, devices):
        with tf.name_scope(f"{name}_tower"):
            if name == "item" and self.placement.shared:
                with tf.device(NEAR):
                    table = self.weights["user embedding"].read_value()
                devices = (self.placement.shared, *devices[1:])
            else:
                table = self.weights[f"{name} embedding"]
            with tf.device(devices[0]), tf.name_scope("embedding"):
                x = tf.gather(table, words)
            with tf.device(devices[1]), tf.name_scope("convolution"):
                x = tf.tanh(tf.nn.conv1d(x, self.weights[f"{name} convolution"], 1, "VALID"))
            with tf.device(devices[2]), tf.name_scope("dense"):
                return tf.nn.relu(tf.reshape(x, [BATCH, -1]) @ self.weights[f"{name} dense"])

    def loss(self, user, item, ratings):
        with tf.name_scope("head"):
            with tf.device(self.placement.joined):
                joined = tf.concat([user, item], 1)
            with tf.device(NEAR):
                predicted = joined @ self.weights["head dense"]
                return tf.reduce_mean(tf.square(predicted - ratings))

    def gradients(self, user, item, ratings):
        """The loss, and the gradient of each weight: with one tape, or with one per tower."""
        devices = {"user": (NEAR,) * 3, "item": self.placement.layers}
        words = {"user": user, "item": item}
        if not self.placement.is_taped:
            with tf.GradientTape() as tape:
                features = [self.tower(name, words[name], devices[name]) for name in words]
                loss = self.loss(*features, ratings)
            return loss, tape.gradient(loss, self.weights)
        tapes, features = {}, []
        for name, numbers in words.items():
            with tf.GradientTape() as tapes[name]:
                features.append(self.tower(name, numbers, devices[name]))
        with tf.GradientTape() as tape:
            tape.watch(features)
            loss = self.loss(*features, ratings)
        with tf.device(NEAR):
            of_features, head = tape.gradient(loss, (features, self.weights["head dense"]))
        gradients = {"head dense": head}
        for name, feature, gradient in zip(words, features, of_features, strict=True):
            with tf.device(devices[name][0]):
                weights = {key: w for key, w in self.weights.items() if key.startswith(name)}
                if name == "item" and self.placement.shared:
                    weights["shared"] = self.weights["user embedding"]
                gradients |= tapes[name].gradient(feature, weights, output_gradients=gradient)
        return loss, gradients

    def update(self, gradients):
        second = gradients.pop("shared", None)
        for name, weight in self.weights.items():
            slot, gradient = self.slots[name], gradients[name]
            with tf.device(slot.device):
                gradient = tf.convert_to_tensor(gradient)
                if second is not None and name == "user embedding":
                    gradient += tf.convert_to_tensor(second)
                slot.assign(0.9 * slot + gradient)
                change = 0.1 * slot
            with tf.device(weight.device):
                weight.assign_sub(change)


def batches():
    random = np.random.default_rng(2)
    for _ in range(STEPS):
        words = random.integers(0, WORDS, (2, BATCH, LENGTH)).astype("int32")
        ratings = random.normal(size=(BATCH, 1)).astype("float32")
        yield [tf.constant(part) for part in (*words, ratings)]


def train(name):
    model = Model(PLACEMENTS[name])

    def training(user, item, ratings):
        loss, gradients = model.gradients(user, item, ratings)
        model.update(gradients)
        return loss

    training.__name__ = name
    step = tf.function(training, jit_compile=False)
    return [float(step(*batch)) for batch in batches()]


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: train(name) for name in PLACEMENTS}) + "\n")
