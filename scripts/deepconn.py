"""DeepCoNN on two devices: trains one model under four placements of its two towers.

A user's reviews and an item's reviews go through a tower each (embedding, convolution with
tanh, max-pooling, flatten, dense with relu); a head on the first device predicts the rating.

    single          everything on the first device
    dual            the item tower's forward pass on the second device, as the published model
                    did; TensorFlow leaves its gradients on the first
    dual-colocated  the item tower's gradients on the second device too
    exaggerated     the layers of each tower alternate between the devices

Devices are the first two GPUs where there are two, else two logical CPU devices. The placement
changes no number: the same seed gives the same loss under all four.

The reviews are made up, the same for the same seed. Word r of the vocabulary (0 for the most
frequent) occurs with a probability proportional to 1 / (r + 10), and has a sentiment drawn from
a normal distribution. A user's and an item's reviews are independent draws of words. The rating
is 3 + 8 x the mean sentiment of both, cut to 1 to 5.

    python scripts/deepconn.py --placement dual
    gpuprof record --variant dual scripts/deepconn.py --placement dual --size small
"""

import argparse
import os
from collections.abc import Sequence
from typing import Final

from arguments import Parser, positive, whole

PLACEMENTS: Final = ("single", "dual", "dual-colocated", "exaggerated")
SIZES: Final = ("published", "small")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--placement", choices=PLACEMENTS, default="single")
    parser.add_argument("--size", choices=SIZES, default="published")
    parser.add_argument("--epochs", type=positive, default=5, metavar="N")
    parser.add_argument("--steps", type=positive, default=16, metavar="N", help="per epoch")
    parser.add_argument("--batch-size", type=positive, default=128, metavar="N")
    parser.add_argument("--seed", type=whole, default=1, metavar="N")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train under one placement and print the seconds per epoch."""
    asked = parse(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import deepconn_model  # noqa: PLC0415 - seconds that a bad argument need not wait for

    deepconn_model.run(deepconn_model.Training(**vars(asked)))


if __name__ == "__main__":
    main()
