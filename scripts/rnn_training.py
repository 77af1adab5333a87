"""One training of a GRU or LSTM on made-up sequences, on one device or several.

Prints a line per epoch with accuracies and the memory in use, and at the end what
`rnn_batch_sweep.py` reads. On GPUs the layers run on cuDNN's kernels, which have dropout only
between layers. Several devices train as towers (gpuprof.towers).

    python scripts/rnn_training.py --model lstm --batch-size 256 --devices 2
"""

import argparse
import os
from collections.abc import Sequence

from arguments import Parser, positive, whole_number

MODELS = ("gru", "lstm")


def fraction(text: str) -> float:
    """A number from 0 up to 1, from the command line."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1:
        msg = f"expected a number of 0 or more and below 1, found {text}"
        raise argparse.ArgumentTypeError(msg)
    return number


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--model", choices=MODELS, default="gru")
    parser.add_argument("--batch-size", type=positive, default=64, metavar="N")
    parser.add_argument("--devices", type=positive, default=1, metavar="N")
    parser.add_argument("--epochs", type=positive, default=15, metavar="N")
    parser.add_argument("--dropout", type=fraction, default=0.0, metavar="SHARE")
    parser.add_argument("--layers", type=positive, default=1, metavar="N")
    parser.add_argument("--units", type=positive, default=64, metavar="N")
    parser.add_argument("--length", type=positive, default=30, metavar="N", help="of a sequence")
    parser.add_argument("--samples", type=positive, default=2048, metavar="N")
    parser.add_argument(
        "--early-stopping", type=whole_number, default=0, metavar="N",
        help="epochs without better validation accuracy after which to stop; 0 for never",
    )  # fmt: skip
    parser.add_argument("--seed", type=whole_number, default=1, metavar="N")
    options = parser.parse_args(arguments)
    if options.batch_size > options.samples:
        parser.error(f"{options.samples} samples make no batch of {options.batch_size}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Train once."""
    options = parse(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import rnn_model  # noqa: PLC0415 - seconds that a bad argument need not wait for

    rnn_model.run(options)


if __name__ == "__main__":
    main()
