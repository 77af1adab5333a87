"""Runs the four experiments, and writes experiment-runs/report.md with all tables and charts.

Run by `make experiments`; needs TensorFlow and no GPU. What ran already is not run again.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arguments import Parser

ROOT: Final = Path(__file__).parent.parent
OUT: Final = Path("experiment-runs")
GPUPROF: Final = (sys.executable, "-m", "gpuprof")
PYTHON: Final = (sys.executable,)
DEEPCONN: Final = OUT / "deepconn"
TOWERS: Final = OUT / "towers"


@dataclass(frozen=True)
class Step:
    """One command of an experiment.

    Args:
        program: The words before the command's.
        words: The command.
        makes: The chart that it draws, which the page shows; None where it prints.
        is_shown: Whether the page shows what it prints.
    """

    program: tuple[str, ...]
    words: tuple[str, ...]
    makes: str | None = None
    is_shown: bool = True

    @property
    def command(self) -> str:
        """As a person would type it."""
        name = "gpuprof" if self.program == GPUPROF else "python"
        return " ".join([name, *(f"'{w}'" if "{" in w or "(" in w else w for w in self.words)])


@dataclass(frozen=True)
class Experiment:
    """One section of the page.

    Args:
        title: Its heading.
        question: What it asks.
        steps: Its commands.
        meaning: What the results say.
        published: What was published for real GPUs.
        charts: Further pictures that the steps leave.
    """

    title: str
    question: str
    steps: tuple[Step, ...]
    meaning: str
    published: str
    charts: tuple[str, ...] = ()


def gpuprof(*words: object, makes: str | None = None, is_shown: bool = True) -> Step:
    """A step that runs gpuprof."""
    return Step(GPUPROF, tuple(map(str, words)), makes, is_shown)


def run_of(sweep: Path, cell: str) -> str:
    """The folder of a cell's first run."""
    return str(sweep / "runs" / cell / "1")


def plot(run: str, name: str) -> Step:
    """A step that draws a placement."""
    words = ("plot", "placement", run, "-o", OUT / name, "--force")
    return gpuprof(*words, makes=name, is_shown=False)


def deepconn() -> Experiment:
    """Where the towers of one model stand."""
    dual, colocated = (run_of(DEEPCONN, f"placement={name}") for name in ("dual", "dual-colocated"))
    grid = ("--grid", "placement=single,dual,dual-colocated,exaggerated")
    words = ("scripts/deepconn.py", "--placement", "{placement}", "--size", "small")
    return Experiment(
        "DeepCoNN: one tower per device",
        "What does it cost to put the two towers of one model on two devices?",
        (
            gpuprof("sweep", *grid, "--baseline", "placement=single", "--recorder", "tensorflow",
                    "--skipped-epochs", "1", "--format", "markdown", "-o", DEEPCONN, "--",
                    *words, "--epochs", "3"),
            gpuprof("report", dual, "--format", "markdown"),
            gpuprof("compare", dual, colocated, "--format", "markdown"),
            plot(dual, "placement-dual.svg"),
            plot(colocated, "placement-dual-colocated.svg"),
            plot(run_of(DEEPCONN, "placement=exaggerated"), "placement-exaggerated.svg"),
        ),
        "Under device scopes around the forward towers alone, TensorFlow computes the item"
        " tower's gradients on the first device and copies its activations there. With each"
        " tower's gradients under its own scope nearly all of that goes.",
        "20.455 s per epoch on one Tesla K80, 22.500 s with a tower on each of two, 23.021 s"
        " with layers alternating: slower for every copy added.",
        ("deepconn/scaling.svg",),
    )  # fmt: skip


def data_parallel() -> Experiment:
    """What splitting a batch costs."""
    sweep = OUT / "data-parallel"
    grid = ("--grid", "variant=one,sequential,array,list,far-variable,near-variable")
    size = ("--batch-size", "256", "--width", "1024", "--products", "4")
    words = ("scripts/data_parallel.py", "--variant", "{variant}", *size, "--no-check")
    far, near = (str(OUT / "variables" / name) for name in ("far", "near"))
    record = ("record", "--recorder", "tensorflow", "--force")
    return Experiment(
        "Data parallelism by hand",
        "When does an expensive operation gain from a second device, and what do variables cost"
        " that another device reads?",
        (
            Step(PYTHON, ("scripts/data_parallel.py", "--variant", "list", *size)),
            gpuprof("sweep", *grid, "--baseline", "variant=one", "--recorder", "none",
                    "--repeat", "2", "--skipped-epochs", "1",
                    "--figure", r"checksum=^checksum (\S+)", "--format", "markdown",
                    "-o", sweep, "--", *words),
            gpuprof(*record, "--variant", "far-variable", "-o", far, *words[:2], "far-variable",
                    *words[3:], is_shown=False),
            gpuprof(*record, "--variant", "near-variable", "-o", near, *words[:2],
                    "near-variable", *words[3:], is_shown=False),
            gpuprof("compare", far, near, "--format", "markdown"),
        ),
        "One after another gains nothing. What gains inside a tf.function is a second core, not a"
        " second device. Weights that stay on the first device cross for every product; a copy"
        " per device crosses once a step.",
        "The same pattern on GPUs: in eager mode a second device waits for the first; inside"
        " tf.function both run.",
        ("data-parallel/scaling.svg",),
    )  # fmt: skip


