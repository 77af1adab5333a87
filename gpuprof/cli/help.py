"""``gpuprof help``: the documentation in the terminal."""

import click

from gpuprof.cli.completion import topic_names


@click.command(name="help")
@click.argument("topic", required=False, shell_complete=topic_names)
@click.option("--man", "is_manual", is_flag=True, help="Print the manual page in roff, for man.")
def command(*, topic: str | None, is_manual: bool) -> None:
    """Show a page of the documentation.

    TOPIC is a page or a command; without one, the pages are listed. On a terminal the page opens
    in the pager that the environment variable PAGER names.

    \b
    Example:
      gpuprof help
      gpuprof help record
      gpuprof help --man > gpuprof.1
    """
    from gpuprof.cli.manual import manual  # noqa: PLC0415 - start-up time of --help
    from gpuprof.cli.options import room  # noqa: PLC0415
    from gpuprof.cli.pages import page_text, topics_text  # noqa: PLC0415

    if is_manual:
        click.echo(manual(), nl=False)
    elif topic is None:
        click.echo(topics_text(), nl=False)
    else:
        click.echo_via_pager(page_text(topic, room("-")))
