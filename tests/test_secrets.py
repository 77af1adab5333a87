"""What is a secret in a command line, and what only looks like one."""

import shlex

import pytest

from gpuprof.secrets import ALLOWED, allowed_variables, masked_text, masked_words

# Put together here, so that nobody's scanner takes them for real ones.
HF = "hf_" + "aB3" * 11
AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
JWT = "eyJhbGciOiJI." + "eyJzdWIiOiIx" + ".c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("train.py --token abc --epochs 5", "train.py --token *** --epochs 5"),
        ("train.py --hf-token=abc", "train.py --hf-token=***"),
        ("train.py --api_key abc x", "train.py --api_key *** x"),
        ("train.py --apiKey=abc", "train.py --apiKey=***"),
        ("train.py -password abc", "train.py -password ***"),
        ("env HF_TOKEN=abc WANDB_API_KEY=d t.py", "env HF_TOKEN=*** WANDB_API_KEY=*** t.py"),
        ("t.py wandb.api_key=abc lr=0.1", "t.py wandb.api_key=*** lr=0.1"),
        ("t.py https://me:pw@host/x?a=1", "t.py https://***@host/x?a=1"),
        ("t.py https://h/x?token=abc&b=2", "t.py https://h/x?token=***&b=2"),
        ("t.py s3://b/k?X-Amz-Signature=0f9", "t.py s3://b/k?X-Amz-Signature=***"),
        (f"t.py {HF}", "t.py ***"),
        (f"t.py {AWS_ID}", "t.py ***"),
        (f"t.py {AWS}", "t.py ***"),
        (f"t.py --x={AWS}", "t.py --x=***"),
        (f"t.py --header {JWT}", "t.py --header ***"),
        ("t.py -H 'Authorization: Bearer abc'", "t.py -H 'Authorization: Bearer ***'"),
    ],
)  # fmt: skip
def test_secrets_are_masked(line, masked):
    assert masked_words(shlex.split(line)) == tuple(shlex.split(masked))


@pytest.mark.parametrize(
    "line",
    [
        "train.py --tokenizer bert --max-tokens 512 --num_tokens=9",
        "train.py --sort-key name --key-dim 64 --author me",
        "train.py https://host/data?epochs=5 gs://bucket/model@v2",
        "train.py --commit 0f9c2b7e4d1a6c3b8f5e0d9c2b7e4d1a6c3b8f5e",
        "train.py runs/deepconn/batch-128/run-1.sqlite data/Books5/part-00001-of-00008.tfrecord",
        "train.py --token --verbose",
        "python -c 'import x; print(x.tokens)'",
    ],
)
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
