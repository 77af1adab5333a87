import click
import pytest

from gpuprof.cli import COMMANDS, cli

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

    assert not choices & {"--json", "--csv", "--markdown", "--placement", "--no-record"}
    if "--format" in choices:
        assert isinstance(OPTIONS[name]["--format"].type, click.Choice)


@pytest.mark.parametrize("word", ["--to", "--from", "--reader", "--section", "-o"])
def test_a_word_takes_one_kind_of_value_in_all_commands(word):
    # That of export is the name of a tool, one of those that it lists.
    commands = OPTIONS.keys() - ({"export"} if word == "--to" else set())
    kinds = {OPTIONS[name][word].metavar for name in commands if word in OPTIONS[name]}

    assert kinds - {"DIR", "[LABEL=]N"} in ({"TIME"}, {"NAME"}, {"N"}, {"FILE"})
