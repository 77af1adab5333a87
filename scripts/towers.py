"""One Keras model trained on one device, as towers, and under MirroredStrategy.

    single      on the first device
    towers      gpuprof.towers: a copy per device, each batch split evenly
    mirrored    tf.distribute.MirroredStrategy: variables on every device, gradients all-reduced

The model is a small convolutional classifier of made-up sequences. The number of towers comes
from a file (a table [towers] with n_gpus = 2) or from --n-gpus. All three end with the same
loss and the same weights but for rounding. Devices are GPUs where there are enough, else
logical CPU devices.

    python scripts/towers.py --n-gpus 2
    python scripts/towers.py --config towers.toml --strategy towers
    gpuprof record --variant towers scripts/towers.py --n-gpus 2 --strategy towers
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from arguments import Parser, positive, whole_number

from gpuprof import GpuprofError
from gpuprof.towers import TowersConfig, read_config

STRATEGIES: Final = ("single", "towers", "mirrored")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--strategy", choices=STRATEGIES, default="towers")
    parser.add_argument("--config", metavar="FILE", help="TOML with a table [towers]")
    parser.add_argument("--n-gpus", type=positive, metavar="N", help="instead of a file")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N")
    parser.add_argument("--samples", type=positive, default=640, metavar="N")
    parser.add_argument("--epochs", type=positive, default=3, metavar="N")
    parser.add_argument("--seed", type=whole_number, default=1, metavar="N")
    return parser.parse_args(arguments)


def configured(options: argparse.Namespace) -> TowersConfig:
    """How many towers, by the option, else by the file, else two."""
    if options.n_gpus is not None or options.config is None:
        return TowersConfig(options.n_gpus or 2)
    try:
        return read_config(options.config)
    except GpuprofError as error:
        sys.exit(f"towers: {error.message}" + (f" ({error.hint})" if error.hint else ""))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train once, and print losses and the sum of the weights."""
    options = parse(arguments)
    config = configured(options)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import towers_model  # noqa: PLC0415 - seconds that a bad argument need not wait for

    towers_model.run(options, config)


if __name__ == "__main__":
    main()
