"""The forms in which commands carry secrets, each around a drawn one; and words that hold none."""

import json
import random
import string

from hypothesis import strategies as st

LETTERS = string.ascii_letters + string.digits
# Without what ends a word of a shell, or an address.
MARKED = LETTERS + "!#$%*+,.:=?@^_~/-"


def _random(least, alphabet=LETTERS):
    """Random words that no rule takes for a number, a switch or an option."""
    words = st.text(alphabet, min_size=least, max_size=40)
    return words.map(lambda word: f"q{word}Z7")


WORDS = _random(6)
MARKED_WORDS = _random(6, MARKED)
TEXTS = _random(6, MARKED + " \"'\\{}[]();&|<>\n\té")
HEXADECIMAL = st.text("0123456789abcdef", min_size=40, max_size=40)

# Form -> (how the secret is drawn, the words of a command around it).
FORMS = {
    "option": (TEXTS, lambda s: ["--password", s]),
    "option-equals": (TEXTS, lambda s: [f"--token={s}"]),
    "single-dash": (TEXTS, lambda s: ["-Password", s]),
    "api-key": (TEXTS, lambda s: ["--api-key", s]),
    "api_key": (TEXTS, lambda s: [f"--api_key={s}"]),
    "apiKey": (TEXTS, lambda s: [f"--apiKey={s}"]),
    "plural": (TEXTS, lambda s: ["--tokens", s]),
    "plural-equals": (TEXTS, lambda s: [f"--api_keys={s}"]),
    "several": (WORDS, lambda s: ["--api_keys", "first-0", s, "-v"]),
    "pass": (TEXTS, lambda s: ["--pass", s]),
    "key": (TEXTS, lambda s: ["--key", s]),
    "pat": (TEXTS, lambda s: ["--pat", s]),
    "otp": (TEXTS, lambda s: ["--otp", s]),
    "sas": (TEXTS, lambda s: ["--sas", s]),
    "dotted": (TEXTS, lambda s: [f"wandb.api_key={s}"]),
    "added": (TEXTS, lambda s: [f"+trainer.logger.secret={s}"]),
    "numbered": (TEXTS, lambda s: [f"--password2={s}"]),
    "qualified": (TEXTS, lambda s: [f"SECRET_KEY_BASE={s}"]),
    "config-dotted": (TEXTS, lambda s: [f"--config=db.password={s}"]),
    "config-json": (TEXTS, lambda s: ["--config", json.dumps({"lr": 0.1, "password": s})]),
    "config-json-nested": (TEXTS, lambda s: [json.dumps({"db": {"user": "me", "dbPassword": s}})]),
    "config-json-list": (TEXTS, lambda s: [json.dumps({"api_keys": ["first", s], "lr": 1})]),
    "config-json-twice": (WORDS, lambda s: [json.dumps({"env": json.dumps({"HF_TOKEN": s})})]),
    "json-words": (TEXTS, lambda s: [json.dumps({"args": ["t.py", "--token", s]})]),
    "dict": (TEXTS, lambda s: ["--config", repr({"lr": 0.1, "password": s})]),
    "call": (TEXTS, lambda s: ["-c", f"login(token={s!r}, lr=1)"]),
    "environ": (TEXTS, lambda s: ["-c", f"os.environ['HF_TOKEN'] = {s!r}; train()"]),
    "tuple": (WORDS, lambda s: ["-c", f"get(url, auth=('me', {s!r}))"]),
    "yaml": (MARKED_WORDS, lambda s: [f"lr: 0.1\npassword: {s}\nsteps: 3"]),
    "variable": (TEXTS, lambda s: ["env", f"HF_TOKEN={s}", "t.py"]),
    "PGPASSWORD": (TEXTS, lambda s: ["env", f"PGPASSWORD={s}", "t.py"]),
    "AZURE_STORAGE_KEY": (TEXTS, lambda s: ["env", f"AZURE_STORAGE_KEY={s}", "t.py"]),
    "OPENAI_KEY": (TEXTS, lambda s: ["-x", f"OPENAI_KEY={s}"]),
    "SSHPASS": (TEXTS, lambda s: [f"SSHPASS={s}"]),
    "genv": (TEXTS, lambda s: ["-genv", "HF_TOKEN", s]),
    "shell": (MARKED_WORDS, lambda s: ["bash", "-c", f"python t.py --password {s} --lr 0.1"]),
    "shell-quoted": (
        _random(6, MARKED + " ;&|"), lambda s: ["bash", "-c", f't.py --password "{s}" --lr 1']
    ),
    "shell-variable": (MARKED_WORDS, lambda s: ["sh", "-lc", f"HF_TOKEN={s} python t.py --lr 0.1"]),
    "shell-export": (WORDS, lambda s: ["sh", "-c", f"export WANDB_API_KEY={s} && python t.py"]),
    "shell-login": (HEXADECIMAL, lambda s: ["sh", "-c", f"wandb login {s} && python t.py"]),
    "mysql": (WORDS, lambda s: [f"-p{s}"]),
    "sshpass": (MARKED_WORDS, lambda s: ["sshpass", "-p", s, "ssh", "host"]),
    "docker-login": (MARKED_WORDS, lambda s: ["docker", "login", "-u", "me", "-p", s]),
    "user": (MARKED_WORDS, lambda s: ["-u", f"user:{s}"]),
    "user-joined": (MARKED_WORDS, lambda s: [f"-uuser:{s}"]),
    "user-long": (MARKED_WORDS, lambda s: ["--user", f"user:{s}"]),
    "openssl": (TEXTS, lambda s: ["-passin", f"pass:{s}"]),
    "cookie": (TEXTS, lambda s: ["--cookie", f"lang=en; session={s}"]),
    "cookie-short": (MARKED_WORDS, lambda s: ["-b", f"session={s}"]),
    "cookie-header": (TEXTS, lambda s: ["-H", f"Cookie: lang=en; session={s}"]),
    "authorization-token": (TEXTS, lambda s: ["-H", f"Authorization: Token {s}"]),
    "authorization-bearer": (TEXTS, lambda s: ["-H", f"authorization: bearer {s}"]),
    "authorization-plain": (TEXTS, lambda s: ["-H", f"Authorization: {s}"]),
    "authorization-digest": (WORDS, lambda s: ["-H", f'Authorization: Digest a="b", c="{s}"']),
    "authorization-json": (TEXTS, lambda s: [json.dumps({"Authorization": f"Token {s}"})]),
    "authorization-shell": (
        WORDS, lambda s: ["sh", "-c", f"curl -H 'Authorization: Token {s}' x && t.py --lr 1"]
    ),
    "x-api-key": (TEXTS, lambda s: ["-H", f"X-Api-Key: {s}"]),
    "x-auth-token": (TEXTS, lambda s: ["--header", f"X-Auth-Token:{s}"]),
    "url": (WORDS, lambda s: [f"https://me:{s}@host/x?a=1"]),
    "url-marked": (MARKED_WORDS, lambda s: [f"postgres://me:{s}@host:5432/db"]),
    "url-at": (WORDS, lambda s: [f"https://me:1@{s}@host/x"]),
    "url-slash": (WORDS, lambda s: [f"https://me:12/{s}@host/x"]),
    "url-token": (WORDS, lambda s: ["git", "clone", f"https://{s}@host/x.git"]),
    "url-parameter": (WORDS, lambda s: [f"https://host/x?epochs=5&access_token={s}&b=2"]),
    "url-signed": (WORDS, lambda s: [f"https://b.s3.host/k?X-Amz-Expires=9&X-Amz-Signature={s}"]),
    "url-credential": (WORDS, lambda s: [f"s3://b/k?X-Amz-Credential={s}%2F2026&a=b"]),
    "url-sas": (WORDS, lambda s: [f"https://a.blob.host/c?sv=2024-01-01&sig={s}%3D&se=2026"]),
    "connection": (WORDS, lambda s: [f"Endpoint=https://a.host;AccountKey={s}==;Suffix=net"]),
    "connection-pwd": (WORDS, lambda s: [f"Server=db;Uid=me;Pwd={s};Encrypt=yes"]),
    "slack-webhook": (WORDS, lambda s: [f"https://hooks.slack.com/services/T00/B00/{s}"]),
    "discord-webhook": (WORDS, lambda s: [f"https://discord.com/api/webhooks/12/{s}"]),
    "webhook": (TEXTS, lambda s: [f"--slack-webhook-url={s}"]),
    "pem": (
        TEXTS, lambda s: [f"-----BEGIN RSA PRIVATE KEY-----\n{s}\n-----END RSA PRIVATE KEY-----"]
    ),
    "jwt": (WORDS, lambda s: [f"x=eyJhbGciOiJI.eyJzdWIiOiIx.{s}"]),
    "base64": (WORDS, lambda s: [("a1B" * 7 + s)[-40:] + "=="]),
    **{
        f"shape-{prefix}": (
            st.text(LETTERS, min_size=30, max_size=40).map(lambda s: f"7{s}"),
            lambda s, prefix=prefix: [f"{prefix}{s}"],
        )
        for prefix in (
            "hf_", "ghp_", "gho_", "github_pat_", "glpat-", "npm_", "nvapi-", "gsk_", "pypi-",
            "dckr_pat_", "sk-", "sk-ant-api03-", "sk_live_", "xoxb-", "xoxp-", "xapp-", "AIza",
            "r8_", "hvs.", "dop_v1_", "figd_", "ATATT3x", "shpat_", "lsv2_pt_", "xai-", "pplx-",
            "tskey-", "whsec_", "wandb_v1_", "rpa_",
        )
    },
    "shape-dapi": (HEXADECIMAL, lambda s: [f"dapi{s}"]),
    "shape-AKIA": (
        st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16),
        lambda s: [f"AKIA{s}"],
    ),
    "shape-unknown": (
        st.text(LETTERS, min_size=34, max_size=60), lambda s: [f"unknown_aB3{s}"]
    ),
    # The last: nothing ends it in a text.
    "pem-cut": (TEXTS, lambda s: [f"-----BEGIN OPENSSH PRIVATE KEY-----\\n{s}"]),
}  # fmt: skip


