import inspect
from importlib import import_module

import click
import pytest

import gpuprof
from gpuprof.api.values import keyword
from gpuprof.cli import cli
from gpuprof.cli.commands import COMMANDS

OPTIONS = {
    name: {
        word: option
        for option in cli.get_command(click.Context(cli), name).params
        if isinstance(option, click.Option)
        for word in option.opts
    }
    for name in COMMANDS
}


@pytest.mark.parametrize("name", COMMANDS)
def test_how_a_result_is_written_is_always_chosen_by_format(name):
    choices = OPTIONS[name].keys()

    assert not choices & {"--json", "--csv", "--markdown", "--no-record"}
    if "--format" in choices:
        assert isinstance(OPTIONS[name]["--format"].type, click.Choice)


@pytest.mark.parametrize("word", ["--to", "--from", "--reader", "--section", "-o"])
def test_a_word_takes_one_kind_of_value_in_all_commands(word):
    # That of export is the name of a tool, one of those that it lists.
    commands = OPTIONS.keys() - ({"export"} if word == "--to" else set())
    kinds = {OPTIONS[name][word].metavar for name in commands if word in OPTIONS[name]}

    assert kinds - {"DIR", "[LABEL=]N"} in ({"TIME"}, {"NAME"}, {"N"}, {"FILE"})


@pytest.mark.parametrize("name", ["report", "compare", "plot", "record", "sweep"])
def test_a_function_takes_options_of_its_command_with_their_defaults(name):
    options = {keyword(o): o for o in COMMANDS[name].params if isinstance(o, click.Option)}
    keywords = {
        word: parameter.default
        for word, parameter in inspect.signature(getattr(gpuprof, name)).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }

    assert keywords == {word: options[word].to_info_dict()["default"] for word in keywords}


def test_the_function_of_every_command_is_there():
    commands = [*COMMANDS.values(), *COMMANDS["baseline"].commands.values()]
    for command in commands:
        if not isinstance(command, click.Group):
            module, function = command.callback.args[0]
            assert callable(getattr(import_module(f"gpuprof.cli.{module}"), function))
