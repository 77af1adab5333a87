"""Charts and the page beside what a command prints: checked before its work, written after it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprof.render.charts.contract import Chart, Results
    from gpuprof.render.output import Output

Write = Callable[["Callable[[Chart], Results]", Callable[[], str]], None]


def further_outputs(  # noqa: PLR0913 - one per option
    charts: Sequence[str],
    data_format: str | None,
    page: str | None,
    subject: str,
    *,
    force: bool,
    inputs: Sequence[str],
    others: "Sequence[Output | None]" = (),
) -> Write:
    """Find the outputs of ``--chart``, ``--chart-data`` and ``--html`` writable.

    Args:
        charts: Values of ``--chart``.
        data_format: That of ``--chart-data``.
        page: That of ``--html``.
        subject: What the charts are about.
        force: Whether files that exist may be replaced.
        inputs: What is read, which is never replaced.
        others: What the command writes beside these, to files of their own.

    Returns:
        What writes them, given what each chart is drawn from, and what makes the page.

    Raises:
        GpuprofError: One cannot be written, or two are one file.
    """
    from gpuprof.render.output import check_apart, prepare  # noqa: PLC0415 - start-up time

    drawings = []
    if charts:
        from gpuprof.render.charts.drawing import drawing, named_chart  # noqa: PLC0415 - as above

        drawings = [
            drawing(*named_chart(chart, subject), data_format, is_forced=force, inputs=inputs)
            for chart in charts
        ]
    target = prepare(page, is_forced=force, inputs=inputs) if page else None
    drawn = (output for one in drawings for output in (one.picture, one.data))
    check_apart((*others, *drawn, target))

    def write(results_of: "Callable[[Chart], Results]", page_text: Callable[[], str]) -> None:
        for one in drawings:
            one.draw(results_of(one.chart))
        if target is not None:
            target.write_text(page_text())

    return write
