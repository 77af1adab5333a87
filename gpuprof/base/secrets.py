"""Keep secrets out of files: only known environment variables are kept, secrets are masked.

What counts as a secret: the value of an option, variable, key or header whose name says so
(``--api-key X``, ``HF_TOKEN=X``, ``{"password": "X"}``), and what has the shape of one:
a key with a prefix, an address, a private key. A secret that looks like any other word cannot be
told. Where in doubt a value is masked: a masked setting costs less than a leaked password.

The prefixes are those that issuers document and that scanners for leaked secrets look for (GitHub's
secret scanning, gitleaks 8, detect-secrets 1.5). Lengths are the least that tell them from words,
not those that are issued: a key that is cut is still a secret. Hexadecimal numbers are left, since
commits, digests and identifiers look the same.

detect-secrets itself is no dependency: it brings requests and PyYAML (8 MB, 0.15 s at import),
marks lines for a person to judge, and finds half of the forms that commands carry.
"""

import contextlib
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

MASK: Final = "***"

_PREFIXED: Final = (
    # Letters and digits follow: Hugging Face, npm, Groq, GitHub, Replicate, Fireworks, Supabase,
    # Netlify, Linear, Jina, Pinecone, RunPod, Shopify, RubyGems, Anyscale, Sentry, PostHog.
    (
        r"(?:hf|api_org|npm|gsk|gh[oprsu]|r8|fw|sbp|nfp|lin_api|jina|pcsk|rpa|shp(?:at|ca|pa|ss)"
        r"|rubygems|esecret|sntry[su]|ph[cx])_[A-Za-z0-9]{16,}"
    ),
    # Docker, Stripe, DigitalOcean, Together, W&B, LangSmith, Grafana, Figma, CircleCI.
    (
        r"(?:github_pat|dckr_[op]at|(?:sk|pk|rk)_(?:live|prod|test)|whsec|do[oprt]_v1|tgp_v1|wandb_v1"
        r"|lsv2_[ps][kt]|sb_secret|gl[cs]a?|figd|CCIPAT)_[\w-]{12,}"
    ),
    # NVIDIA, GitLab, Slack, xAI, Perplexity, Postman, Tailscale, Google, Square, Pulumi, age.
    (
        r"(?:nvapi|gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat)|xox[a-z]|xapp|xai|pplx|PMAK|tskey"
        r"|GOCSPX|sq0[a-z]{3}|pul|AGE-SECRET-KEY)-[\w-]{10,}"
    ),
    # OpenAI and Anthropic, PyPI, Cerebras. Their prefixes also begin other words, without digits
    # and capitals in a row: sk-learn. One key of a thousand has no digit.
    r"(?:sk|pypi|csk)-(?=[\w-]{0,64}(?:\d|[a-z][A-Z]{2}))[\w-]{16,}",
    # AWS, Google, Vault, Databricks, crates.io, Atlassian, Mailgun, Doppler.
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|(?:AIza|ya29\.|hv[bs]\.)[\w-]{20,}",
    r"(?:dapi|key-)[a-f0-9]{24,}|cio[A-Za-z0-9]{24,}|(?:ATATT|ATCTT|ATBB)[\w-]{20,}=*",
    r"dp\.[a-z]{2,5}\.\w{16,}",
    # A JSON web token, SendGrid, Discord, Terraform, Entra ID.
    r"eyJ[\w-]{8,}(?:\.[\w-]+){1,4}\.?",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{16,}",
    r"\w{3}8Q~[\w.~-]{30,}",
)
# What stands in the place of what gpuprof takes out of files of other tools.
REMOVED: Final = "removed by gpuprof"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Last words of names of secrets, in the singular.
_WORDS: Final = _words(
    "auth authorization bearer cred creds hmac jwt key mfa oauth otp pass pat psk pw pwd sas sig"
    " signature totp"
)
# What a last word may end with instead: PGPASSWORD, authtoken.
_ENDINGS: Final = re.compile(
    r"(?:password|passwd|passphrase|passcode|secret|token|credential|cookie|webhook"
    r"|(?:access|account|api|auth|private|secret|shared|storage)key"
    r"|(?:db|ftp|key|ldap|login|mail|root|smtp|ssh|store|user)(?:pass|pwd|pw))\Z"
)
# Words before a last word that make it another thing: a column, a count, an id.
_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "key": _words(
        "answer arrow audio batch by cache caption chosen column data dict enter feature field"
        " foreign group hot id image index input json label lookup map message messages metric"
        " monitor name order output partition primary prompt public query question rejected"
        " response reward row signature sort state target text video"
    ),
    "token": _words(
        "audio batch begin bos cls context draft end eos generated image input mask max min n new"
        " num output pad per placeholder prefix prompt sep special start stop suffix system target"
        " total unk video"
    ),
    "pass": _words("all backward band first forward high low n num one per second two"),
    "pat": _words("exclude file glob include match name path"),
    "signature": _words("function input method model output serving"),
}
# What may follow the last word of a name: PASSWORD_PROD, SECRET_KEY_BASE.
_QUALIFIERS: Final = _words(
    "b64 backup base base64 current default dev hash header live main new old plain plaintext prod"
    " production raw read ro rw secondary staging str string test text val value write"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SWITCH: Final = re.compile(r"(?:true|false|yes|no|on|off|none|null|auto|[01])\Z", re.IGNORECASE)
# A number of tokens, keys or sigmas.
_COUNT: Final = re.compile(r"[+-]?\d[\d.,_]*(?:[eE][+-]?\d+)?[kKmMbBgGtT%]?\Z")
_COUNTED: Final = frozenset({"key", "sig", "token"})

# A name, and what stands between it and its value. Each word of a command stands between NULs.
_ASSIGNED: Final = re.compile(
    r"""(?<![\w.-])(?P<name>-{0,2}\w[\w.-]*+)(?:
      (?P<next>[\s\0]+)
      |\\*["']?[\])]?\s*(?:[:=]?=[=>]?|:(?!//))\s*
      |(?P<listed>\\*["']\s*,\s*(?=\\*["']))
    )(?:(?i:bearer|basic|token|digest)\s+(?=[^\s\0]))?""",
    re.VERBOSE,
)
# Names whose values are sentences: Authorization: Digest username=..., and cookies.
_SENTENCE: Final = re.compile(r"(?:authorization|cookies?)\Z", re.IGNORECASE)
_OPTION: Final = re.compile(r"--|-[A-Za-z](?:[\s\0]|\Z)")
# What stands before a variable whose value is the next word, and before a script.
_SETTER: Final = re.compile(r"(?:-genv|\bsetenv|\bsetx|\bset\s-\w*x\w*)[\s\0]+\Z")
_SCRIPT: Final = re.compile(r"\0-\w{0,3}c\0\W*\Z")
_WORD_START: Final = re.compile(r"\0(?:[+~]{0,2}|-{1,2}[\w.-]+[=:])\Z")
_LONGEST_BEFORE: Final = 64

_QUOTED: Final = re.compile(
    r"""[bBrRuUfF]{0,2}(?P<quote>\\*(?:"{3}|'{3}|["']))(?P<value>[^\0]*?)"""
    r"(?:(?<!\\)(?P=quote)|(?=\0)|\Z)"
)


def _brackets(depth: int) -> str:
    """A pattern of brackets, with quoted texts and further brackets in them."""
    quoted = r""""(?:\\[^\0]|[^"\\\0])*+"|'(?:\\[^\0]|[^'\\\0])*+'"""
    inner = f"|{_brackets(depth - 1)}" if depth else ""
    return rf"""[\[({{](?:{quoted}|[^"'\[\](){{}}\0]{inner})*+[\])}}]"""


# A list, or what wraps a text: SecretStr("X").
_BRACKETS: Final = re.compile(rf"(?P<value>(?:\w{{1,64}}(?=\([\"']))?{_brackets(2)})")
_ALL: Final = re.compile(r"(?P<value>[^\0]+)")
_WORDS_AFTER: Final = re.compile(r"(?P<value>[^\0]+(?:\0(?!-)[^\0]+)*)")
# Without quotes a value ends where the next name begins; in a text also at a space.
_CLOSING: Final = r"""["'`)\]}]{0,8}"""
_END: Final = rf"""{_CLOSING}[,;&]\s{{0,8}}\\?["']?[A-Za-z_][\w.-]{{0,64}}\\?["']?\s{{0,8}}[:=]"""
_WORD: Final = re.compile(rf"(?P<value>(?:\\[^\0]|[^\s\0])+?)(?={_CLOSING}(?:[\s\0]|\Z))")
_BARE: Final = re.compile(rf"(?P<value>[^\0]+?)(?={_CLOSING}(?:[\0\n]|\Z)|{_END})")
_BARE_WORD: Final = re.compile(
    rf"(?P<value>(?:\\[^\0]|[^\s\0])+?)(?={_CLOSING}(?:[\s\0]|\Z)|{_END})"
)
_WORDS_IN_TEXT: Final = re.compile(r"(?P<value>[^\s\0]+(?:[^\S\n]+(?![-;&|])[^\s\0]+)*)")
_BARE_SENTENCE: Final = re.compile(r"(?P<value>[^\0\n]+?)(?=\s+--?[A-Za-z]|[\0\n]|\Z)")
# A sentence ends with the quotes that stand around it and its name.
_UP_TO: Final = {quote: re.compile(rf"(?P<value>[^\0{quote}]+)") for quote in "\"'"}

# What changes how a training runs or is recorded, and names no person, host or account.
ALLOWED: Final = (
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES", "JAX_ENABLE_X64", "JAX_PLATFORMS",
    "KERAS_BACKEND", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MKL_NUM_THREADS", "NCCL_ALGO",
    "NCCL_BUFFSIZE", "NCCL_IB_DISABLE", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS",
    "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO", "NCCL_SHM_DISABLE",
    "NVIDIA_TF32_OVERRIDE", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTORCH_CUDA_ALLOC_CONF", "RANK", "TF_CUDNN_DETERMINISTIC",
    "TF_DETERMINISTIC_OPS", "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR", "TF_GPU_THREAD_COUNT", "TF_GPU_THREAD_MODE", "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS", "TORCH_NCCL_BLOCKING_WAIT", "WORLD_SIZE",
    "XLA_FLAGS", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE",
)  # fmt: skip


def allowed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Of an environment, the variables that say how a training ran; secrets in them masked."""
    return {name: masked_text(environment[name]) for name in ALLOWED if name in environment}


def masked_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line with their secrets masked; as many as there were."""
    framed = "".join(f"\0{word.replace(chr(0), ' ')}" for word in words)
    return tuple(masked_text(f"{framed}\0").split("\0")[1:-1])


def masked_text(text: str) -> str:
    """A text, such as a command line in one piece, with its secrets masked."""
    for shape in _SHAPES:
        text = shape.sub(_without, text)
    end, position, pieces = 0, 0, []
    # The values of named secrets are masked word by word.
    while (assigned := _ASSIGNED.search(text, position)) is not None:
        position = assigned.end()
        if not _is_secret(assigned["name"]):
            continue
        matches = (pattern.match(text, position) for pattern in _patterns(text, assigned))
        value = next(filter(None, matches), None)
        # Neither nothing, nor a switch, nor a count is a secret.
        if value is None or not value["value"] or _SWITCH.match(value["value"]):
            continue
        if _COUNT.match(value["value"]) and _last_words(assigned["name"])[1] in _COUNTED:
            continue
        start, position = value.span("value")
        pieces += [text[end:start], re.sub(r"[^\0]+", MASK, text[start:position])]
        end = position
    return "".join([*pieces, text[end:]])


def make_private(path: Path) -> None:
    """Leave a file, or a folder with all that is in it, to its owner alone."""
    for file in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):  # it is gone, or another user's
            if not file.is_symlink():
                file.chmod(stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXU)


