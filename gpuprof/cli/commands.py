"""Every command: its help, its options, and the function that it runs.

A function is imported when its command runs, so that ``--help`` stays fast; it takes the values of
the options under the names of their parameters.
"""

import re
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

import click

from gpuprof.api import options as opt

# What the contexts of a command share: what to say of files that are missing from its result, and
# the exit status then.
UNREAD: Final = "gpuprof.unread"
_PARTIAL: Final = 4


class Command(click.Command):
    """A command.

    Args:
        name: On the command line.
        place: ``module:function`` in `gpuprof.cli`.
        page: The page of the documentation that explains it; None for that of its group.
        described: The help.
        parameters: Arguments and options, in the order of the help.
        settings: As click takes them.
    """

    def __init__(
        self, name: str, place: str, page: str | None, described: str,
        *parameters: click.Parameter, **settings: Any,
    ) -> None:  # fmt: skip
        settings |= {"help": described, "epilog": page and f"Documentation: gpuprof help {page}"}
        super().__init__(
            name, params=[*parameters], callback=partial(_run, place.split(":")), **settings
        )


def _run(place: list[str], **values: Any) -> object:
    """Run the function of a command; its exit status, or that of a partial result."""
    module, function = place
    try:
        status = getattr(import_module(f"gpuprof.cli.{module}"), function)(
            SimpleNamespace(**values)
        )
    except KeyboardInterrupt as error:
        raise click.Abort from error  # click itself would print an empty line first
    except RuntimeError as error:
        # What DuckDB makes of Ctrl-C while it opens a recording.
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise click.Abort from error
        raise
    # The outputs are written; what was not read is said after them.
    lines = click.get_current_context().meta.get(UNREAD, ())
    for line in lines:
        click.echo(line, err=True)
    return status or (_PARTIAL if lines else status)


def values_of(values: SimpleNamespace, options: Iterable[click.Parameter]) -> dict[str, Any]:
    """The values of some options, under the names of their parameters."""
    return {str(option.name): getattr(values, str(option.name)) for option in options}


class _Record(Command):
    """Keeps the program's words from click, and notes whether ``--`` stood before them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raw_args = list(args)
        remaining = super().parse_args(ctx, args)
        words: tuple[str, ...] = ctx.params.get("words", ())
        before = raw_args[: len(raw_args) - len(words)]
        ctx.params["as_executable"] = bool(words) and before[-1:] == ["--"]
        return remaining


class _Query(Command):
    """Takes a SELECT below a comment, which begins as an option does, without the comment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_COMMENTS.sub("", word) for word in args])


_COMMENTS: Final = re.compile(r"\A\s*(?:--\s.*\n\s*)+")
_BASELINE_HELP: Final = """Save runs under a name, to compare later runs with.

    A baseline is a folder of small gpuprof files under .gpuprof/baselines of the project, or of
    the user with --user. `gpuprof compare NAME new` and --baseline NAME take it.

    \b
    Example:
      gpuprof baseline save main runs/main
      gpuprof compare runs/branch --baseline main --fail-if "step_ns > 1.05x"
    """
