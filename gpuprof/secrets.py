"""Keep secrets out of files: only known environment variables are kept, tokens are masked.

What counts as a secret: the value of an option, variable or part of a URL whose name says so
(``--api-key X``, ``HF_TOKEN=X``), a URL's user and password, and words that have the shape of
well-known keys. A secret that looks like any other word cannot be told.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

MASK: Final = "***"
# What stands in the place of what gpuprof takes out of files of other tools.
REMOVED: Final = "removed by gpuprof"

_NAMES: Final = frozenset({
    "token", "secret", "password", "passwd", "passphrase", "pwd", "apikey", "accesskey",
    "secretkey", "auth", "authorization", "credential", "credentials", "bearer", "sig", "signature",
})  # fmt: skip
_KEYS: Final = frozenset({"api", "access", "secret", "private", "account", "wandb", "ssh"})
_SHAPES: Final = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}"  # Hugging Face
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)"  # a JSON web token
)
# An AWS secret key: 40 characters of base64, which a path or a hash is not.
_AWS_SECRET: Final = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9+/]{40}")
_USER_IN_URL: Final = re.compile(r"(\b[a-zA-Z][\w+.-]*://)[^/?#\s@]+@")
_ASSIGNED: Final = re.compile(r"([\w.-]+)(\s*(?:=|:(?!//))\s*)(\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)")
_SCHEME: Final = re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE)

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
    """The words of a command line with their secrets masked."""
    return tuple(_masked(words))


def masked_text(text: str) -> str:
    """A text, such as a command line in one piece, with its secrets masked."""
    return " ".join(_masked(text.split(" ")))


def _masked(words: Iterable[str]) -> Iterator[str]:
    is_value = False
    for word in words:
        if is_value and not word.startswith("--"):
            yield MASK
            is_value = False
            continue
        yield _without_secrets(word)
        is_value = word.startswith("-") and "=" not in word and _is_secret(word)


def _without_secrets(word: str) -> str:
    if _AWS_SECRET.fullmatch(word):
        return MASK
    word = _USER_IN_URL.sub(rf"\1{MASK}@", word)
    word = _SCHEME.sub(rf"\1 {MASK}", word)
    word = _ASSIGNED.sub(_assigned, word)
    return _SHAPES.sub(MASK, word)


def _assigned(assignment: re.Match[str]) -> str:
    name, sign, value = assignment.groups()
    is_secret = _is_secret(name) or _AWS_SECRET.fullmatch(value)
    is_masked = value.startswith(("Bearer", "Basic", MASK))
    return assignment[0] if is_masked or not is_secret else f"{name}{sign}{MASK}"


def _is_secret(name: str) -> bool:
    """Whether a name is one of a secret: its last word says so, as in ``--hf-token``."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", name)
    parts = [part.lower() for part in re.split(r"[^A-Za-z0-9]+", spaced) if part]
    if not parts:
        return False
    return parts[-1] in _NAMES or (parts[-1] == "key" and parts[-2:-1] != [] and parts[-2] in _KEYS)
