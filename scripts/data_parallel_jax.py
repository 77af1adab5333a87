"""`data_parallel.py` in JAX, for machines with GPUs and without TensorFlow.

    one              the whole batch on the first device
    sequential       a part per device, each waited for
    list             a part per device, all under way at the same time
    far-variable     as list; the first device sends its weights for every product
    near-variable    as list; the first device sends its weights once a step

Operation, parts and devices are as there; every variant prints the same checksum.

    python scripts/data_parallel_jax.py --variant list --devices 2
    gpuprof record --variant far scripts/data_parallel_jax.py --variant far-variable
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from arguments import Parser, positive, whole_number
from parts import part_sizes
from timed import print_times


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--variant", choices=tuple(STEPS), default="one")
    parser.add_argument("--devices", type=positive, default=2, metavar="N")
    parser.add_argument("--kind", choices=("auto", "gpu", "cpu"), default="auto", help="of devices")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N")
    parser.add_argument("--width", type=positive, default=512, metavar="N", help="of a sample")
    parser.add_argument("--products", type=positive, default=8, metavar="N")
    parser.add_argument("--epochs", type=positive, default=3, metavar="N")
    parser.add_argument("--steps", type=positive, default=10, metavar="N", help="per epoch")
    parser.add_argument("--seed", type=whole_number, default=1, metavar="N")
    return parser.parse_args(arguments)


def find_devices(count: int, kind: str) -> tuple[list[Any], str]:
    """The first GPUs where there are enough, else as many CPU devices; and why these."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={count}".strip()
    gpus = jax.devices() if jax.default_backend() == "gpu" else []
    if kind == "gpu" and len(gpus) < count:
        sys.exit(f"{count} GPUs were requested, but this machine has {len(gpus)}")
    if kind != "cpu" and len(gpus) >= count:
        return gpus[:count], f"{count} GPUs"
    return jax.devices("cpu")[:count], f"{count} CPU devices: {len(gpus)} GPUs here"


@jax.jit
def product(samples: jax.Array, weights: jax.Array) -> jax.Array:
    """One product of the chain."""
    return jnp.tanh(samples @ weights)


def sum_of(result: jax.Array) -> float:
    """What every variant comes to."""
    return float(jnp.abs(result).sum())


class Work:
    """The weights on the first device, and one step in each variant."""

    def __init__(self, options: argparse.Namespace, devices: Sequence[Any]) -> None:
        self.sizes = part_sizes(options.batch_size, len(devices))
        self.devices = list(devices)[: len(self.sizes)]
        self.products = options.products
        of_weights, of_batch = jax.random.split(jax.random.key(options.seed))
        start = jax.random.normal(of_weights, (options.width, options.width)) / options.width**0.5
        self.weights = jax.device_put(start, devices[0])
        samples = jax.random.normal(of_batch, (options.batch_size, options.width))
        self.batch = jax.device_put(samples, devices[0])
        self.copies = self._sent()

    def on_one_device(self) -> jax.Array:
        """The whole batch on the first device."""
        return self._chain(self.batch, self.weights)

    def sequential(self) -> jax.Array:
        """A part per device, each waited for."""
        pairs = zip(self._parts(), self.copies, strict=True)
        return self._joined([self._chain(*pair).block_until_ready() for pair in pairs])

    def spread(self) -> jax.Array:
        """A part per device, with weights that are there; JAX starts all before it waits."""
        pairs = zip(self._parts(), self.copies, strict=True)
        return self._joined([self._chain(*pair) for pair in pairs])

    def far(self) -> jax.Array:
        """The first device's weights are sent for each product."""
        results = self._parts()
        for _ in range(self.products):
            results = list(map(product, results, self._sent()))
        return self._joined(results)

    def near(self) -> jax.Array:
        """The first device's weights are sent once."""
        self.copies = self._sent()
        return self.spread()

    def _chain(self, samples: jax.Array, weights: jax.Array) -> jax.Array:
        for _ in range(self.products):
            samples = product(samples, weights)
        return samples

    def _sent(self) -> list[jax.Array]:
        return [jax.device_put(self.weights, device) for device in self.devices]

    def _parts(self) -> list[jax.Array]:
        ends = [sum(self.sizes[: n + 1]) for n in range(len(self.sizes))]
        split = jnp.split(self.batch, ends[:-1])
        return [jax.device_put(part, to) for part, to in zip(split, self.devices, strict=True)]

    def _joined(self, results: list[jax.Array]) -> jax.Array:
        return jnp.concatenate([jax.device_put(result, self.devices[0]) for result in results])


STEPS: Final[dict[str, Callable[[Work], jax.Array]]] = {
    "one": Work.on_one_device,
    "sequential": Work.sequential,
    "list": Work.spread,
    "far-variable": Work.far,
    "near-variable": Work.near,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one variant, and print its seconds per epoch and its checksum."""
    options = parse(arguments)
    devices, why = find_devices(1 if options.variant == "one" else options.devices, options.kind)
    work = Work(options, devices)
    print(f"{options.variant}, batch {options.batch_size} as {work.sizes}, on {why}")
    step = STEPS[options.variant]
    print_times(lambda: step(work), sum_of, options)


if __name__ == "__main__":
    main()