_BASELINE_COMMANDS: Final = (
    Command(
        *("save", "comparing:save", None),
        """Save RUNS under NAME.

        Several runs are repeats, which show how much of a difference is noise.

        \b
        Example:
          gpuprof baseline save main runs/main
          gpuprof baseline save main a.sqlite b.sqlite c.sqlite --force
        """,
        *(opt.BASELINE_NAME, opt.BASELINE_RUNS, opt.OF_USER, opt.REPLACE_BASELINE, *opt.READING),
    ),
    Command(
        *("list", "comparing:list_baselines", None),
        """List the baselines with their runs, size and folder.

        \b
        Example:
          gpuprof baseline list
        """,
    ),
    Command(
        *("show", "comparing:show_baseline", None),
        """Show the tool, variant, command and date of each run of NAME.

        \b
        Example:
          gpuprof baseline show main
        """,
        opt.BASELINE_NAME,
    ),
    Command(
        *("remove", "comparing:remove", None),
        """Remove NAME and its files.

        \b
        Example:
          gpuprof baseline remove main
        """,
        opt.BASELINE_NAME,
    ),
)
_COMMANDS: Final = (
    Command(
        *("demo", "help:demo", "install"),
        """Write two small recordings and try gpuprof on them.

        FOLDER, gpuprof-demo by default, gets recordings of one model on two GPUs that copy to each
        other directly and through the host; a script drew them, and their times are invented.
        Then compare, report and predict run on them. Needs no GPU and no network.

        \b
        Example:
          gpuprof demo
          gpuprof view gpuprof-demo/staged.gpuprof
        """,
        opt.DEMO_FOLDER,
    ),
    _Record(
        *("record", "recording:record", "record"),
        """Run a program and record what its devices do.

        The program runs as it would without gpuprof: its output is shown at once, Ctrl-C reaches
        it, and its exit status is passed on. The run's folder holds the recording, the output and
        a manifest; `report` and `compare` read it.

        Only environment variables that describe how a training runs are kept, and tokens in the
        command are masked. The report of nsys itself holds all variables: look at it before you
        share it. `pack` leaves it out.

        \b
        Example:
            gpuprof record --variant dual train.py --epochs 5
            gpuprof record -m package.train
            gpuprof record --epochs 2:4 train.py
            gpuprof record --recorder tensorflow --placement found.json train.py
            gpuprof record -- python3 train.py
        """,
        *(opt.RECORDER, opt.VARIANT),
        opt.folder_option("Folder for the run; by default, a new one under gpuprof-runs."),
        *(opt.REPLACE_RUN, opt.TIMEOUT, opt.REPEAT, opt.WARMUP, opt.MONITOR, *opt.WINDOW),
        opt.PLACEMENT,
        *(opt.PRINT_COMMAND, opt.AS_MODULE, opt.PROGRAM),
        context_settings={"allow_interspersed_args": False},
    ),
    Command(
        *("report", "reporting:report", "report"),
        """Show where the time of one recording went.

        Findings, then kernels, transfers by kind, memsets, and what each device waits for. FILE is
        a recording in a format that `gpuprof formats` lists, or a folder that `gpuprof record`
        made. Several files are read as one recording with a file for each process, and so are a
        list, @files.txt, and an address, s3://bucket/rank*.sqlite; to compare recordings, use
        `gpuprof compare`. What the recording does not tell is n/a, with the reason.

        Worker processes read more than 16 files, or any number with --workers. The exit status is
        4 if some of the files could not be read.

        \b
        Example:
          gpuprof report train.txt
          gpuprof report train.sqlite --format json -o train.json
          gpuprof report train.sqlite --range forward --table breakdown
        """,
        *(opt.REPORTED_FILES, opt.TABLES_FORMAT, *opt.RESULT, opt.FULL_NAMES, *opt.READING),
        *(opt.TABLES, *opt.FURTHER_OUTPUTS, *opt.PART, opt.RANK, *opt.WORKERS, opt.PER_STEP),
        *(opt.SKIP_STEPS, opt.IS_ALL, opt.LIST_TABLES),
        no_args_is_help=True,
    ),
    Command(
        *("compare", "comparing:compare", "compare"),
        """Compare recordings of one program in several variants.

        Shows how much variants, such as placements on devices, differ, and splits the difference
        into kernels, each kind of transfer, and idle time. FILES may come from different tools and
        numbers of devices; the first is the baseline. The folder of a sweep stands for all of its
        cells, a cell's folder for its runs.

        \b
        Example:
          gpuprof compare single.txt dual.txt
          gpuprof compare --label one=a.txt --label two=b.sqlite --chart variants.png
          gpuprof compare main.sqlite branch.sqlite --fail-if "step_ns > 1.05x"
        """,
        *(opt.COMPARED_FILES, opt.TABLES_FORMAT, *opt.RESULT, opt.FULL_NAMES, opt.LABELS),
        *(opt.SECTIONS, opt.BASELINE, opt.EPOCH_SECONDS, opt.COMPARED_RANGE, opt.SKIP_STEPS),
        *(opt.IS_KERNELS, opt.FAIL_IF, opt.JUNIT, *opt.FURTHER_OUTPUTS),
        no_args_is_help=True,
    ),
    click.Group(
        "baseline",
        {str(command.name): command for command in _BASELINE_COMMANDS},
        help=_BASELINE_HELP,
        epilog="Documentation: gpuprof help ci",
        no_args_is_help=True,
    ),
    Command(
        *("doctor", "recording:doctor", "record"),
        """Say what can be recorded here, what cannot, and how to fix it.

        Checks GPUs, driver and links; nsys, nvprof, ncu and CUPTI, and whether they support these
        GPUs; permissions, containers, frameworks and disk space. Changes nothing, records no
        program and imports no framework. The exit status is 1 if there is a problem.

        \b
        Example:
          gpuprof doctor
          gpuprof doctor --format json
        """,
        opt.format_option(
            "Format of the result; json also has the facts behind the findings.", "terminal", "json"
        ),
    ),
    Command(
        *("monitor", "recording:monitor", "record"),
        """Show what GPUs and host are doing.

        Busy time, memory, power, clocks and PCIe traffic: of GPUs through NVML (nvidia-ml-py), of
        the host through psutil. The extra `monitor` installs both. Ctrl-C ends it. `record` keeps
        the same samples with a run.

        \b
        Example:
          gpuprof monitor
          gpuprof monitor --count 1 --format json
        """,
        *(opt.INTERVAL, opt.COUNT),
        opt.format_option(
            "Format of samples; json has a line for each device, in base units.", "terminal", "json"
        ),
    ),
    Command(
        *("predict", "predicting:predict", "predict"),
        """Predict how long a step takes after a change.

        Replays the recording with a faster link, fewer copies, copies that overlap with kernels,
        and so on. Each prediction has a range, its assumptions, and the share of the recording
        that the replay cannot explain. Above 5 % of the span, the reason is printed instead of a
        prediction. Without --what, the critical path is shown.

        \b
        CHANGE is one of:
          link=NAME        copies between devices over nvlink2, nvlink3, nvlink4,
                           pcie3, pcie4, pcie5, or staged through the host
          link=4us,24GB/s  over a link of this latency and bandwidth
          link[0->1]=NAME  copies of one route, or of one kind: link[HtoD]=pcie5
          hide=HtoD        copies of a kind or route overlap with other work;
                           hide=HtoD|DtoH, of two kinds
          drop=NAME        remove what NVTX ranges of this name launch (* matches
                           anything), else kernels or copies that match the REGEX
          drop=REGEX@NAME  remove what matches among what ranges of this name launch
          drop-host=NAME   the host takes no time in ranges, operations or host
                           calls of this name, as with more workers of a loader
          scale=REGEX:0.5  kernels and copies that match take half the time
          faults=0         page faults and migrations of managed memory take no time
          gpu=NAME         kernels take what the peak rates of another GPU allow, such
                           as H100
          streams=REGEX    kernels and copies that match run on separate streams
          merge=REGEX      collectives of a step that match and follow each other on a
                           stream become one; merge=REGEX:4, every four of them
          balance          no rank waits for another in collectives
          no-launch-cost   launches take no time on the host, as with CUDA graphs

        \b
        Example:
          gpuprof predict train.sqlite --what link=nvlink3
          gpuprof predict train.sqlite --what hide=HtoD --what "scale=gemm:0.5"
          gpuprof predict train.sqlite --what balance --html balance.html
        """,
        *(opt.FILES, opt.CHANGES, opt.CRITICAL_PATH, opt.DARK, opt.PAGE, opt.TABLES_FORMAT),
        *opt.RESULT,
        *(opt.FULL_NAMES, *opt.READING),
        no_args_is_help=True,
    ),
    Command(
        *("sweep", "sweeping:sweep", "sweep"),
        """Run a program over a grid of options.

        Each cell runs under `gpuprof record`, one run at a time, in a shuffled order. The same
        command continues a sweep that was stopped, and repeats no finished run. A cell that fails
        becomes a row with its reason, and the exit status is 5 then. The folder of the sweep gets
        the recordings, results as CSV and Parquet, and charts.

        \b
        Example:
          gpuprof sweep sweep.toml
          gpuprof sweep --grid placement=single,dual --grid batch=64,128 \\
            --baseline placement=single -- \\
            train.py --placement {placement} --batch {batch}
        """,
        *(opt.GRID, opt.SWEEP_BASELINE, opt.FIGURES, *opt.PLAN, *opt.SWEEP_CONTROL, opt.DRY_RUN),
        *(opt.WIDE, opt.TABLES_FORMAT, opt.SWEPT_PROGRAM),
        no_args_is_help=True,
    ),
    Command(
        *("place", "placing:place", "place"),
        """Find where the parts of a training step should run.

        Minimizes the bytes copied between devices or, with --gpus, the estimated time of a step.
        FILE is a recording by `gpuprof record --recorder tensorflow`. Gradients and updates move
        first, as TensorFlow does not place them with the forward pass; then variables; the forward
        pass only if that saves a lot. Prints the scopes to write.

        \b
        Example:
          gpuprof place runs/dual
          gpuprof place runs/dual --output placement.json
          gpuprof place runs/dual --gpus 2xK80 --link pcie3 --chart dual.svg
        """,
        opt.FILES,
        opt.format_option("Format of the result; json is in base units.", "terminal", "json"),
        opt.output_option("Write the placement as JSON, for use by a script."),
        *(opt.FORCE, opt.PINNED, opt.GPUS, opt.LINK, opt.SCHEDULE, opt.DARK, *opt.READING),
        no_args_is_help=True,
    ),
    Command(
        *("plot", "plotting:plot", "show"),
        """Draw a chart: timelines, transfers, variants, and more.

        CHART is one that --list lists. A chart of a recording takes one recording; several FILEs
        are its processes, which workers read as for `gpuprof report`. A chart of a comparison
        takes recordings, the baseline first, with --label, --baseline and --skip-steps as in
        `gpuprof compare`. A chart of a sweep takes the folder or results of a sweep, or a table of
        measured times: CSV or Parquet with the columns seconds_per_epoch (or seconds), devices or
        batch_size, and optionally label.

        \b
        Example:
          gpuprof plot --list
          gpuprof plot matrix train.sqlite -o matrix.png
          gpuprof plot steps train.sqlite --skip-steps 5 -o steps.svg
          gpuprof plot variants --label one=a.sqlite --label two=b.sqlite -o two.svg
          gpuprof plot scaling times.csv -o scaling.svg
          gpuprof plot batch gpuprof-sweeps/train -o batch.svg
          gpuprof plot timeline train.sqlite --from 1.2s --to 1.4s -o timeline.svg
        """,
        *(opt.CHART_NAME, opt.REPORTED_FILES),
        opt.output_option("Picture file: .png, .svg or .pdf."),
        *(
            opt.FORCE,
            opt.CHART_DATA,
            opt.DARK,
            *opt.READING,
            *opt.PART,
            opt.RANK,
            *opt.WORKERS,
            opt.LABELS,
        ),
        *(opt.BASELINE, opt.SKIP_STEPS, opt.LIST_CHARTS),
        no_args_is_help=True,
    ),
    Command(
        *("view", "plotting:view", "show"),
        """Show a recording as a page in the browser.

        The page has charts to zoom, and tables to sort and search. It is one file in the cache
        (see `gpuprof cache`) and needs no network. If no browser can be opened, the path of the
        page is printed. To keep a page, use `gpuprof report --html`.

        \b
        Example:
          gpuprof view train.sqlite
          gpuprof view runs/dual
        """,
        *(opt.FILES, *opt.READING, *opt.PART, opt.FULL_NAMES),
        no_args_is_help=True,
    ),
    _Query(
        *("query", "querying:query", "query"),
        """Answer a SELECT about a recording.

        SQL is one SELECT in DuckDB's dialect over the tables that `gpuprof formats --schema`
        lists: recorded ones, what is derived from them, and those of `gpuprof report --list`.
        Values are in base units (ns, bytes) in every format. The query can read nothing else: no
        files, no addresses. --schema lists what FILE has: tables, columns, types and units. An
        output whose name ends in .parquet gets the answer with its types.

        \b
        Example:
          gpuprof query train.sqlite "SELECT count(*) FROM kernels WHERE end_ns - start_ns > 1e6"
          gpuprof query train.sqlite "SELECT * FROM memcpys LIMIT 10" --format csv -o copies.csv
          gpuprof query train.sqlite "SELECT * FROM steps" -o steps.parquet
          gpuprof query train.sqlite --schema
        """,
        *(opt.QUERIED_FILES, opt.SQL, opt.QUERY_SCHEMA, opt.TABLES_FORMAT, *opt.RESULT),
        *opt.READING,
        no_args_is_help=True,
    ),
    Command(
        *("mcp", "assistants:serve", "query"),
        """Answer the questions of an assistant about recordings.

        A server of the Model Context Protocol on standard input and output, which an assistant
        starts by itself. Its tools are report, compare, predict and query. They read files below
        FOLDER alone and change nothing. It needs the package mcp.

        \b
        Example:
          gpuprof mcp runs
          gpuprof mcp runs /data/profiles
        """,
        opt.SERVED_FOLDERS,
        no_args_is_help=True,
    ),
    Command(
        *("export", "files:export", "show"),
        """Write a recording in the format of another tool.

        For Perfetto, to look at single events: a lane per device and stream, copies joined from
        source to destination, and the bytes in flight at each end. It needs the package perfetto.
        For Chakra, to simulate other machines: the dependency graph of `gpuprof predict` as
        execution traces, a file per device: train.0.et, train.1.et and so on. As Parquet or CSV,
        for pandas, Polars, DuckDB or a spreadsheet: the kernels, copies, calls and ranges as they
        were recorded, in ns and bytes, a file for each table in a folder. Export a part of a
        recording by way of `gpuprof slice`.

        \b
        Example:
          gpuprof export train.sqlite --to perfetto -o train.pftrace
          gpuprof export train.sqlite --to chakra -o train.et
          gpuprof export train.sqlite --to parquet -o tables
          gpuprof export train.sqlite --to csv --table kernels -o kernels.csv
        """,
        *(opt.FILES, opt.EXPORT_TO),
        opt.output_option("File to write; of all tables, the folder.", required=True),
        *(opt.EXPORTED_TABLE, opt.FORCE, *opt.READING),
        no_args_is_help=True,
    ),
    Command(
        *("formats", "formats:formats", "formats"),
        """List the input formats, and what each cannot tell.

        \b
        Example:
          gpuprof formats
          gpuprof formats --schema
        """,
        opt.format_option(
            "Format of the list; markdown is as in the documentation.", "terminal", "markdown"
        ),
        opt.SCHEMA,
    ),
    Command(
        *("convert", "files:convert", "formats"),
        """Write a recording as gpuprof's own file.

        The file is small and fast to read. FILE is a recording in a format that `gpuprof formats`
        lists, a folder, or - for standard input; several files are read as one recording with a
        file for each process. The result holds all tables that gpuprof reads, as Parquet, and
        their source, but no environment variables and no host names. Every command reads it. An
        output that ends in / is a data set: a folder of plain Parquet files by table and rank, for
        DuckDB, Polars, pandas and Spark.

        \b
        Example:
          gpuprof convert train.sqlite -o train.gpuprof
          gpuprof report train.gpuprof
          gpuprof convert run/rank*.sqlite -o job.gpuprof/
        """,
        *(opt.FILES, *opt.RECORDING_OUTPUT, *opt.READING),
        no_args_is_help=True,
    ),
    Command(
        *("slice", "files:cut", "formats"),
        """Cut a window, NVTX ranges or a device out of a recording.

        Takes the part that `gpuprof report` shows with the same options. Every kernel, copy and
        call that starts in the part is kept in full, so adjacent windows add up to the recording.
        Ranges that reach into the part are kept too. The part of a range leaves out calls and
        ranges that ended before the work that they launched. FILE is not changed.

        \b
        Example:
          gpuprof slice train.sqlite --range "epoch 1" -o epoch-1.gpuprof
          gpuprof slice train.sqlite --range step --occurrence 12 -o step-12.gpuprof
          gpuprof slice train.sqlite --from 1.5s --to 2s -o part.gpuprof
        """,
        *(opt.FILES, *opt.PART, *opt.RECORDING_OUTPUT, *opt.READING),
        no_args_is_help=True,
    ),
    Command(
        *("cache", "formats:cache", "formats"),
        """List or clear the exports and pages that gpuprof keeps.

        The tables that nsys exports from a report, and the pages of `gpuprof view`, are kept in
        the user's cache folder, or in the folder that the environment variable GPUPROF_CACHE
        names. The cache takes at most 8 GiB. What a running gpuprof reads is never cleared.

        \b
        Example:
          gpuprof cache
          gpuprof cache clear --older-than 30
        """,
        *(opt.CACHE_ACTION, opt.UNUSED_DAYS),
        opt.format_option("Format of the result; json has sizes in bytes.", "terminal", "json"),
    ),
    Command(
        *("pack", "files:pack", "record"),
        """Pack a run into one file, to mail or to keep.

        RUN is a folder that `gpuprof record` made. The file holds its manifest (command, commit,
        packages, GPUs, versions, seconds per step and epoch), its marks and the recording as
        Parquet. It holds only environment variables that describe how a training runs.

        \b
        Example:
          gpuprof pack runs/dual -o dual.zip
          gpuprof report dual.zip
          gpuprof unpack dual.zip -o elsewhere/dual
        """,
        opt.RUN,
        opt.output_option("Output file; by default, the run's name and .zip."),
        *(opt.FORCE, opt.WITH_ORIGINAL),
        no_args_is_help=True,
    ),
    Command(
        *("unpack", "files:unpack", "record"),
        """Unpack a packed run into a folder.

        Sizes and hashes must be as packed. A file that would leave the folder, a link, or an
        archive that would unpack to more than its own size is refused, and nothing is left behind.

        \b
        Example:
          gpuprof unpack dual.zip
          gpuprof report dual
        """,
        opt.PACKED_RUN,
        opt.folder_option("Folder to make; by default, the file's name without its suffix."),
        no_args_is_help=True,
    ),
    Command(
        *("help", "help:show_page", "install"),
        """Show a page of the documentation.

        TOPIC is a page or a command; without one, the pages are listed. On a terminal the page
        opens in the pager that the environment variable PAGER names.

        \b
        Example:
          gpuprof help
          gpuprof help record
          gpuprof help --man > gpuprof.1
        """,
        *(opt.TOPIC, opt.MANUAL),
    ),
    Command(
        *("completion", "help:completion", "install"),
        """Print the code that completes gpuprof's words in a shell.

        Commands, options, names of tables and charts, topics of help, files and run folders. bash
        must be 4.4 or newer.

        \b
        Example:
          source <(gpuprof completion bash)      in ~/.bashrc
          source <(gpuprof completion zsh)       in ~/.zshrc
          gpuprof completion fish > ~/.config/fish/completions/gpuprof.fish
        """,
        opt.SHELL,
        no_args_is_help=True,
    ),
)
# In the order of the help.
COMMANDS: Final = {str(command.name): command for command in _COMMANDS}
# Command name -> the page of the documentation that explains it: `gpuprof help PAGE`.
PAGES: Final = {name: str(command.epilog).rpartition(" ")[2] for name, command in COMMANDS.items()}
