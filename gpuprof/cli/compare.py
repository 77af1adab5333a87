"""``gpuprof compare``: variants of one program side by side."""

from itertools import chain

import click

from gpuprof.cli.completion import recordings
from gpuprof.cli.options import (
    baseline_option,
    chart_options,
    label_option,
    labelled_files,
    output_options,
    page_option,
    pair,
    room,
    skip_steps_option,
    tables_format_option,
)
from gpuprof.cli.progress import watched


def _seconds(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, float]:
    by_label = (pair(text, text.rfind("=")) for text in texts)
    return {label: click.FLOAT(text, option, context) for label, text in by_label}


@click.command(name="compare", no_args_is_help=True)
@click.argument("files", nargs=-1, type=click.Path(), shell_complete=recordings)
@tables_format_option
@output_options
@label_option
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="[LABEL=]N",
    help="Recording to read from a file that holds several, such as a log of several runs: its "
    "number, its process, a part of its name, or all; for one label or file, or for all files. "
    "Repeat for more.",
)
@baseline_option
@click.option(
    "--epoch-seconds",
    multiple=True,
    callback=_seconds,
    metavar="LABEL=S",
    help="Measured seconds per epoch of a variant; repeat for more.",
)
@click.option(
    "--range",
    "range_text",
    metavar="NAME",
    help="Compare what NVTX ranges or operations of this name launched, each as one step: for "
    "steps that are not marked as steps, or for a part of them. * matches anything.",
)
@skip_steps_option
@click.option(
    "--kernels",
    "is_kernels",
    is_flag=True,
    help="Show what each kernel adds to the difference: slower, faster, new or removed.",
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Exit with status 3 if this is true for a candidate: "step_ns > 1.05x" (times the '
    'baseline), "step_ns > 1.02x beyond noise" or "exposed_transfer_share > 10%". Repeat for '
    "more.",
)
@click.option(
    "--junit",
    metavar="FILE",
    help="Write the conditions of --fail-if to a JUnit file, which CI servers show as tests.",
)
@chart_options
@page_option
def command(  # noqa: PLR0913 - one parameter per option, and what each means
    *,
    files: tuple[str, ...],
    form: str,
    output: str,
    force: bool,
    wide: bool,
    full_names: bool,
    labels: tuple[tuple[str, str], ...],
    sections: tuple[str, ...],
    baseline: str | None,
    epoch_seconds: dict[str, float],
    range_text: str | None,
    skip_steps: int | None,
    is_kernels: bool,
    conditions: tuple[str, ...],
    junit: str | None,
    charts: tuple[str, ...],
    data_format: str | None,
    page: str | None,
) -> None:
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
    """
    from gpuprof.cli.partial import note_unread  # noqa: PLC0415 - start-up time
    from gpuprof.comparisons import comparison, labelled  # noqa: PLC0415
    from gpuprof.comparisons.judge.gate import checks, fail, parse  # noqa: PLC0415
    from gpuprof.show import COMPARISON, renderer_named  # noqa: PLC0415
    from gpuprof.show.further_outputs import further_outputs  # noqa: PLC0415
    from gpuprof.show.output import prepare  # noqa: PLC0415

    if junit is not None and not conditions:
        msg = "--junit needs conditions: give at least one by --fail-if."
        raise click.UsageError(msg)
    gates = [parse(condition) for condition in conditions]
    inputs = (*files, *(file for _, file in labels))
    target = prepare(output, is_forced=force, inputs=inputs)
    tests = None if junit is None else prepare(junit, is_forced=force, inputs=inputs)
    further = further_outputs(
        charts,
        data_format,
        page,
        COMPARISON,
        force=force,
        inputs=inputs,
        command_outputs=(target, tests),
    )
    recordings = labelled_files(files, labels)
    page_room = room(
        output,
        is_wide=wide,
        tables=("kernels",) if is_kernels else None,
        has_full_names=full_names,
    )
    # Of the label or file before it, or of all.
    section_of = {label: name for label, _, name in (text.rpartition("=") for text in sections)}
    with watched(f"Reading {len(recordings)} recordings", files):
        variants = labelled(recordings, baseline, section_of)
        note_unread(chain.from_iterable(variants.values()), shows_notes=form != "csv")
        result = comparison(
            variants, baseline, epoch_seconds, range_text=range_text, skip_steps=skip_steps
        )
        text = renderer_named(form).comparison(result, page_room)
        further.write_comparison(result, has_full_names=full_names)
    target.write_text(text)
    outcomes = checks(result, gates)
    if tests is not None:
        from gpuprof.show.comparison import junit as junit_text  # noqa: PLC0415

        tests.write_text(junit_text(result, outcomes))
    fail(outcomes)
