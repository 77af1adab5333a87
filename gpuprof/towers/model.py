"""The Keras model that trains another one as towers.

In each step a tower reads every variable once, onto its own device, and computes the gradients
of its part of the batch there. Forward pass and gradients thus run on the same device, and what
crosses devices is each variable once, each gradient once, and the tower's samples and outputs.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

import keras
import tensorflow as tf

from gpuprof.base.errors import UsageError

_MEAN: Final = "sum_over_batch_size"


class _BatchPart(NamedTuple):
    """One tower's share of a batch: samples ``begin`` up to ``begin + size``."""

    device: str
    begin: Any
    size: Any


def tower_devices(count: int) -> list[str]:
    """The first GPUs, or where there are too few the first CPU devices.

    Raises:
        UsageError: There are fewer of both.
    """
    counts = {kind: len(tf.config.list_logical_devices(kind)) for kind in ("GPU", "CPU")}
    kind = next((kind for kind, number in counts.items() if number >= count), None)
    if kind is None:
        msg = f"{count} towers need as many devices; there are {counts['GPU']} GPUs and"
        msg += f" {counts['CPU']} CPU devices"
        hint = "tf.config.set_logical_device_configuration splits a CPU into several devices."
        raise UsageError(msg, hint)
    return [f"/{kind}:{number}" for number in range(count)]


@keras.saving.register_keras_serializable("gpuprof")
class Towers(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model that trains as towers, with the methods that every Keras model has.

    Equal to training on one device but for rounding: the gradients of a tower count by its
    share of the samples. Layers that look at a whole batch, as batch normalisation does, see
    their tower's part of it; their moving averages are averaged.

    Weights are those of ``model``: what it saves loads on any number of devices.

    Args:
        model: What is trained; its losses must be means over samples, Keras' default.
        devices: One per tower, or their number; the first one keeps the variables.

    Raises:
        UsageError: A device does not exist, or Keras does not run on TensorFlow.
    """

    def __init__(self, model: Any, devices: Sequence[str] | int, **options: Any) -> None:
        super().__init__(**options)
        if keras.backend.backend() != "tensorflow":
            msg = f"towers need Keras on TensorFlow, but it runs on {keras.backend.backend()}"
            raise UsageError(msg, "Set KERAS_BACKEND=tensorflow.")
        self.model = model
        self.devices = tower_devices(devices) if isinstance(devices, int) else list(devices)
        absent = [name for name in self.devices if not _exists(name)]
        if absent or not self.devices:
            msg = f"there is no device {absent[0]}" if absent else "towers need a device"
            raise UsageError(msg, f"Devices: {', '.join(_device_names())}.")
        self.built = model.built

    def build(self, input_shape: Any) -> None:
        """Build the model, its variables on the first device."""
        with tf.device(self.devices[0]):
            if not self.model.built:
                self.model.build(input_shape)
        self.built = True

    def compile(self, *words: Any, jit_compile: bool | str = False, **options: Any) -> None:
        """Configure training as every Keras model does; without XLA, which knows one device.

        Raises:
            UsageError: XLA is asked for, a loss is no mean over samples, or losses are scaled.
        """
        if jit_compile is True and len(self.devices) > 1:
            msg = f"jit_compile=True would put all {len(self.devices)} towers on one device"
            raise UsageError(msg, "Remove it: XLA compiles a step for one device.")
        super().compile(*words, jit_compile=False, **options)
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            msg = "towers do not scale losses, which the policy mixed_float16 needs"
            raise UsageError(msg, "Use mixed_bfloat16.")
        for loss in tf.nest.flatten(self.loss):
            reduction = getattr(loss, "reduction", _MEAN)
            if reduction != _MEAN:
                msg = f"towers average losses over samples; one has the reduction {reduction!r}"
                raise UsageError(msg, f"Use reduction={_MEAN!r}, Keras' default.")

    def call(self, inputs: Any, training: bool = False) -> Any:  # noqa: FBT001, FBT002 - Keras' signature
        """The outputs of a batch, in its order."""
        variables = self.model.variables
        outputs = []
        for part in self._parts(inputs):
            values = _on(part.device, [v.value for v in variables])
            scope = keras.StatelessScope(list(zip(variables, values, strict=True)))
            with tf.device(part.device), scope:
                outputs.append(_first(self.model(_piece(inputs, part), training=training), part))
        return self._joined(outputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step on all towers; their gradients are summed, each by its tower's share."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        parts, towers = self._parts(data), []
        before = state = [v.value for v in self.model.non_trainable_variables]
        for number, part in enumerate(parts):
            with tf.name_scope(f"tower_{number}"):  # so that recordings tell towers apart
                towers.append(self._tower(part, _piece((x, y, sample_weight), part), before))
            # Averages are as they were; counters of random numbers go on, or towers would drop the
            # same units. Nothing waits: a counter does not depend on samples.
            pairs = zip(state, towers[-1][-1], strict=True)
            before = [old if old.dtype.is_floating else new for old, new in pairs]
        outputs, losses, gradients, states = zip(*towers, strict=True)
        with tf.device(self.devices[0]), tf.name_scope("update"):
            samples = tf.cast(_samples(data), tf.float32)
            shares = [tf.cast(part.size, tf.float32) / samples for part in parts]
            summed = [_summed(of_towers, shares) for of_towers in zip(*gradients, strict=True)]
            self.optimizer.apply(summed, self.model.trainable_variables)
            columns = zip(self.model.non_trainable_variables, *states, strict=True)
            for variable, *of_towers in columns:
                is_average = of_towers[0].dtype.is_floating
                variable.assign(_summed(of_towers, shares) if is_average else of_towers[-1])
            loss = _summed(losses, shares)
            metric = next(metric for metric in self.metrics if metric.name == "loss")
            metric.update_state(loss, sample_weight=samples)
        metrics: dict[str, Any] = self.compute_metrics(x, y, self._joined(outputs), sample_weight)
        return metrics

    def _tower(self, part: _BatchPart, batch: Any, state: list[tf.Tensor]) -> tuple[Any, ...]:
        """One tower's outputs, loss, gradients and state after its pass, all on its device."""
        x, y, sample_weight = batch
        trainable, non_trainable = (
            self.model.trainable_variables,
            self.model.non_trainable_variables,
        )
        values = _on(part.device, [v.value for v in trainable])
        here = [*values, *_on(part.device, state)]
        mapping = list(zip([*trainable, *non_trainable], here, strict=True))
        with tf.device(part.device), tf.GradientTape() as tape:
            tape.watch(values)
            with keras.StatelessScope(mapping, collect_losses=True) as scope:
                outputs = self.model(x, training=True)
                loss = self.compute_loss(x, y, outputs, sample_weight, training=True)
                after = [tf.convert_to_tensor(scope.get_current_value(v)) for v in non_trainable]
        with tf.device(part.device):
            gradients = tape.gradient(loss, values)
        return _first(outputs, part), loss, gradients, after

    def _parts(self, batch: Any) -> list[_BatchPart]:
        """Parts that differ by at most one sample, no tower left without any.

        Where the number of samples is known only in the step, a tower that would get none
        computes the first sample, which then counts for nothing: operations fail, and oneDNN's
        abort the process, where a batch has no samples.
        """
        samples, count = _samples(batch), len(self.devices)
        if isinstance(samples, int):
            count = max(min(samples, count), 1)
            sizes = [samples // count + (n < samples % count) for n in range(count)]
            return [
                _BatchPart(d, sum(sizes[:n]), sizes[n]) for n, d in enumerate(self.devices[:count])
            ]
        least, larger = samples // count, samples % count
        return [
            _BatchPart(d, n * least + tf.minimum(n, larger), least + tf.cast(n < larger, tf.int32))
            for n, d in enumerate(self.devices)
        ]

    def _joined(self, outputs: Sequence[Any]) -> Any:
        with tf.device(self.devices[0]):
            return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *outputs)

    def get_config(self) -> dict[str, Any]:
        """The model and the devices, for `keras.Model.save`."""
        return {"model": keras.saving.serialize_keras_object(self.model), "devices": self.devices}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """The same model on those of its devices that are here, or on the first one here."""
        model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
        here = [name for name in config["devices"] if _exists(name)]
        return cls(model, here or 1)


def _device_names() -> list[str]:
    return [d.name.removeprefix("/device:") for d in tf.config.list_logical_devices()]


def _exists(device: str) -> bool:
    return device.strip("/").removeprefix("device:") in _device_names()


def _samples(batch: Any) -> Any:
    """How many samples a batch has."""
    first = next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)
    size = first.shape[0]
    return tf.shape(first)[0] if size is None else int(size)


