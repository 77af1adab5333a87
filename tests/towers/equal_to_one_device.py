"""Run by test_towers_model.py in a process of its own: four logical devices, results as JSON."""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from gpuprof.base.errors import UsageError
from gpuprof.towers import Towers

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
tf.config.set_soft_device_placement(enabled=False)
NAMES = [f"/CPU:{number}" for number in range(4)]
WORDS, LENGTH, CLASSES = 20, 12, 3
SIZES = (64, 63, 3, 1)


def make_model(dropout=0.0):
    keras.utils.set_random_seed(3)
    layers = keras.layers
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, 8)(inputs)
    x = layers.Conv1D(8, 3, activation="tanh")(x)
    x = layers.MaxPooling1D(2)(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(dropout)(x)
    outputs = layers.Dense(CLASSES, kernel_regularizer=keras.regularizers.L2(0.1))(x)
    return keras.Model(inputs, outputs)


def data(count):
    random = np.random.default_rng(count)
    x = random.integers(0, WORDS, (count, LENGTH)).astype("int32")
    return x, random.integers(0, CLASSES, count), random.random(count).astype("float32")


def compiled(model):
    # With a rate of 1, a step changes the weights by the gradients themselves.
    model.compile(
        keras.optimizers.SGD(1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def stepped(model, batch, *, is_static):
    x, y, weights = batch
    if is_static:
        dataset = tf.data.Dataset.from_tensors((x, y, weights))
    else:
        dataset = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(64)
    history = model.fit(dataset, verbose=0).history
    return [w.astype("float64") for w in model.get_weights()], history


def largest(values, expected):
    return max(float(np.abs(a - b).max()) for a, b in zip(values, expected, strict=True))


def gradients():
    """Each size on each number of towers, with the number of samples known before and not."""
    start = make_model().get_weights()
    plain = compiled(make_model())
    models = {towers: compiled(Towers(make_model(), NAMES[:towers])) for towers in (1, 2, 4)}
    for size in SIZES:
        batch = data(size)
        plain.set_weights(start)
        outputs = plain(batch[0]).numpy()
        expected, history = stepped(plain, batch, is_static=False)
        for towers, model in models.items():
            for is_static in (False, True):
                model.set_weights(start)
                forward = model(batch[0]).numpy()
                found, told = stepped(model, batch, is_static=is_static)
                yield {
                    "size": size,
                    "towers": towers,
                    "is_static": is_static,
                    "gradient": largest(found, expected),
                    "forward": largest([forward], [outputs]),
                    "loss": abs(told["loss"][0] - history["loss"][0]),
                    "accuracy": abs(told["accuracy"][0] - history["accuracy"][0]),
                }


def fit_with_callbacks(folder):
    """Two epochs of 70 samples in batches of 32 (the last of 6), with validation and callbacks."""
    x, y, _ = data(70)
    batches = []
    model = compiled(Towers(make_model(dropout=0.5), NAMES))
    history = model.fit(
        x,
        y,
        batch_size=32,
        epochs=2,
        verbose=0,
        validation_data=(x[:9], y[:9]),
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: batches.append(batch)  # noqa: ARG005 - Keras' names
            ),
            keras.callbacks.EarlyStopping(patience=5),
        ],
    ).history
    outputs = model.predict(x, verbose=0)
    model.save_weights(folder / "four.weights.h5")
    model.model.save(folder / "plain.keras")
    model.save(folder / "towers.keras")
    tf.train.Checkpoint(model=model).write(str(folder / "checkpoint"))
    return {
        "batches": batches,
        "history": sorted(history),
        "differences": dict(_restored(folder, x, outputs)),
        "dropout_differs": _dropout_differs(),
    }


def _restored(folder, x, outputs):
    """Outputs on fewer devices and without towers, less those of the four towers."""
    two = compiled(Towers(make_model(), NAMES[:2]))
    two.load_weights(folder / "four.weights.h5")
    single = compiled(Towers(make_model(), NAMES[:1]))
    tf.train.Checkpoint(model=single).read(str(folder / "checkpoint")).expect_partial()
    models = {
        "two": two,
        "one": single,
        "none": keras.models.load_model(folder / "plain.keras"),
        "saved": keras.models.load_model(folder / "towers.keras"),
    }
    for name, model in models.items():
        yield name, largest([model.predict(x, verbose=0)], [outputs])


def _dropout_differs():
    """Whether two towers drop different units of the same sample."""
    layers = [keras.Input((50,)), keras.layers.Dropout(0.5)]
    model = Towers(keras.Sequential(layers), NAMES[:2])
    outputs = []

    class Seeing(keras.losses.Loss):
        def call(self, y_true, y_pred):
            outputs.append(y_pred)
            return tf.reduce_mean(y_pred + 0 * y_true, axis=-1)

    model.compile("sgd", Seeing(), run_eagerly=True)
    model.train_step((tf.ones((2, 50)), tf.ones((2, 50))))
    return bool((outputs[0].numpy() != outputs[1].numpy()).any())


def refusals():
    model = make_model()
    attempts = {
        "device": lambda: Towers(model, ["/CPU:0", "/GPU:7"]),
        "many": lambda: Towers(model, 9),
        "jit": lambda: Towers(model, 2).compile("sgd", "mse", jit_compile=True),
        "sum": lambda: Towers(model, 2).compile("sgd", keras.losses.MeanSquaredError("sum")),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except UsageError as error:
            yield name, [error.message, error.hint]


sys.stdout.write(
    json.dumps(
        {
            "gradients": list(gradients()),
            "fit": fit_with_callbacks(Path(sys.argv[1])),
            "refusals": dict(refusals()),
        }
    )
)
