"""The operation, its variants and their timing; `data_parallel.py` says what they are."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import tensorflow as tf
from devices import check_names, describe, find_devices
from parts import part_sizes
from timed import print_times
from utilisation import ENOUGH, utilisation

Step = Callable[[tf.Tensor], tf.Tensor]


def expensive(samples: tf.Tensor, weights: Sequence[tf.Tensor]) -> tf.Tensor:
    """A chain of products; one weight matrix is read for each."""
    for matrix in weights:
        samples = tf.tanh(samples @ matrix)
    return samples


class Work:
    """The weights on the first device, and one step in each variant."""

    def __init__(self, options: argparse.Namespace, devices: Sequence[str]) -> None:
        self.sizes = part_sizes(options.batch_size, len(devices))
        self.devices = list(devices)[: len(self.sizes)]
        self.products = options.products
        shape = (options.width, options.width)
        with tf.device(devices[0]):
            start = tf.random.stateless_normal(shape, (options.seed, 0)) / options.width**0.5
            self.weights = tf.Variable(start, name="weights")
            self.batch = tf.random.stateless_normal(
                (options.batch_size, options.width), (options.seed, 1)
            )
        self.copies = [_variable_on(device, start) for device in self.devices]

    def parts(self, batch: tf.Tensor) -> Iterator[tuple[str, tf.Tensor]]:
        """Each device with its samples, in order."""
        with tf.device(self.devices[0]):
            split = tf.split(batch, self.sizes)
        yield from zip(self.devices, split, strict=True)

    def on_one_device(self, batch: tf.Tensor) -> tf.Tensor:
        """The whole batch on the first device."""
        with tf.device(self.devices[0]):
            return expensive(batch, [self.weights] * self.products)

    def spread(self, batch: tf.Tensor) -> tf.Tensor:
        """A part per device, each with weights that are there; results in a list."""
        results = []
        for number, (device, part) in enumerate(self.parts(batch)):
            with tf.device(device):
                results.append(expensive(part, [self.copies[number]] * self.products))
        return self._joined(results)

    def array(self, batch: tf.Tensor) -> tf.Tensor:
        """The same with a TensorArray, whose parts may differ in size."""
        results = tf.TensorArray(
            tf.float32, len(self.sizes), infer_shape=False, element_shape=(None, batch.shape[1])
        )
        for number, (device, part) in enumerate(self.parts(batch)):
            with tf.device(device):
                result = expensive(part, [self.copies[number]] * self.products)
            with tf.device(self.devices[0]):
                results = results.write(number, result)
        with tf.device(self.devices[0]):
            return results.concat()

    def far(self, batch: tf.Tensor) -> tf.Tensor:
        """All devices read the first one's weights, once for each product."""
        results = []
        for device, part in self.parts(batch):
            result = part
            for _ in range(self.products):
                with tf.device(self.devices[0]):
                    weights = self.weights.read_value()
                with tf.device(device):
                    result = tf.tanh(result @ weights)
            results.append(result)
        return self._joined(results)

    def near(self, batch: tf.Tensor) -> tf.Tensor:
        """Each device's copy is written once in a step, and read there."""
        for device, copy in zip(self.devices[1:], self.copies[1:], strict=True):
            with tf.device(device):
                copy.assign(self.weights)
        return self.spread(batch)

    def _joined(self, results: list[tf.Tensor]) -> tf.Tensor:
        with tf.device(self.devices[0]):
            return tf.concat(results, axis=0)


def _variable_on(device: str, start: tf.Tensor) -> tf.Variable:
    with tf.device(device):
        return tf.Variable(start, name="copy")


def step_of(work: Work, variant: str) -> Step:
    """One step of a variant; all but the sequential one are one graph."""
    if variant == "sequential":
        return work.spread
    chosen: Step = {
        "one": work.on_one_device,
        "array": work.array,
        "list": work.spread,
        "far-variable": work.far,
        "near-variable": work.near,
    }[variant]

    @tf.function(jit_compile=False)  # XLA would put everything on one device
    def data_parallel_step(batch: tf.Tensor) -> tf.Tensor:
        return chosen(batch)

    return data_parallel_step


def run(options: argparse.Namespace) -> None:
    """Run one variant, and print its seconds per epoch and its checksum."""
    if options.list_devices:
        print(describe(options.devices, options.kind))
        return
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    count = 1 if options.variant == "one" else options.devices
    devices, why = find_devices(max(count, len(options.on)), options.kind)
    tf.config.set_soft_device_placement(enabled=False)
    check_names(options.on)
    work = Work(options, options.on or devices)
    print(
        f"{options.variant}, batch {options.batch_size} as {_description(work.sizes, options)},"
        f" on {why}"
    )
    if options.variant != "one" and not options.no_check:
        _check_utilisation(options)
    # Eagerly first: oneDNN makes its kernels at the first call, which no recorded step should hold.
    (work.on_one_device if options.variant == "one" else work.spread)(work.batch)
    step = step_of(work, options.variant)
    print_times(lambda: step(work.batch), _sum_of, options)


def _description(sizes: list[int], options: argparse.Namespace) -> str:
    if options.variant == "one":
        return "a whole"
    parts = " + ".join(map(str, sizes))
    idle = len(options.on or range(options.devices)) - len(sizes)
    return parts + (f" (no sample for {idle} of the devices)" if idle > 0 else "")


_ADVICE: Final = "give one device more to do at a time first: larger batches, fewer operations"


def _check_utilisation(options: argparse.Namespace) -> None:
    share, how = utilisation(options)
    if share is None:
        print(f"utilisation of one device is not known: {how}")
    elif share < ENOUGH:
        print(f"one device is busy {share:.0%} of the time ({how}), less than {ENOUGH:.0%}:")
        print(f"    {_ADVICE}")
    else:
        print(f"one device is busy {share:.0%} of the time ({how}): worth splitting")


def _sum_of(result: tf.Tensor) -> float:
    return float(tf.reduce_sum(tf.abs(result)))
