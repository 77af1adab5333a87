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
    kinds = {options[word].metavar for options in OPTIONS.values() if word in options}

    # The name of a tool, as in export --to, is one of those that the option lists.
    assert kinds - {"DIR", "[LABEL=]N", None} in ({"TIME"}, {"NAME"}, {"N"}, {"FILE"})
