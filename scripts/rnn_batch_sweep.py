"""The batch size at which two devices train a recurrent model faster than one.

Runs `rnn_training.py` over models, batch sizes and devices with `gpuprof sweep`, which prints
the table with speed-ups and the break-even batch size, draws the charts, and goes on where it
was stopped when it is run again. A dropout is a column of the table like the others. The first
epoch of each training, which holds the tracing, does not count.

    python scripts/rnn_batch_sweep.py
    python scripts/rnn_batch_sweep.py --models gru --batch-sizes 64,256,1024 --epochs 5
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from arguments import Parser, positive, whole_number

TRAINING: Final = Path(__file__).with_name("rnn_training.py")
FIGURES: Final = {
    "epochs": r"^trained for (\d+) epochs",
    "accuracy": r"^final accuracy (\S+)",
    "validation_accuracy": r"^final validation accuracy (\S+)",
    "memory_mb_per_epoch": r"^memory grows by (\S+) MB",
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--models", default="gru,lstm", metavar="NAMES")
    parser.add_argument("--batch-sizes", default="64,128,256,512,1024", metavar="SIZES")
    parser.add_argument("--devices", default="1,2", metavar="COUNTS")
    parser.add_argument("--dropouts", default="0", metavar="SHARES")
    parser.add_argument("--layers", type=positive, default=1, metavar="N")
    parser.add_argument("--epochs", type=positive, default=15, metavar="N")
    parser.add_argument("--samples", type=positive, default=2048, metavar="N")
    parser.add_argument("--length", type=positive, default=30, metavar="N")
    parser.add_argument("--early-stopping", type=whole_number, default=0, metavar="N")
    parser.add_argument("--repeat", type=positive, default=1, metavar="N")
    parser.add_argument("--recorder", default="none", metavar="NAME", help="none only times")
    parser.add_argument("--format", default="terminal", metavar="NAME", help="of the table")
    parser.add_argument("-o", "--output", default="gpuprof-sweeps/rnn", metavar="DIR")
    return parser.parse_args(arguments)


def command(options: argparse.Namespace) -> list[str]:
    """The sweep as a command."""
    grid = {
        "model": options.models,
        "dropout": options.dropouts,
        "batch_size": options.batch_sizes,
        "devices": options.devices,
    }
    words = [
        sys.executable,
        "-m",
        "gpuprof",
        "sweep",
        "-o",
        options.output,
        "--format",
        options.format,
    ]
    words += [word for name, values in grid.items() for word in ("--grid", f"{name}={values}")]
    words += [
        word for name, pattern in FIGURES.items() for word in ("--figure", f"{name}={pattern}")
    ]
    words += ["--baseline", f"devices={options.devices.partition(',')[0]}"]
    words += ["--repeat", str(options.repeat), "--recorder", options.recorder]
    words += ["--skipped-epochs", str(min(1, options.epochs - 1)), "--", str(TRAINING)]
    words += [word for name in grid for word in (f"--{name.replace('_', '-')}", f"{{{name}}}")]
    for name in ("layers", "epochs", "samples", "length", "early_stopping"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return words


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep, and leave with its exit status."""
    sys.exit(subprocess.run(command(parse(arguments)), check=False).returncode)


if __name__ == "__main__":
    main()
