"""The model, the data and the training loop of `deepconn.py`, which says what they are."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from devices import check_names, find_devices

try:
    from gpuprof import epoch as mark_epoch
    from gpuprof import step as mark_step
except ImportError:  # the script runs without gpuprof too

    def mark_epoch() -> AbstractContextManager[None]:
        """Mark nothing."""
        return nullcontext()

    mark_step = mark_epoch

_LAYERS: Final = 5
# Placement -> device of each layer of the user tower, and of the item tower.
PLANS: Final = {
    "single": ((0,) * _LAYERS, (0,) * _LAYERS),
    "dual": ((0,) * _LAYERS, (1,) * _LAYERS),
    "dual-colocated": ((0,) * _LAYERS, (1,) * _LAYERS),
    "exaggerated": ((0, 1, 0, 1, 0), (1, 0, 1, 0, 1)),
}
LEARNING_RATE: Final = 0.01

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


@dataclass(frozen=True)
class Size:
    """The model's and the data's sizes."""

    words: int = 5000
    embedding: int = 64
    sequence: int = 200
    filters: int = 64
    window: int = 3
    pool: int = 2
    pool_stride: int = 1
    dense: int = 64


SIZES: Final = {
    # Pooling by 2 with stride 1 keeps 197 of 198 places: the dense layer has 807,000 weights.
    "published": Size(),
    "small": Size(pool=198, pool_stride=198, dense=32),
}


@dataclass(frozen=True)
class Tower:
    """The layers of one tower, and the device of each."""

    name: str
    layers: Sequence[keras.Layer]
    devices: Sequence[str]

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        """The features of a batch of reviews."""
        features = tokens
        with tf.name_scope(self.name):
            for layer, device in zip(self.layers, self.devices, strict=True):
                with tf.device(device):
                    features = layer(features)
        return features

    @property
    def variables(self) -> list[keras.Variable]:
        """What training changes."""
        return [v for layer in self.layers for v in layer.trainable_variables]


@dataclass(frozen=True)
class Model:
    """Two towers and a head."""

    user: Tower
    item: Tower
    head: Tower

    @property
    def variables(self) -> list[keras.Variable]:
        """What training changes."""
        return self.user.variables + self.item.variables + self.head.variables

    def loss(self, user: tf.Tensor, item: tf.Tensor, ratings: tf.Tensor) -> tf.Tensor:
        """Mean squared error of a batch, from both towers' features."""
        with tf.device(self.head.devices[0]):
            predicted = self.head(tf.concat([user, item], axis=-1))
            return tf.reduce_mean(tf.square(predicted - ratings))


def build(
    size: Size, placement: str, devices: Sequence[str], overrides: Mapping[str, str] | None = None
) -> Model:
    """The model with its weights on the devices of their layers.

    Args:
        size: Of the model.
        placement: One of `PLANS`.
        devices: Two by name.
        overrides: Tower and layer, as in item_tower/item_dense, to another device.
    """
    overrides = overrides or {}
    plans = [[devices[number] for number in plan] for plan in PLANS[placement]]
    user, item, head = (
        Tower(
            name,
            layers,
            [overrides.get(f"{name}/{n.name}", d) for n, d in zip(layers, plan, strict=True)],
        )
        for name, layers, plan in (
            ("user_tower", tower_layers("user", size), plans[0]),
            ("item_tower", tower_layers("item", size), plans[1]),
            ("head", [keras.layers.Dense(1, name="rating")], devices[:1]),
        )
    )
    for tower, shape in (
        (user, (None, size.sequence)),
        (item, (None, size.sequence)),
        (head, (None, 2 * size.dense)),
    ):
        build_on_devices(tower, shape)
    return Model(user, item, head)


