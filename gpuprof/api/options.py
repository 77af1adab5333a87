"""Every option, declared once: its words, type, default, help and what it may be.

The commands take them as they are. The functions of Python have the words of the same options as
keywords (`gpuprof.api.values.keyword`), and hold what they are given to the same rules. Light to
import, because ``gpuprof --help`` does.
"""

from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from gpuprof.api.values import (
    NameAndValue,
    Parsed,
    Time,
    end_of_label,
    names,
    parse_epochs,
    queried,
    recording_name,
    recordings,
)
from gpuprof.base.units import instant_ns, parse_decimal_bytes
from gpuprof.launch import AUTO, RECORDERS

_CHARTS: Final = ("gpuprof.show.charts.catalogue", "CHARTS")
# What cannot be read is said by who reads it, with status 1: for click the command line is wrong.
_INPUT: Final = click.Path(readable=False)
_PATH: Final = click.Path(readable=False, path_type=Path)
_LEAST_0: Final = click.IntRange(min=0)
_LEAST_1: Final = click.IntRange(min=1)


def _option(words: str, meaning: str, **settings: Any) -> click.Option:
    """An option: ``-o --output=FILE name``, with its words, what it takes and its parameter."""
    parts = [part.partition("=") for part in words.split()]
    metavar = next((metavar for _, _, metavar in parts if metavar), None)
    return click.Option([w for w, _, _ in parts], metavar=metavar, help=meaning, **settings)


def _flag(words: str, meaning: str) -> click.Option:
    return click.Option(words.split(), help=meaning, is_flag=True)


def format_option(meaning: str, *formats: str) -> click.Option:
    """``--format``: the first of the formats is the default."""
    choice = click.Choice(formats)
    return _option("--format form", meaning, type=choice, default=formats[0], show_default=True)


def folder_option(meaning: str) -> click.Option:
    """``-o`` of commands that make a folder."""
    return _option("-o --output=DIR folder", meaning, type=_PATH)


def output_option(meaning: str, **settings: Any) -> click.Option:
    """``-o`` of commands that write a file."""
    return _option("-o --output=FILE", meaning, **settings)


def _argument(name: str, **settings: Any) -> click.Argument:
    return click.Argument([name], **settings)


# One recording; several files are those of its processes.
FILES: Final = _argument(
    "files", nargs=-1, required=True, metavar="FILE...", shell_complete=recordings
)
REPORTED_FILES: Final = _argument("files", nargs=-1, metavar="FILE...", shell_complete=recordings)
COMPARED_FILES: Final = _argument("files", nargs=-1, type=_INPUT, shell_complete=recordings)
CHART_NAME: Final = _argument(
    "name", metavar="CHART", required=False, shell_complete=names(*_CHARTS)
)
BASELINE_NAME: Final = _argument("name")
BASELINE_RUNS: Final = _argument(
    "runs", nargs=-1, required=True, type=_INPUT, shell_complete=recordings
)
RUN: Final = _argument("run", type=_PATH, shell_complete=recordings)
PACKED_RUN: Final = _argument("file", type=_PATH)
QUERIED_FILES: Final = _argument("files", nargs=-1, metavar="FILE...", shell_complete=queried)
SQL: Final = _argument("sql", metavar="SQL", required=False)
CACHE_ACTION: Final = _argument("action", type=click.Choice(["list", "clear"]), default="list")
TOPIC: Final = _argument(
    "topic", required=False, shell_complete=names("gpuprof.cli.help", "TOPICS")
)
DEMO_FOLDER: Final = _argument("folder", default="gpuprof-demo", type=_PATH)
SERVED_FOLDERS: Final = _argument(
    "folders", nargs=-1, required=True, metavar="FOLDER...", type=_INPUT
)
SHELL: Final = _argument("shell", type=click.Choice(("bash", "zsh", "fish")))
PROGRAM: Final = _argument(
    "words", nargs=-1, required=True, metavar="SCRIPT [ARGS]...", type=click.UNPROCESSED
)
SWEPT_PROGRAM: Final = _argument(
    "words", nargs=-1, metavar="SWEEP.TOML | -- SCRIPT [ARGS]...", type=click.UNPROCESSED
)


