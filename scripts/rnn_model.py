"""The recurrent model and its training; `rnn_training.py` says what they are."""

import argparse
import os
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from devices import find_devices
from sequences import CLASSES, FEATURES, sequences

import gpuprof
from gpuprof.towers import Towers

_MB = 1e6


def make_model(options: argparse.Namespace) -> keras.Model:
    """Recurrent layers with dropout between them, and a classifier."""
    kind = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}[options.model]
    layers: list[Any] = [keras.Input((options.length, FEATURES))]
    for number in range(options.layers):
        is_last = number == options.layers - 1
        layers.append(kind(options.units, return_sequences=not is_last))
        layers.append(keras.layers.Dropout(options.dropout))
    return keras.Sequential([*layers, keras.layers.Dense(CLASSES)])


def run(options: argparse.Namespace) -> None:
    """Train once, with a line per epoch and a summary."""
    devices, why = find_devices(options.devices)
    keras.utils.set_random_seed(options.seed)
    with tf.device(devices[0]):
        model = make_model(options)
    trained = Towers(model, devices) if options.devices > 1 else model
    trained.compile(
        keras.optimizers.Adam(0.005),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    print(f"{options.model}, batch {options.batch_size}, on {why}", flush=True)
    epochs = Epochs(options.epochs, devices[0])
    trained.fit(
        _batches(options, options.samples, options.seed),
        validation_data=_batches(
            options, max(options.samples // 4, options.batch_size), options.seed + 1
        ),
        epochs=options.epochs,
        verbose=0,
        callbacks=[gpuprof.KerasCallback(), epochs, *_stopping(options)],
    )
    epochs.summarise()


def _batches(options: argparse.Namespace, samples: int, seed: int) -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices(sequences(samples, options.length, seed))
    return data.batch(options.batch_size, drop_remainder=True).cache()


def _stopping(options: argparse.Namespace) -> list[Any]:
    if not options.early_stopping:
        return []
    return [keras.callbacks.EarlyStopping("val_accuracy", patience=options.early_stopping)]


class Epochs(keras.callbacks.Callback):  # type: ignore[misc]
    """Accuracies and memory of each epoch."""

    def __init__(self, epochs: int, device: str) -> None:
        super().__init__()
        self._epochs = epochs
        self._device = device
        self._rows: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Say how far it is."""
        row = {**(logs or {}), "memory": memory_bytes(self._device) / _MB}
        self._rows.append(row)
        print(
            f"epoch {epoch + 1}/{self._epochs}: accuracy {row['accuracy']:.4f},"
            f" validation {row['val_accuracy']:.4f}, memory {row['memory']:.1f} MB",
            flush=True,
        )

    def summarise(self) -> None:
        """What the sweep reads: accuracies at the end, and what each epoch adds to the memory."""
        first, last = self._rows[min(1, len(self._rows) - 1)], self._rows[-1]
        growth = (last["memory"] - first["memory"]) / max(len(self._rows) - 2, 1)
        if len(self._rows) < self._epochs:
            print(f"stopped early, at validation accuracy {last['val_accuracy']:.4f}")
        print(f"trained for {len(self._rows)} epochs")
        print(f"final accuracy {last['accuracy']:.4f}")
        print(f"final validation accuracy {last['val_accuracy']:.4f}")
        print(f"memory grows by {growth:.2f} MB per epoch")


def memory_bytes(device: str) -> int:
    """Memory in use: the GPU's where it trains on one, else that of this process."""
    if "GPU" in device:
        return int(tf.config.experimental.get_memory_info(device.lstrip("/"))["current"])
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
