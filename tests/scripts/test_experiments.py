"""The page of experiments: its commands exist, and what they print and draw is in it."""

import sys

import click
import experiments
import pytest
from experiments import Experiment, Step, gpuprof

from gpuprof.cli import cli

STEPS = [step for make in experiments.EXPERIMENTS for step in make().steps]


@pytest.mark.parametrize("step", STEPS, ids=[step.command[:60] for step in STEPS])
def test_every_command_has_options_and_scripts_that_exist(step):
    own = step.words[: step.words.index("--")] if "--" in step.words else step.words
    script = next((n for n, word in enumerate(own) if word.endswith(".py")), len(own))
    if step.program == experiments.GPUPROF:
        command = cli.get_command(click.Context(cli), step.words[0])
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in own[:script] if word.startswith("-")} <= known
    for word in step.words:
        assert not word.endswith(".py") or (experiments.ROOT / word).is_file()


def test_every_experiment_has_a_question_a_meaning_and_what_was_published():
    assert [make().title for make in experiments.EXPERIMENTS] == [
        "DeepCoNN: one tower per device",
        "Data parallelism by hand",
        "Recurrent models: batch size and devices",
        "Towers: any Keras model over several devices",
    ]
    for make in experiments.EXPERIMENTS:
        found = make()
        assert found.question.endswith("?")
        assert found.meaning
        assert found.published


def test_a_section_holds_what_its_commands_print_and_draw(capsys):
    steps = (
        Step((sys.executable,), ("-c", "print('# said')")),
        Step((sys.executable,), ("-c", "print('# a table')", "markdown")),
        Step((sys.executable,), ("-c", "print('hidden')"), makes="picture.svg"),
        gpuprof("--version"),
    )
    found = Experiment("T", "Why?", steps, "Because.", "Once.", ("more.svg",))

    text = "\n\n".join(experiments.section(lambda: found))

    assert text.startswith("## T\n\nWhy?\n\n")
    assert "```\n# said\n```" in text
    assert "\n### a table\n" in text
    assert "![picture](picture.svg)" in text
    assert "hidden'" in text
    assert "\nhidden\n" not in text
    assert "gpuprof, version " in text
    assert "![more](more.svg)" in text
    assert capsys.readouterr().out.startswith("T ...\n")


def test_a_command_that_fails_ends_it_with_its_words():
    step = Step((sys.executable,), ("-c", "import sys; sys.exit('no room')"))

    with pytest.raises(SystemExit) as caught:
        experiments.output(step)

    assert str(caught.value).startswith("no room\n")
    assert str(caught.value).endswith("ended with exit status 1")