def _reader(context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """The format that ``--reader`` names, or that of what ``--via`` exports."""
    return "nsys-export" if name is None and context.params.get("via") else name


# What is read.
READER: Final = _option(
    "--reader=NAME",
    "Format of the input, if it is not recognised; see `gpuprof formats`.",
    callback=_reader,
)
VIA: Final = _option(
    "--via",
    "Read a report of Nsight Systems through the installed nsys.",
    type=click.Choice(["nsys"]),
    is_eager=True,
)
_SECTION: Final = (
    "Recording to read from a file that holds several, such as a log of several runs: its number, "
    "its process, a part of its name, or all"
)
SECTION: Final = _option("--section=N", f"{_SECTION} to add them up.")
READING: Final = (READER, VIA, SECTION)
SECTIONS: Final = _option(
    "--section=[LABEL=]N sections",
    f"{_SECTION}; for one label or file, or for all files. Repeat for more.",
    multiple=True,
)
FROM: Final = _option(
    "--from=TIME from_ns",
    "Start of the part, since the origin of the recording: 1.5s, 20ms or -300us.",
    type=Time(instant_ns),
)
TO: Final = _option("--to=TIME to_ns", "End of the part, exclusive.", type=Time(instant_ns))
RANGE: Final = _option(
    "--range=NAME range_text",
    "Only the time in which the work of these NVTX ranges or operations runs: for each, from the "
    "first start to the last end of what it launched. * matches anything.",
)
OCCURRENCE: Final = _option(
    "--occurrence=N", "Only one of the ranges of --range; 0 is the first.", type=int
)
DEVICE: Final = _option("--device=N device_id", "Only this device.", type=int)
# Under the names of `RecordingPart`'s fields.
PART: Final = (FROM, TO, RANGE, OCCURRENCE, DEVICE)
RANK: Final = _option("--rank=N", "Only this rank of a job of several files.", type=_LEAST_0)
# Under the names of the fields of `gpuprof.ranks.work.Settings`.
WORKERS: Final = (
    _option(
        "--workers=N",
        "Read the files of a job in N processes; by default, one per core for more than 16 files.",
        type=_LEAST_1,
    ),
    _option(
        "--memory-limit=SIZE limit_bytes",
        "Memory of each worker process: 2GB. A file that needs more is left out.",
        type=Parsed(parse_decimal_bytes, "write a size as 2GB or 500MB"),
    ),
    _option(
        "--scheduler=ADDRESS",
        "Read the files on a Dask cluster: tcp://HOST:8786, or a scheduler file.",
    ),
    _option(
        "--resume=DIR state",
        "Keep partial results in this folder, and go on from those of a run that was ended.",
        type=_PATH,
    ),
)
SKIP_STEPS: Final = _option(
    "--skip-steps=N",
    "Leave out the first N steps of each phase, 0 for none; by default, the warm-up.",
    type=_LEAST_0,
)

# What is compared.
LABELS: Final = _option(
    "--label=NAME=FILE labels",
    "A recording and its label. Recordings under one label are runs of one variant, which show "
    "how much of a difference is noise.",
    multiple=True,
    type=NameAndValue(end_of_label),
)
BASELINE: Final = _option(
    "--baseline=LABEL",
    "Variant to compare with, or a saved baseline; by default, the first recording.",
)
EPOCH_SECONDS: Final = _option(
    "--epoch-seconds=LABEL=S",
    "Measured seconds per epoch of a variant; repeat for more.",
    multiple=True,
    type=NameAndValue(lambda text: text.rfind("="), click.FLOAT),
)
COMPARED_RANGE: Final = _option(
    "--range=NAME range_text",
    "Compare what NVTX ranges or operations of this name launched, each as one step: for steps "
    "that are not marked as steps, or for a part of them. * matches anything.",
)
IS_KERNELS: Final = _flag(
    "--kernels is_kernels",
    "Show what each kernel adds to the difference: slower, faster, new or removed.",
)
FAIL_IF: Final = _option(
    "--fail-if=CONDITION conditions",
    'Exit with status 3 if this is true for a candidate: "step_ns > 1.05x" (times the baseline), '
    '"step_ns > 1.02x beyond noise" or "exposed_transfer_share > 10%". Repeat for more.',
    multiple=True,
)
JUNIT: Final = _option(
    "--junit=FILE",
    "Write the conditions of --fail-if to a JUnit file, which CI servers show as tests.",
)
OF_USER: Final = _flag("--user is_user", "Save for all projects of this user.")
REPLACE_BASELINE: Final = _flag("--force", "Replace a baseline of this name.")

# What is shown.
TABLES: Final = _option(
    "--table=NAME tables",
    "Show this table in full; repeat for more. --list lists tables.",
    multiple=True,
    shell_complete=names("gpuprof.analyses", "ANALYSES"),
)
PER_STEP: Final = _flag(
    "--per-step is_per_step",
    "Show what a training step takes in each phase, and the time of each step.",
)
IS_ALL: Final = _flag("--all is_all", "Show every table in full.")
LIST_TABLES: Final = _flag("--list is_list", "List the tables and what they need.")
LIST_CHARTS: Final = _flag("--list is_list", "List the charts and what they show.")
SCHEMA: Final = _flag("--schema is_schema", "List the columns of every table instead.")
QUERY_SCHEMA: Final = _flag(
    "--schema is_schema", "List the tables and columns that FILE has, or any, instead."
)
MANUAL: Final = _flag("--man is_manual", "Print the manual page in roff, for man.")
CHANGES: Final = _option(
    "--what=CHANGE changes",
    "A change from the list above; repeat to apply several together.",
    multiple=True,
)
PINNED: Final = _option(
    "--keep pinned",
    "Do not move these; repeat for both. Inputs never move.",
    multiple=True,
    type=click.Choice(("forward", "variables")),
)
GPUS: Final = _option(
    "--gpus=2xK80", "Also estimate the time of a step on these GPUs, and rank placements by it."
)
LINK: Final = _option(
    "--link=NAME",
    "Link between each two GPUs: pcie3 to 5, nvlink2 to 4, staged, or 4us,24GB/s.",
    default="pcie3",
    show_default=True,
)
UNUSED_DAYS: Final = _option(
    "--older-than=DAYS days",
    "Only entries that were not used for this many days.",
    type=click.FloatRange(min=0),
    default=0.0,
)

# Where it goes.
TABLES_FORMAT: Final = format_option(
    "Format of the result; csv and json are in base units (ns, bytes).",
    *("terminal", "markdown", "csv", "json"),
)
WIDE: Final = _flag("--wide", "Do not shorten names; lines can get long.")
FULL_NAMES: Final = _flag(
    "--full-names", "Show kernels with namespaces, template arguments and parameters."
)
FORCE: Final = _flag("--force", "Overwrite existing outputs.")
RESULT: Final = (
    output_option("File for the result; - is standard output, the default.", default="-"),
    FORCE,
    WIDE,
)
CHART_DATA: Final = _option(
    "--chart-data data_format",
    "Also write the data of each chart, in base units.",
    type=click.Choice(("csv", "json")),
)
DARK: Final = _flag("--dark is_dark", "Draw charts light on dark, for pages of that style.")
PAGE: Final = _option("--html=FILE page", "Also write a page for a browser, as one file.")
FURTHER_OUTPUTS: Final = (
    _option(
        "--chart=[NAME=]FILE charts",
        "Draw a chart to a .png, .svg or .pdf file; repeat for more. `gpuprof plot --list` lists "
        "charts.",
        multiple=True,
        shell_complete=names(*_CHARTS, end="="),
    ),
    CHART_DATA,
    DARK,
    PAGE,
)
CRITICAL_PATH: Final = _option(
    "--plot=FILE picture",
    "Plot the critical path of one step, as recorded and as predicted, to a .png, .svg or .pdf "
    "file.",
)
SCHEDULE: Final = _option(
    "--chart=FILE",
    "Plot the estimated step, as recorded and as proposed, to a .png, .svg or .pdf file.",
)
RECORDING_OUTPUT: Final = (
    output_option(
        "Output file; its name should end in .gpuprof.", required=True, callback=recording_name
    ),
    FORCE,
)
EXPORT_TO: Final = _option(
    "--to --format form",
    "What is to read it: chakra, for simulators such as ASTRA-sim; perfetto, for"
    " https://ui.perfetto.dev and trace_processor; parquet or csv, for data tools.",
    type=click.Choice(("chakra", "perfetto", "parquet", "csv")),
    required=True,
)
EXPORTED_TABLE: Final = _option(
    "--table=NAME",
    "Export only this table of the recording, as one file; for parquet and csv.",
    shell_complete=names("gpuprof.model.data_model", "BY_NAME"),
)
WITH_ORIGINAL: Final = _flag(
    "--with-original",
    "Include the tools' own files and the program's output, which may hold secrets.",
)

# How a program is recorded.
RECORDER: Final = _option(
    "--recorder",
    "Profiler to use; auto takes one that works on this machine.",
    type=click.Choice([AUTO, *RECORDERS]),
    default=AUTO,
    show_default=True,
)
VARIANT: Final = _option("--variant=NAME", "Label of the run in comparisons.")
REPLACE_RUN: Final = _flag("--force", "Replace the run in the folder.")
TIMEOUT: Final = _option(
    "--timeout=TIME timeout_ns",
    "Stop a program that runs longer, such as 2h or 90s: first as Ctrl-C does, then by force.",
    type=Time(),
)
REPEAT: Final = _option(
    "--repeat=N",
    "Record N runs, with N unrecorded runs between them to measure what recording costs.",
    type=_LEAST_1,
)
WARMUP: Final = _option(
    "--warmup=K", "With --repeat: first run K times and keep nothing.", type=_LEAST_0, default=0
)
PLACEMENT: Final = _option(
    "--placement=FILE",
    "Place the model by what `gpuprof place --output` wrote, with --recorder tensorflow.",
    type=_PATH,
)
MONITOR: Final = _option(
    "--monitor=TIME monitor_ns",
    "Time between two samples of GPUs and host; 0s takes none.",
    type=Time(),
    default="1s",
    show_default=True,
)
DELAY: Final = _option(
    "--delay=TIME delay_ns",
    "Start to record after this time, such as 90s; the program runs from the start.",
    type=Time(),
)
DURATION: Final = _option(
    "--duration=TIME duration_ns", "Record for this time; the program runs to its end.", type=Time()
)
EPOCHS: Final = _option(
    "--epochs=A:B",
    "Record only epochs A to B - 1, as marked by gpuprof.epoch(); 0 is the first.",
    type=Parsed(parse_epochs, "give it as 2:4 for epochs 2 and 3, or as 2"),
)
# Under the names of `CaptureWindow`'s fields.
WINDOW: Final = (
    DELAY,
    DURATION,
    EPOCHS,
    _option(
        "--range=NAME range_name", "Record only the first NVTX range of this name, or NAME@DOMAIN."
    ),
    _flag("--cuda-profiler", "Record only between cudaProfilerStart and cudaProfilerStop."),
)
PRINT_COMMAND: Final = _flag(
    "--print-command is_printed",
    "Print the profiler's command, to run it on another machine, and record nothing.",
)
AS_MODULE: Final = _flag("-m as_module", "What follows is a module, as in python -m.")
INTERVAL: Final = _option(
    "--interval=TIME interval_ns",
    "Time between two samples, such as 500ms.",
    type=Time(),
    default="1s",
    show_default=True,
)
COUNT: Final = _option("--count=N", "Stop after N samples.", type=_LEAST_1)

# How a sweep runs; the plan itself checks the numbers, which a file may hold, too.
_PAIR: Final = NameAndValue(lambda text: text.find("="), may_be_empty=True)
_pairs: Final = partial(_option, multiple=True, type=_PAIR)
GRID: Final = _pairs("--grid=NAME=A,B", "An axis and its values; repeat for more.")
SWEEP_BASELINE: Final = _pairs(
    "--baseline=NAME=A", "Cell that speed-ups are relative to; repeat for more axes."
)
FIGURES: Final = _pairs(
    "--figure=NAME=PATTERN figures", "A figure that the program prints: the group of this pattern."
)
# Under the names of the fields of a sweep's plan.
PLAN: Final = (
    _option("--repeat=N", "Runs of each cell; 1 by default.", type=int),
    _option("--warmup=N", "Runs before these that do not count.", type=int),
    _option(
        "--skipped-epochs=N",
        "First epochs of each run that do not count; 0: all do. By default, the warm-up does not.",
        type=int,
    ),
    _option("--seed=N", "Seed of the order of runs; by default drawn, and kept.", type=int),
    _option("--recorder=NAME", "Profiler, as in `gpuprof record`; none only times."),
)
SWEEP_CONTROL: Final = (
    folder_option("Folder of the sweep; by default, one under gpuprof-sweeps."),
    _flag("--force", "Replace the sweep in the folder."),
    _flag("--retry-failed", "Run failed cells again."),
)
DRY_RUN: Final = _flag("--dry-run", "Print the commands in order without running them.")

# What charts of each subject take, by the names of `gpuprof.show`: in Python the first of
# the two; on the command line both.
PLOT_OPTIONS: Final = {
    "recording": ((READER, SECTION, *PART, SKIP_STEPS), (VIA, RANK, *WORKERS)),
    "comparison": ((BASELINE, SECTION, RANGE, SKIP_STEPS), (LABELS,)),
    "sweep": ((), ()),
}
