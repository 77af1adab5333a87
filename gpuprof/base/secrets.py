"""Keep secrets out of files: only known environment variables are kept, secrets are masked.

What counts as a secret: the value of an option, variable, key or header whose name says so
(``--api-key X``, ``HF_TOKEN=X``, ``{"password": "X"}``), and what has the shape of one
(`secret_shapes`). A secret that looks like any other word cannot be told. Where in doubt a value
is masked: a masked setting costs less than a leaked password.
"""

import contextlib
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from gpuprof.base.secret_shapes import MASK, without_shapes

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
    text, pieces = without_shapes(text), []
    end = position = 0
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