def pieces_left(secret, outputs, around):
    """The pieces of six characters of a secret that stand in texts, but for those of its form."""
    form = " ".join([*around("q"), "train.py", "--lr"])
    pieces = {secret[i : i + 6] for i in range(len(secret) - 5)}
    return [p for p in pieces for text in outputs if p in text and p not in form]


def forms_left(secrets, data):
    """The forms of whose secrets eight characters stand in bytes."""
    parts = {
        form: {secret[i : i + 8].encode() for i in range(len(secret) - 7)}
        for form, secret in secrets.items()
    }
    return [form for form, pieces in parts.items() if any(piece in data for piece in pieces)]


DIGITS = {
    "shape-dapi": "0123456789abcdef",
    "shell-login": "0123456789abcdef",
    "shape-AKIA": string.ascii_uppercase + "234567",
}
NEXT_FORM = "--next-form"


@st.composite
def commands(draw):
    """A command with a secret in each form, and the secrets."""
    dice = random.Random(draw(st.integers(0, 2**64)))  # noqa: S311 - nobody's secrets
    words, secrets = [], {}
    for form, (_, around) in FORMS.items():
        # Short ones are told by their names alone.
        is_long = (form.startswith("shape") and form != "shape-AKIA") or form == "shell-login"
        letters = DIGITS.get(form, string.ascii_letters + string.digits)
        secrets[form] = "".join(dice.choices(letters, k=40 if is_long else 16))
        words += [*around(secrets[form]), NEXT_FORM]
    return words, secrets