def tower_layers(name: str, size: Size) -> list[keras.Layer]:
    """A tower's layers; their names begin with the tower's."""
    layers = keras.layers
    return [
        layers.Embedding(size.words, size.embedding, name=f"{name}_embedding"),
        layers.Conv1D(size.filters, size.window, activation="tanh", name=f"{name}_convolution"),
        layers.MaxPooling1D(size.pool, size.pool_stride, name=f"{name}_pool"),
        layers.Flatten(name=f"{name}_flatten"),
        layers.Dense(size.dense, activation="relu", name=f"{name}_dense"),
    ]


def build_on_devices(tower: Tower, shape: tuple[int | None, ...]) -> None:
    """Make the weights of each layer on its own device."""
    for layer, device in zip(tower.layers, tower.devices, strict=True):
        with tf.device(device):
            layer.build(shape)
        shape = layer.compute_output_shape(shape)


def step(model: Model, user: tf.Tensor, item: tf.Tensor, ratings: tf.Tensor) -> tf.Tensor:
    """One step with one tape: the gradients of both towers run on the default device."""
    with tf.GradientTape() as tape:
        loss = model.loss(model.user(user), model.item(item), ratings)
    apply(model.variables, tape.gradient(loss, model.variables))
    return loss


def colocated_step(model: Model, user: tf.Tensor, item: tf.Tensor, ratings: tf.Tensor) -> tf.Tensor:
    """One step with a tape per tower: each tower's gradients run on its own device."""
    towers = (model.user, model.item)
    features, tapes = zip(*map(taped, towers, (user, item)), strict=True)
    with tf.GradientTape() as tape:
        tape.watch(features)
        loss = model.loss(*features, ratings)
    with tf.device(model.head.devices[0]):
        of_features, of_head = tape.gradient(loss, (list(features), model.head.variables))
    apply(model.head.variables, of_head)
    for number, tower in enumerate(towers):
        with tf.device(tower.devices[0]):
            gradients = tapes[number].gradient(
                features[number], tower.variables, output_gradients=of_features[number]
            )
        apply(tower.variables, gradients)
    return loss


def taped(tower: Tower, tokens: tf.Tensor) -> tuple[tf.Tensor, tf.GradientTape]:
    """A tower's features, and the tape that knows their gradients."""
    with tf.GradientTape() as tape:
        features = tower(tokens)
    return features, tape


def apply(variables: Iterable[keras.Variable], gradients: Iterable[Any]) -> None:
    """Plain gradient descent, each variable on its own device."""
    for variable, gradient in zip(variables, gradients, strict=True):
        weights = variable.value
        with tf.device(weights.device):
            if isinstance(gradient, tf.IndexedSlices):
                scaled = tf.IndexedSlices(LEARNING_RATE * gradient.values, gradient.indices)
                weights.scatter_sub(scaled)
            else:
                weights.assign_sub(LEARNING_RATE * gradient)


@contextmanager
def placed(scopes: Mapping[str, str]) -> Iterator[None]:
    """Put operations on devices by the beginnings of their names; the longest match counts.

    What TensorFlow's gradients make, too, whatever scope their tape is used in.
    """

    def device_of(operation: tf.Operation) -> str:
        words = operation.name.split("/")
        beginnings = ("/".join(words[:depth]) for depth in range(len(words), 0, -1))
        return next((f"/{scopes[b]}" for b in beginnings if b in scopes), operation.device)

    with tf.compat.v1.get_default_graph().device(device_of):
        yield


