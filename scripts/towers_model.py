"""The model and the three ways to train it; `towers.py` says what they are."""

import argparse
from typing import Any, Final

import keras
import tensorflow as tf
from devices import check_names, find_devices
from sequences import CLASSES, FEATURES, sequences

import gpuprof
from gpuprof.towers import Towers, TowersConfig

LENGTH: Final = 60


def make_model() -> keras.Model:
    """A small convolutional classifier."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((LENGTH, FEATURES)),
            layers.Conv1D(32, 5, activation="relu", name="convolution"),
            layers.MaxPooling1D(2, name="pool"),
            layers.Flatten(name="flatten"),
            layers.Dense(64, activation="relu", name="hidden"),
            layers.Dense(CLASSES, name="logits"),
        ]
    )


def compiled(model: keras.Model) -> keras.Model:
    """The model, ready to train; without XLA, which would put all on one device."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    return model


def build(strategy: str, devices: list[str]) -> keras.Model:
    """The model on its device or devices."""
    if strategy == "mirrored":
        with tf.distribute.MirroredStrategy(devices).scope():
            return compiled(make_model())
    with tf.device(devices[0]):
        model = make_model()
    return compiled(Towers(model, devices) if strategy == "towers" else model)


def run(options: argparse.Namespace, config: TowersConfig) -> None:
    """Train once, and print losses and the sum of the weights."""
    devices, why = find_devices(1 if options.strategy == "single" else config.n_gpus)
    if options.strategy != "single" and config.devices:
        devices = list(config.devices)
    check_names(devices)
    keras.utils.set_random_seed(options.seed)
    model = build(options.strategy, devices)
    print(f"{options.strategy} on {', '.join(devices)} ({why})", flush=True)
    x, y = sequences(options.samples, LENGTH, options.seed)
    # Batches of a size that is known when the step is traced, so that recordings have all sizes.
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(
        options.batch_size, drop_remainder=True
    )
    callbacks = [gpuprof.KerasCallback(), _Lines(options.epochs)]
    model.fit(batches, epochs=options.epochs, verbose=0, callbacks=callbacks)
    weights = sum(float(tf.reduce_sum(tf.abs(v.value))) for v in model.trainable_variables)
    print(f"sum of weights {weights:.4f}")


class _Lines(keras.callbacks.Callback):  # type: ignore[misc]
    """A line per epoch."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self._epochs = epochs

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Say loss and accuracy."""
        figures = ", ".join(f"{name} {value:.6f}" for name, value in sorted((logs or {}).items()))
        print(f"epoch {epoch + 1}/{self._epochs}: {figures}", flush=True)
