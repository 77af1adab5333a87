"""What is a secret in a command line, and what only looks like one."""

import shlex
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_forms import (
    FORMS,
    HARMLESS,
    MARKED_WORDS,
    NEXT_FORM,
    TEXTS,
    WORDS,
    commands,
    forms_left,
    pieces_left,
)

from gpuprof.base.secrets import ALLOWED, allowed_variables, masked_text, masked_words

# Put together here, so that nobody's scanner takes them for real ones.
HF = "hf_" + "aB3" * 11
AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
OPENAI_WITHOUT_DIGITS = "sk-" + "tXBJajHjuyrMzyGnVqdGWDJlnsxp"
JWT = "eyJhbGciOiJI." + "eyJzdWIiOiIx" + ".c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("train.py --token abc --epochs 5", "train.py --token *** --epochs 5"),
        ("train.py --hf-token=abc", "train.py --hf-token=***"),
        ("train.py --api_key abc x", "train.py --api_key *** x"),
        ("train.py --apiKey=abc", "train.py --apiKey=***"),
        ("train.py -password abc", "train.py -password ***"),
        ("train.py --no-secret -password abc", "train.py --no-secret -password ***"),
        ("env HF_TOKEN=abc WANDB_API_KEY=d t.py", "env HF_TOKEN=*** WANDB_API_KEY=*** t.py"),
        ("t.py wandb.api_key=abc lr=0.1", "t.py wandb.api_key=*** lr=0.1"),
        ("t.py https://me:pw@host/x?a=1", "t.py https://***@host/x?a=1"),
        ("t.py https://h/x?token=abc&b=2", "t.py https://h/x?token=***&b=2"),
        ("t.py s3://b/k?X-Amz-Signature=0f9", "t.py s3://b/k?X-Amz-Signature=***"),
        (f"t.py {HF}", "t.py ***"),
        (f"t.py {AWS_ID}", "t.py ***"),
        (f"t.py {AWS}", "t.py ***"),
        (f"t.py --x={AWS}", "t.py --x=***"),
        (f"t.py {OPENAI_WITHOUT_DIGITS}", "t.py ***"),
        (f"t.py --header {JWT}", "t.py --header ***"),
        ("t.py -H 'Authorization: Bearer abc'", "t.py -H 'Authorization: Bearer ***'"),
    ],
)  # fmt: skip
def test_secrets_are_masked(line, masked):
    assert masked_words(shlex.split(line)) == tuple(shlex.split(masked))


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=12)
@given(st.data())
def test_no_form_of_a_secret_is_left(form, data):
    drawn, around = FORMS[form]
    secret = data.draw(drawn)
    words = ["train.py", *around(secret), "--lr", "0.1"]
    masked = masked_words(words)

    assert pieces_left(secret, masked, around) == []
    assert (len(masked), masked[0], masked[-2:]) == (len(words), "train.py", ("--lr", "0.1"))
    assert masked_words(masked) == masked


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=5)
@given(st.data())
def test_no_form_of_a_secret_is_left_in_a_command_in_one_piece(form, data):
    drawn, around = FORMS[form]
    # Without the quotes of a shell a space ends the value.
    secret = data.draw(WORDS if drawn in (TEXTS, MARKED_WORDS) else drawn)

    assert pieces_left(secret, [masked_text(" ".join(around(secret)))], around) == []


@settings(max_examples=25, deadline=None)
@given(commands())
def test_a_secret_beside_others_is_masked_and_what_stands_between_them_is_not(command):
    words, secrets = command
    as_text, as_words = masked_text(" ".join(words)), masked_words(words)

    assert forms_left(secrets, f"{as_text} {as_words}".encode()) == []
    assert as_words.count(NEXT_FORM) == as_text.count(NEXT_FORM) + 1 == len(FORMS)


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("-=:\"',;@/\0 token"))))
def test_masked_words_are_as_many_as_before(words):
    assert len(masked_words(words)) == len(words)


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_secret_stays(line):
    assert masked_words(shlex.split(line)) == tuple(shlex.split(line))


def test_a_command_in_one_piece_is_masked_the_same():
    assert masked_text("python t.py --password abc HF_TOKEN=x") == (
        "python t.py --password *** HF_TOKEN=***"
    )


def test_of_the_environment_only_what_says_how_a_training_runs_is_kept():
    environment = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "XLA_FLAGS": f"--xla_dump_to=/x --token={HF}",
        "HF_TOKEN": HF,
        "HOME": "/home/me",
        "AWS_SECRET_ACCESS_KEY": AWS,
    }

    assert allowed_variables(environment) == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "XLA_FLAGS": "--xla_dump_to=/x --token=***",
    }


@pytest.mark.parametrize("name", ALLOWED)
def test_no_name_of_a_secret_is_on_the_list(name):
    assert masked_words([f"{name}=value"]) == (f"{name}=value",)


@pytest.mark.parametrize(
    "piece",
    [
        "a", "a.", "aB1+", "_", "-", " ", "\\", '"', "://a:b", "token=", "token=(", "token=)",
        "login ", "--tokens a ", "token='\\'", "-u a:", "://hook/", "eyJaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
    ],
)  # fmt: skip
def test_the_time_grows_with_the_length_of_a_text(piece):
    """A pattern that looks ahead from each place would take minutes."""
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    masked_text(text)

    assert time.process_time() - started < 10