def reviews(size: Size, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users' and items' reviews as word numbers, and ratings; as the module says."""
    random = np.random.default_rng(seed)
    frequency = 1 / (np.arange(size.words) + 10)
    sentiment = random.normal(size=size.words)
    shape = (2, count, size.sequence)
    words = random.choice(size.words, shape, p=frequency / frequency.sum()).astype(np.int32)
    mean = sentiment[words].mean(axis=(0, 2))
    ratings = np.clip(3 + 8 * mean, 1, 5).astype(np.float32)
    return words[0], words[1], ratings[:, None]


def check_placement(model: Model) -> None:
    """Refuse to train a model whose weights are not on the requested devices."""
    for tower in (model.user, model.item, model.head):
        for layer, options in zip(tower.layers, tower.devices, strict=True):
            for variable in layer.trainable_variables:
                actual = variable.value.device
                if not actual.endswith(options.lstrip("/")):
                    sys.exit(f"deepconn: {variable.path} is on {actual}, {options} was requested")


def check_one_device(model: Model) -> None:
    """Refuse to compile for one device what has its weights on several."""
    places = sorted({variable.value.device for variable in model.variables})
    if len(places) > 1:
        devices = " and ".join(place.rpartition("device:")[2] for place in places)
        sys.exit(f"deepconn: XLA compiles a step for one device; weights are on {devices}")


def train(
    training_step: Callable[..., tf.Tensor], batches: Sequence[Batch], epochs: int
) -> list[float]:
    """Train, say how long each epoch took, and give the seconds of each."""
    seconds = []
    for number in range(1, epochs + 1):
        begin = time.perf_counter()
        with mark_epoch():
            for batch in batches:
                with mark_step():
                    loss = training_step(*batch)
            last = float(loss)
        seconds.append(time.perf_counter() - begin)
        print(f"epoch {number}/{epochs}: {seconds[-1]:.3f} s, loss {last!r}", flush=True)
    return seconds


@dataclass(frozen=True)
class Training:
    """What to train, and for how long.

    Args:
        placement: One of `PLANS`.
        size: One of `SIZES`.
        epochs: How many.
        steps: Per epoch.
        batch_size: Pairs of a user and an item per step.
        seed: Of the weights and of the reviews.
        placement_file: Layers and beginnings of operations' names with other devices, as
            `gpuprof place --output` wrote them.
        on: Two devices by name; empty for the first two GPUs or logical CPU devices.
        soft_placement: Whether TensorFlow may run elsewhere what cannot run there.
        jit: Whether XLA compiles the step, which it does for one device.
    """

    placement: str
    size: str
    epochs: int
    steps: int
    batch_size: int
    seed: int
    placement_file: Mapping[str, Mapping[str, str]]
    on: Sequence[str] = ()
    soft_placement: bool = False
    jit: bool = False


def run(options: Training) -> None:
    """Train under one placement and print the seconds per epoch."""
    devices, why = find_devices(2)
    tf.config.set_soft_device_placement(enabled=options.soft_placement)
    devices, why = (list(options.on), ", ".join(options.on)) if options.on else (devices, why)
    keras.utils.set_random_seed(options.seed)
    if not options.soft_placement:
        check_names(devices)
    layers = {name: f"/{device}" for name, device in options.placement_file["layers"].items()}
    model = build(SIZES[options.size], options.placement, devices, layers)
    if not options.soft_placement:
        check_placement(model)
    if options.jit:
        check_one_device(model)
    print(f"DeepCoNN, placement {options.placement}, on {why}", flush=True)
    batches = make_batches(options, devices[0])
    chosen = colocated_step if options.placement == "dual-colocated" else step

    @tf.function(jit_compile=options.jit)  # XLA puts everything on one device
    def training_step(user: tf.Tensor, item: tf.Tensor, ratings: tf.Tensor) -> tf.Tensor:
        with placed(options.placement_file["scopes"]):
            return chosen(model, user, item, ratings)

    training_step.get_concrete_function(*batches[0])  # so that no epoch holds the tracing
    seconds = train(training_step, batches, options.epochs)
    print(f"average of {options.epochs} epochs: {sum(seconds) / len(seconds):.3f} s")


def make_batches(options: Training, device: str) -> list[Batch]:
    """The reviews of all steps of an epoch, on the first device."""
    data = reviews(SIZES[options.size], options.steps * options.batch_size, options.seed)
    with tf.device(device):
        parts = (map(tf.constant, np.split(array, options.steps)) for array in data)
        return list(zip(*parts, strict=True))