def _piece(batch: Any, part: _BatchPart) -> Any:
    """A part of a batch, or its first sample where the part is empty."""
    if isinstance(part.size, int):
        begin, size = part.begin, part.size
    else:
        begin = tf.where(part.size > 0, part.begin, 0)
        size = tf.maximum(part.size, 1)
    with tf.name_scope("samples"):
        return tf.nest.map_structure(
            lambda leaf: None if leaf is None else leaf[begin : begin + size], batch
        )


def _first(outputs: Any, part: _BatchPart) -> Any:
    """The outputs that count: none of a part that is empty."""
    return tf.nest.map_structure(lambda leaf: leaf[: part.size], outputs)


def _on(device: str, values: Sequence[Any]) -> list[tf.Tensor]:
    """Each value on a device, copied there once however often it is used."""
    with tf.device(device), tf.name_scope("variables"):
        return [tf.identity(value) for value in values]


def _summed(column: Sequence[Any], shares: Sequence[tf.Tensor]) -> Any:
    """One gradient or value of all towers, each by its share; None where no tower has it."""
    if column[0] is None:
        return None
    pairs = zip(column, shares, strict=True)
    if not isinstance(column[0], tf.IndexedSlices):
        return tf.add_n([value * tf.cast(share, value.dtype) for value, share in pairs])
    values = [slices.values * tf.cast(share, slices.values.dtype) for slices, share in pairs]
    indices = [slices.indices for slices in column]
    return tf.IndexedSlices(tf.concat(values, 0), tf.concat(indices, 0), column[0].dense_shape)
