"""``gpuprof doctor``: what this machine can record, and what stands in the way."""

import click

from gpuprof.cli.options import format_option, room


@click.command(name="doctor")
@format_option(
    "Format of the result; json also has the facts behind the findings.", "terminal", "json"
)
def command(*, form: str) -> int:
    """Say what can be recorded here, what cannot, and how to fix it.

    Checks GPUs, driver and links; nsys, nvprof, ncu and CUPTI, and whether they support these
    GPUs; permissions, containers, frameworks and disk space. Changes nothing, records no program
    and imports no framework. The exit status is 1 if there is a problem.

    \b
    Example:
      gpuprof doctor
      gpuprof doctor --format json
    """
    from gpuprof.doctor import findings  # noqa: PLC0415 - start-up time of --help
    from gpuprof.doctor.here import this_machine  # noqa: PLC0415
    from gpuprof.doctor.text import as_json, as_text  # noqa: PLC0415
    from gpuprof.show.output import write_stdout  # noqa: PLC0415

    machine = this_machine()
    checked = findings(machine)
    is_json = form == "json"
    write_stdout(as_json(machine, checked) if is_json else as_text(checked, room("-").width))
    return int(any(finding.state == "problem" for finding in checked))