HARMLESS = [
    "train.py --learning-rate 0.1 --key-frames 3 --tokenizer bert --max-tokens 512 --num-passes 2",
    "train.py --tokens 512 --max-new-tokens=64 --tokens-per-batch 4k --num_tokens=9 --keys 3",
    "train.py --eos-token </s> --pad_token <pad> --mask-token [MASK] --tokenizer.pad_token x",
    "train.py --sort-key name --key-dim 64 --image_key jpg --label-key=cls --author me",
    "train.py --use_auth_token True --token true --password-file /run/p --pass-rate 0.5",
    "train.py --bypass x --compass n --num-pass 3 --passes inline --pattern *.py --path /data",
    "train.py -p 8080 -p8080 -p0.5 -u train -parallel -profile -pthread -p fp16",
    "docker run -u 1000:1000 --user 0:0 -v /a:/b -p 80:8080 nvcr.io/nvidia/pytorch:24.05-py3",
    "python -u train.py -b 32 -b=64 -bs=32 -backend=nccl -precision=FP16 -pretrained=True",
    "train.py https://host/data?epochs=5 gs://bucket/model@v2 http://localhost:8080/x",
    "train.py docker://nvcr.io/nvidia/pytorch@sha256:0f9c2b7e4d1a6c3b8f5e0d9c2b7e4d1a6c3b8f5e",
    "train.py --commit 0f9c2b7e4d1a6c3b8f5e0d9c2b7e4d1a6c3b8f5e --id 1b4e28ba-2fa1-11d2-883f",
    "train.py runs/deepconn/batch-128/run-1.sqlite data/Books5/part-00001-of-00008.tfrecord",
    "train.py --model meta-llama/Llama-3.1-8B-Instruct --lora hf_model_dir --x sk-learn-like-model",
    "train.py --model sk-MyOwnLearnLikeModel --x pypi-publish-this-package",
    "train.py --model DeepSeek-R1-Distill-Qwen-32B --name BertForSequenceClassification2",
    "train.py --token --verbose",
    "train.py --master_addr 10.0.0.1 --master_port 29500 --rdzv_endpoint=host:29400 --tf32 on",
    "pretrain.py --tokenizer-type GPT2BPETokenizer --vocab-file v --keypoints 17 --sig 0.05",
    "vllm serve --max-num-batched-tokens 8192 --kv-cache-dtype fp8 --tensor-parallel-size 2",
    "srun -p gpu --gres=gpu:a100:2 --mem=64G --time=01:00:00 python train.py --passes 3",
    "ssh -p 22 me@host rsync -e ssh me@host:/data . && nsys profile -t cuda,nvtx -o r%p t.py",
    "python -c 'import x; print(x.tokens)'",
    "torchrun --nproc-per-node 8 --rdzv-endpoint host:29400 --rdzv-id job1 train.py",
    "mpirun -np 4 -x LD_LIBRARY_PATH -x NCCL_DEBUG=INFO ./a.out --mode basic --epochs 5",
    't.py \'{"lr": 0.1, "tokenizer": "bert", "max_tokens": 512, "sort_key": "a"}\'',
    "t.py model.layers=3 +optimizer.lr=0.1 data.tokens=300000000000 ++x.use_key=false",
]
