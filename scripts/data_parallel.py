"""An expensive operation over a batch, on one device and on several, in all the usual ways.

    one              the whole batch on the first device
    sequential       a part per device, one after another, eagerly
    array            a part per device inside a tf.function, results in a tf.TensorArray
    list             the same, results in a Python list
    far-variable     as list; all devices read the weights of the first, for every product
    near-variable    as list; each device has a copy of the weights, written once a step

The operation is a chain of matrix products with tanh. Parts differ by at most one sample where
the batch does not divide; devices that get none are left alone. Every variant prints the same
checksum. Before a batch is split, the first device's utilisation is looked at: as long as one
device waits, a second one waits too.

Devices are GPUs where there are enough, else logical CPU devices: then times are the CPU's, and
a part that runs beside another gains from a second core, not from a second device.

    python scripts/data_parallel.py --list-devices
    python scripts/data_parallel.py --variant list --devices 2
    gpuprof record --variant far scripts/data_parallel.py --variant far-variable --devices 2
"""

import argparse
import os
from collections.abc import Sequence
from typing import Final

from arguments import Parser, listed, positive, whole_number

VARIANTS: Final = ("one", "sequential", "array", "list", "far-variable", "near-variable")
KINDS: Final = ("auto", "gpu", "cpu")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--variant", choices=VARIANTS, default="one")
    parser.add_argument("--devices", type=positive, default=2, metavar="N")
    parser.add_argument("--kind", choices=KINDS, default="auto", help="of devices")
    parser.add_argument("--on", type=listed, default=[], metavar="NAMES", help="/CPU:0,/CPU:1")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N")
    parser.add_argument("--width", type=positive, default=512, metavar="N", help="of a sample")
    parser.add_argument("--products", type=positive, default=8, metavar="N")
    parser.add_argument("--epochs", type=positive, default=3, metavar="N")
    parser.add_argument("--steps", type=positive, default=10, metavar="N", help="per epoch")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="per operation")
    parser.add_argument("--seed", type=whole_number, default=1, metavar="N")
    parser.add_argument("--no-check", action="store_true", help="do not look at utilisation")
    parser.add_argument("--list-devices", action="store_true", help="only describe the devices")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one variant, and print its seconds per epoch and its checksum."""
    options = parse(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import data_parallel_model  # noqa: PLC0415 - seconds that a bad argument need not wait for

    data_parallel_model.run(options)


if __name__ == "__main__":
    main()