def _patterns(text: str, assigned: re.Match[str]) -> tuple[re.Pattern[str], ...]:
    """What the value of a name may look like where it stands."""
    name, start = assigned["name"], assigned.start()
    before = text[max(start - _LONGEST_BEFORE, 0) : start]
    if assigned["next"]:
        return _next_word(text, assigned, before)
    if assigned["listed"] and not (name[0] == "-" or name.isupper()):
        return ()
    is_word = "\0" in text and _SCRIPT.search(before) is None
    if _SENTENCE.search(name):
        is_quoted = before[-1:] in _UP_TO and text[assigned.end("name")] not in "\"'\\"
        unquoted = _ALL if is_word else _BARE_SENTENCE
        return (_UP_TO[before[-1]],) if is_quoted else (_QUOTED, unquoted)
    if is_word and _WORD_START.search(before):
        return (_ALL,)
    is_apart = before[-1:] in {"", "\0"} or before[-1].isspace()
    return (_QUOTED, _BRACKETS, _WORD if is_apart else _BARE if is_word else _BARE_WORD)


def _next_word(text: str, assigned: re.Match[str], before: str) -> tuple[re.Pattern[str], ...]:
    """What a value that is the next word may look like; an option is none."""
    name = assigned["name"]
    is_bare = name.lower() in {"password", "passwd"} or _SETTER.search(before) is not None
    following = _ASSIGNED.match(text, assigned.end())
    option = "" if following is None or following["name"][0] != "-" else following["name"]
    if _is_secret(option) or _OPTION.match(text, assigned.end()) or not (is_bare or name[0] == "-"):
        return ()
    if "\0" in assigned["next"]:
        return (_WORDS_AFTER if name.endswith("s") else _ALL,)
    if _SENTENCE.search(name):
        return (_QUOTED, _BARE_SENTENCE)
    return (_QUOTED, _WORDS_IN_TEXT if name.endswith("s") else _WORD)


