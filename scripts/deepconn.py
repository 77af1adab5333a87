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
    python scripts/deepconn.py --placement dual --size small --report-placement
    gpuprof record --variant dual scripts/deepconn.py --placement dual --size small
    gpuprof place dual --output found.json
    python scripts/deepconn.py --placement dual --placement-file found.json --size small
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from arguments import Parser, listed, positive, whole_number

PLACEMENTS: Final = ("single", "dual", "dual-colocated", "exaggerated")
SIZES: Final = ("published", "small")
# What was requested and where it ran, what is copied, and what is amiss.
TABLES: Final = tuple(
    word
    for name in ("placement", "placement_edges", "placement_hints")
    for word in ("--table", name)
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(__doc__)
    parser.add_argument("--placement", choices=PLACEMENTS, default="single")
    parser.add_argument(
        "--placement-file", metavar="FILE", help="what gpuprof place --output wrote, on top of it"
    )
    parser.add_argument("--size", choices=SIZES, default="published")
    parser.add_argument("--epochs", type=positive, default=5, metavar="N")
    parser.add_argument("--steps", type=positive, default=16, metavar="N", help="per epoch")
    parser.add_argument("--batch-size", type=positive, default=128, metavar="N")
    parser.add_argument("--seed", type=whole_number, default=1, metavar="N")
    parser.add_argument("--on", type=listed, default=[], metavar="NAMES", help="two device names")
    parser.add_argument(
        "--soft-placement", action="store_true", help="let TensorFlow move what cannot run there"
    )
    parser.add_argument("--jit", action="store_true", help="compile with XLA, for one device")
    parser.add_argument(
        "--report-placement", action="store_true", help="record it, and say where everything ran"
    )
    options = parser.parse_args(arguments)
    if len(options.on) not in (0, 2):
        parser.error(f"--on takes two devices, not {len(options.on)}")
    try:
        options.placement_file = read_placement(options.placement_file)
    except (OSError, ValueError) as error:
        parser.error(f"--placement-file {options.placement_file}: {error}")
    return options


def read_placement(path: str | None) -> dict[str, dict[str, str]]:
    """Layers, and beginnings of operations' names, with their devices; none without a file."""
    document = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    if path and (not isinstance(document, dict) or document.get("format") != "gpuprof-placement"):
        msg = "no placement that gpuprof place wrote"
        raise ValueError(msg)
    return {part: document.get(part, {}) for part in ("layers", "scopes")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train under one placement and print the seconds per epoch."""
    options = parse(arguments)
    if options.report_placement:
        sys.exit(report_placement(sys.argv[1:] if arguments is None else list(arguments)))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import deepconn_model  # noqa: PLC0415 - seconds that a bad argument need not wait for

    del options.report_placement
    deepconn_model.run(deepconn_model.Training(**vars(options)))


def report_placement(arguments: list[str]) -> int:
    """Record the same training, then print where its parts were placed and where they ran."""
    words = [word for word in arguments if word != "--report-placement"]
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        record = ["record", "--recorder", "tensorflow", "-o", run, __file__, *words]
        status = gpuprof(record)
        return status or gpuprof(["report", run, *TABLES, "--wide"])


def gpuprof(words: list[str]) -> int:
    """Run a command of gpuprof, and give its exit status."""
    return subprocess.run([sys.executable, "-m", "gpuprof", *words], check=False).returncode


if __name__ == "__main__":
    main()
