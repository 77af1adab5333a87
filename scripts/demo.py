"""Records one model under four placements, compares the runs and draws the charts.

Run by `make demo`; needs TensorFlow and no GPU. What it records is left in demo-runs/.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from arguments import Parser

from gpuprof.base.units import format_bytes, format_share

ROOT: Final = Path(__file__).parent.parent
RUNS: Final = Path("demo-runs")
PLACEMENTS: Final = ("single", "dual", "dual-colocated", "exaggerated")
CHARTS: Final = (RUNS / "placements.png", RUNS / "placements.svg")
GPUPROF: Final = (sys.executable, "-m", "gpuprof")
EPOCHS: Final = 3
# In this model the rest is a hundredth of what these move.
SHOWN: Final = 4


def main(words: Sequence[str] | None = None) -> None:
    """Record, compare, name what moves most and what would move less."""
    Parser(__doc__).parse_args(words)
    os.chdir(ROOT)
    begin = time.monotonic()
    RUNS.mkdir(exist_ok=True)
    for number, placement in enumerate(PLACEMENTS, start=1):
        print(f"[{number}/{len(PLACEMENTS)}] gpuprof record: placement {placement} ...", flush=True)
        record(placement)
    print("\ngpuprof compare:\n", flush=True)
    compare()
    print("\nThe largest copies in a step of dual, by the operations at both ends:\n")
    name_largest(RUNS / "dual")
    say_placement(RUNS / "dual")
    print("\nCharts:", *(f"  {chart}" for chart in CHARTS), sep="\n")
    print(f"\nDone in {time.monotonic() - begin:.0f} s. Look closer: gpuprof report demo-runs/dual")


def record(placement: str) -> None:
    """Record one placement, showing its epochs as they end."""
    command = [*GPUPROF, "record", "--recorder", "tensorflow", "--variant", placement]
    command += ["--force", "--output", str(RUNS / placement), "scripts/deepconn.py"]
    command += ["--placement", placement, "--size", "small", "--epochs", str(EPOCHS)]
    # TensorFlow says on stderr what this machine lacks; it is shown only if something is wrong.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as complaints:
        status = shown(command, complaints)
        if status:
            complaints.seek(0)
            sys.exit(f"{complaints.read()}Recording {placement} ended with exit status {status}")


def shown(command: Sequence[str], complaints: IO[str]) -> int:
    """Run a command, print what it says as it says it, and give its exit status."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as process:
        for line in process.stdout or ():
            print(f"      {line}", end="", flush=True)
    return process.returncode


def compare() -> None:
    """Set the runs side by side and draw the charts."""
    folders = [str(RUNS / placement) for placement in PLACEMENTS]
    charts = [word for chart in CHARTS for word in ("--chart", str(chart))]
    command = [*GPUPROF, "compare", *folders, "--force", *charts]
    subprocess.run(command, check=True)


def name_largest(run: Path) -> None:
    """Say which operations make the largest copies of a run, and which take them."""
    tables = report(run, "tensor_transfers", "tensor_transfers_per_step")
    [step] = tables["tensor_transfers_per_step"]
    for row in tables["tensor_transfers"][:SHOWN]:
        size = format_bytes(row["bytes_per_step"])
        print(f"  {size:>9}  {row['src_device']} -> {row['dst_device']}  {row['src_operation']}")
        print(f"{'':27}to {row['dst_operation']}")
    share = step["gradient_bytes_per_step"] / step["bytes_per_step"]
    print(
        f"\n{format_share(share)} of the bytes are for gradients: TensorFlow computes those of the"
    )
    print("item tower on the first device, although the tower itself is on the second.")


def say_placement(run: Path) -> None:
    """Say in a line what would copy less."""
    command = [*GPUPROF, "place", str(run), "--format", "json"]
    completed = subprocess.run(command, check=True, capture_output=True)
    proposal = json.loads(completed.stdout)
    moves = ", ".join(f"{m['role']}s of {m['part']} on {m['device']}" for m in proposal["moves"])
    size, least = (format_bytes(proposal[key]["bytes_per_step"]) for key in ("today", "least"))
    print(f"\ngpuprof place proposes {moves}: {least} a step, not {size}.")


def report(run: Path, *names: str) -> dict[str, list[dict[str, Any]]]:
    """Tables of a run, in base units."""
    table_options = [word for name in names for word in ("--table", name)]
    command = [*GPUPROF, "report", str(run), *table_options, "--format", "json"]
    completed = subprocess.run(command, check=True, capture_output=True)
    tables: dict[str, list[dict[str, Any]]] = json.loads(completed.stdout)["tables"]
    return tables


if __name__ == "__main__":
    main()