def _is_secret(name: str) -> bool:
    """Whether a name is one of a secret: its last word says so, as in ``--hf-token``."""
    before, last = _last_words(name)
    is_named = last in _WORDS or _ENDINGS.search(last) is not None
    is_harmless = before in _HARMLESS.get(last, ())
    return (is_named and not is_harmless) or before.startswith("webhook")


def _last_words(name: str) -> tuple[str, str]:
    """The last two words of a name, without numbers, plurals and qualifiers; empty for none."""
    words = [
        part.lower().rstrip("0123456789") for part in re.split(r"[\W_]+", _CAMEL.sub("-", name))
    ]
    words = [word for word in words if word]
    while len(words) > 1 and words[-1] in _QUALIFIERS:
        words.pop()
    before, last = ["", "", *words][-2:]
    is_singular = last in _WORDS or _ENDINGS.search(last) is not None
    return before, last if is_singular else last.removesuffix("s")


def _mixed(characters: str) -> str:
    """A pattern of what follows holding letters of both cases and a digit."""
    return "".join(f"(?=[{characters}]*[{kind}])" for kind in ("a-z", "A-Z", "0-9"))


_SHAPES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        (
            r"-----BEGIN[ A-Z0-9]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>[^\0]*?)"
            r"(?:-----END[ A-Z0-9]*-----|(?=\0)|\Z)"
        ),
        # user:password@ in an address; the password may hold @ and /. A number is a port, unless
        # an @ follows in the path.
        (
            r"""://(?P<secret>[^\s\0/?#@:"'<>]{0,256}:(?!\d{1,5}(?:[/?#\s\0"']|\Z))"""
            r"""[^\s\0"'<>]{0,512})@"""
        ),
        r"""://(?P<secret>[^\s\0/?#@:"'<>]{0,256}:[^\s\0?#"'<>]{0,512})@""",
        r"""://(?P<secret>[^\s\0/?#@"'<>]{1,512})@""",
        # Whoever has the address of a webhook may use it.
        r"""://(?=[^\s\0"']{0,256}hook)[^\s\0/"']{1,256}/(?P<secret>[^\s\0"']+)""",
        rf"\b(?P<secret>{'|'.join(_PREFIXED)})",
        r"(?<!\d)(?P<secret>\d{8,10}:[A-Za-z][\w-]{30,})",  # Telegram
        # Weights & Biases: wandb login KEY.
        r"\blogin[\s\0]+(?P<secret>[0-9a-f]{32,})(?!\w)",
        # base64: of 40 characters, as an AWS secret key, which no path and no hash is; or padded.
        rf"(?<![\w/+.-]){_mixed('A-Za-z0-9+/')}(?P<secret>[A-Za-z0-9+/]{{40}})(?![\w/+.=-])",
        rf"(?<![\w/+-]){_mixed('A-Za-z0-9+/_-')}(?P<secret>[A-Za-z0-9+/_-]{{22,}}={{1,2}})(?![\w=])",
        # What no separator divides is no name, but random.
        rf"(?<![A-Za-z0-9]){_mixed('A-Za-z0-9')}(?P<secret>[A-Za-z0-9]{{32,}})",
        # -pPASSWORD, as of mysql, and what only looks like a longer option: -parallel, -p8080.
        r"(?<![^\s\0\"'])-p(?!\w+=)(?P<secret>(?=[^\s\0]*[A-Za-z])(?=[^\s\0]*[A-Z\d!@#$%^&*?])[^\s\0]{4,})",
        r"\b(?:sshpass|login)\b[^;&|]{0,200}?[\s\0]-p[\s\0]+(?P<secret>[^\s\0]+)",
        # -u user:PASSWORD and -b COOKIE, as of curl; two numbers are ids of a user and a group.
        (
            r"(?<![^\s\0\"'])(?:-[uU]|--(?:proxy-)?user)[\s\0=]*\"?'?(?!\d+:\d+(?:[\s\0]|\Z))"
            r"[^\s\0:/]+:(?!//)(?P<secret>[^\0]+?)(?=[\"']?(?:\0|\Z)|(?<=[^\0])[\"'\s])"
        ),
        r"(?<![^\s\0\"'])-b[\s\0]+\"?'?[\w-]+=(?P<secret>[^\0\"']+?)(?=[\"'\0]|\s-|\Z)",
    )
)


def _without(match: re.Match[str]) -> str:
    """What has the shape of a secret, with that masked; NULs beside it stay."""
    start, stop = (place - match.start() for place in match.span("secret"))
    return f"{match[0][:start]}{MASK}{match[0][stop:]}"