def rnn() -> Experiment:
    """The batch size at which two devices pay off."""
    words = ("scripts/rnn_batch_sweep.py", "--epochs", "8", "--format", "markdown")
    return Experiment(
        "Recurrent models: batch size and devices",
        "At which batch size do two devices train a GRU or LSTM faster than one?",
        (Step(PYTHON, (*words, "-o", str(OUT / "rnn"))),),
        "On logical CPU devices a second device is a second thread pool over the same cores:"
        " these times say how the method works, not where GPUs break even.",
        "A GRU on two GTX 1080 Ti: speed-up 0.51 at a batch size of 64, 0.73 at 128, 0.98 at 256,"
        " 1.24 at 512, 1.43 at 1024; break-even at about 270.",
        ("rnn/break-even.svg", "rnn/scaling.svg"),
    )


def towers() -> Experiment:
    """Towers beside a mirrored strategy."""
    grid = ("--grid", "strategy=single,towers,mirrored", "--grid", "n_gpus=2,4")
    words = ("scripts/towers.py", "--strategy", "{strategy}", "--n-gpus", "{n_gpus}")
    cells = [f"strategy={name},n_gpus=2" for name in ("towers", "mirrored")]
    figures = ("--figure", r"weights=^sum of weights (\S+)", "--figure", r"loss=loss (\S+)$")
    return Experiment(
        "Towers: any Keras model over several devices",
        "Does a model trained as towers end where one device ends, and what does it copy beside"
        " tf.distribute.MirroredStrategy?",
        (
            gpuprof("sweep", *grid, "--baseline", "strategy=single", "--baseline", "n_gpus=2",
                    "--recorder", "tensorflow", "--skipped-epochs", "1", *figures, "--format",
                    "markdown", "-o", TOWERS, "--", *words),
            gpuprof("compare", *(run_of(TOWERS, cell) for cell in cells), "--format", "markdown"),
            plot(run_of(TOWERS, "strategy=towers,n_gpus=4"), "placement-towers.svg"),
        ),
        "All end with the same weights. A tower copies each variable there and each gradient back"
        " once a step. MirroredStrategy has the variables everywhere, and reduces all gradients by"
        " a collective operation, whose bytes no recording of TensorFlow tells: n/a.",
        "No figures were published for this one; keras.utils.multi_gpu_model, which trained so,"
        " was removed from TensorFlow in 2020.",
        ("towers/scaling.svg",),
    )  # fmt: skip


EXPERIMENTS: Final = (deepconn, data_parallel, rnn, towers)


def main(words: Sequence[str] | None = None) -> None:
    """Run all, and write the page."""
    Parser(__doc__).parse_args(words)
    os.chdir(ROOT)
    OUT.mkdir(exist_ok=True)
    (OUT / "variables").mkdir(exist_ok=True)
    begin = time.monotonic()
    sections = [part for make in EXPERIMENTS for part in section(make)]
    page = "\n\n".join([*heading(), *sections]) + "\n"
    (OUT / "report.md").write_text(page, encoding="utf-8")
    print(f"\nDone in {time.monotonic() - begin:.0f} s: {OUT / 'report.md'}")


def heading() -> Iterator[str]:
    """What the page is, and on which devices."""
    yield "# Experiments"
    words = ("scripts/data_parallel.py", "--list-devices")
    yield "On these devices; counts and bytes are real, times are those of these devices:"
    yield f"```\n{output(Step(PYTHON, words)).rstrip()}\n```"


def section(make: Callable[[], Experiment]) -> Iterator[str]:
    """One experiment, run, as the parts of its section."""
    experiment = make()
    print(f"{experiment.title} ...", flush=True)
    yield f"## {experiment.title}"
    yield experiment.question
    for step in experiment.steps:
        yield from shown(step)
    yield from (picture(name) for name in experiment.charts)
    yield f"**What it means.** {experiment.meaning}"
    yield f"**Published, on GPUs.** {experiment.published} Ours are the devices named at the top."


def shown(step: Step) -> Iterator[str]:
    """A command with what it printed or drew."""
    print(f"    {step.command}", flush=True)
    text = output(step)
    yield f"```bash\n{step.command}\n```"
    if step.makes:
        yield picture(step.makes)
    elif step.is_shown:
        is_markdown = "markdown" in step.words
        yield lowered(text) if is_markdown else f"```\n{text.rstrip()}\n```"


def picture(name: str) -> str:
    """A picture in the page."""
    return f"![{Path(name).stem}]({name})"


def lowered(text: str) -> str:
    """Markdown with its headings below those of the page."""
    lines = text.rstrip().splitlines()
    return "\n".join(f"##{line}" if line.startswith("#") else line for line in lines)


def output(step: Step) -> str:
    """What a command prints; the program ends where it fails."""
    command: Sequence[str] = [*step.program, *step.words]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        sys.exit(f"{completed.stderr}{step.command} ended with exit status {completed.returncode}")
    return completed.stdout


if __name__ == "__main__":
    main()
