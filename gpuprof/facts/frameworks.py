"""Which framework a program uses, by the names of its kernels and ranges."""

import re
from typing import Final

from gpuprof.facts.by_number import names_by_number
from gpuprof.facts.nvtx import ranges_of
from gpuprof.model.profile import Profile

PYTORCH, TENSORFLOW, JAX = "PyTorch", "TensorFlow", "JAX"
# Names of kernels, operations and modules.
_MARKS: Final = {
    PYTORCH: re.compile(r"\bat::native|\bat_cuda_detail\b|^aten::|\btorch::|^ProfilerStep#"),
    TENSORFLOW: re.compile(r"\btensorflow::|^tf_|^TfOpAndXla|^tf\."),
    JAX: re.compile(r"\bjit\(|\bjit_|\bpjit|^jax_"),
}


def framework(profile: Profile) -> str:
    """`PYTORCH`, `TENSORFLOW` or `JAX`; empty where no name tells."""
    return profile.unrestricted.once(_framework)


def _framework(profile: Profile) -> str:
    names = names_by_number(profile, "kernels").distinct if profile.has("kernels") else []
    return _of_names(names) or _of_names(_texts(profile))


def _texts(profile: Profile) -> list[str]:
    if not profile.has("nvtx_ranges"):
        return []
    return [name for text, domain, _ in ranges_of(profile).labels for name in (text, domain)]


def _of_names(names: list[str]) -> str:
    marked = (mark for mark, of in _MARKS.items() if any(of.search(n) for n in names))
    return next(marked, "")
