"""``gpuprof doctor``: what this machine can record, and what stands in the way."""

import click

from gpuprof.cli.options import format_option, room


@click.command(name="doctor")
@format_option(
    "How the result is written; json holds the facts beside the findings.", "terminal", "json"
)
def command(*, form: str) -> int:
    """Say what can be recorded here, what cannot, and how to mend it.

    Looks at GPUs, driver and links, at nsys, nvprof, ncu and CUPTI and whether they suit them,
    at permissions, containers, frameworks and disk space. Nothing is changed, no program is
    recorded and no framework imported. The exit status is 1 where there is a problem.

    \b
    Example:
      gpuprof doctor
      gpuprof doctor --format json
    """  # noqa: D301 - click reads the escape
    from gpuprof.doctor import findings  # noqa: PLC0415 - start-up time of --help
    from gpuprof.doctor.here import this_machine  # noqa: PLC0415
    from gpuprof.doctor.text import as_json, as_text  # noqa: PLC0415
    from gpuprof.render.output import write_stdout  # noqa: PLC0415

    machine = this_machine()
    checked = findings(machine)
    is_json = form == "json"
    write_stdout(as_json(machine, checked) if is_json else as_text(checked, room("-").width))
    return int(any(finding.state == "problem" for finding in checked))
