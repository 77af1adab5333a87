"""Names of kernels: demangled by the C++ library of the machine, and short.

A short name is the function's own, as ``nsys stats`` prints with ``:base``.
"""

import ctypes
import ctypes.util
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import count, takewhile
from typing import Final

# Tables of `nsys stats` cut longer cells to their width: many names may begin alike.
CUT_END: Final = "…"
_MANGLED: Final = re.compile(r"^_Z[A-Za-z0-9_$.]+$")
# The library reads names recursively: no name of a compiler's comes near this.
_LONGEST_NAME: Final = 16_384
_SIGNATURE: Final = re.compile(r"[<(]")
# A function without namespace and nested brackets, as most of one's own kernels are.
_PLAIN: Final = re.compile(r"(?:\w+ )?((?!operator\b)\w+)(?:<[^<>()\[\]{}]*>)?\([^<>()\[\]{}]*\)")
_TOKEN: Final = re.compile(
    r"\boperator ?(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|[<>]=?)|->|::|[<>()\[\]{} ]"
)
_OPENING: Final = {")": "(", ">": "<", "]": "[", "}": "{"}
# After the parameters of a function around a name, or a cast of nsys' that lost its parentheses.
_GOES_ON: Final = re.compile(r"(?: const)?::|\w")
_NAME: Final = re.compile(r"(?!operator\b)[\w$.~-]+")

# What tells variants of a template apart: its arguments, names before types and numbers.
_SAYS_NOTHING: Final = re.compile(
    r"(?:\w+|<unnamed>|\(anonymous namespace\))::"  # Namespaces.
    r"|(?:\([a-z ]+\)|\b[a-z]+=)(?=-?\d)"  # The types of numbers: (int)4 of nsys, int=4 of nvprof.
)
_WORD: Final = re.compile(
    r"\b(?!(?:void|const|restrict|unsigned|signed|operator|instance|lambda)\b)\w+"
)
_TYPE: Final = re.compile(r"T\d*|bool|char|short|int|long|float|double|[aA]rray|true|false")
_MOST_WORDS: Final = 4
# Functions of libraries that many of their kernels share: the argument, or the namespace, tells.
_OF_SCOPE: Final = re.compile(r"\b(\w+)::((?:device_)?kernel\d?)<(?:\w+::)*(\w+)", re.IGNORECASE)
# The line of a region in names that compilers make of directives: main_41_gpu of OpenACC, perhaps
# with __red of its reduction; nvkernel_main_F1L115_7 of nvc; __omp_offloading_31_18a8104_main_l45
# of Clang, where the numbers of device and file come first.
# Sources: `-Minfo` of NVIDIA's HPC compilers; getTargetRegionEntryFnName of LLVM's OMPIRBuilder.
_OF_LINE: Final = re.compile(
    r"(.+)_\d+(_gpu(?:__red)?)|(.+)_F\d+L\d+(?:_\d+)?|__omp_offloading_[\da-f]+_[\da-f]+_(.+)_l\d+"
)


def demangled(name: str) -> str:
    """A name without C++'s mangling; itself where it has none or nothing here can read it."""
    if _MANGLED.match(name) is None or len(name) > _LONGEST_NAME:
        return name
    read = _library()
    return name if read is None else read(name) or name


def is_mangled(name: str) -> bool:
    """Whether a name is one that a C++ compiler made up for the linker."""
    return _MANGLED.match(name) is not None


@cache
def _library() -> Callable[[str], str | None] | None:
    for library in ("stdc++", "c++abi", "c++"):
        path = ctypes.util.find_library(library)
        if path is None:
            continue
        try:
            function = ctypes.CDLL(path)["__cxa_demangle"]
        except (OSError, AttributeError):
            continue
        break
    else:
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)

    def read(name: str) -> str | None:
        address = function(name.encode(), None, None, None)
        if not address:
            return None
        text = ctypes.string_at(address).decode(errors="replace")
        free(address)
        return text

    return read


@lru_cache(1 << 14)  # files of one job have the same names
def short_name(name: str) -> str:
    """The function's own name: no return type, namespaces, template arguments nor parameters.

    What is no C++ function keeps its name: a fusion of XLA, a kernel of Triton or cuBLAS. A
    lambda or call operator has the name of the function around it.

    Args:
        name: As a tool wrote it: demangled, or mangled, which is demangled where C++'s library
            is there.
    """
    text = demangled(name)
    if not _SIGNATURE.search(text):
        return text
    if plain := _PLAIN.fullmatch(text):
        return plain[1]
    around, start, end = "", 0, None
    for token in _outermost(text):
        mark, place = token[0], token.start()
        if mark in _OPENING.values():
            end = place if end is None else end
        elif text.startswith(" [", place):  # [clone .kd], [with T = int]
            end = place if end is None else end
            break
        elif mark in {"::", " "} and not text.startswith(" const::", place):
            part = _function(text[start : place if end is None else end])
            around = (part or around) if mark == "::" else ""
            start, end = token.end(), None
        elif mark == ")" and not _GOES_ON.match(text, place + 1):
            break
    return _function(text[start:end]) or around or text


def family(name: str) -> str:
    """What versions and instances of one kernel share: its short name without lines of the source.

    Compilers write such lines into the kernels that they make of directives. Of kernels that share
    their function's name, as those of CUTLASS do, the argument that names them is kept.

    Args:
        name: As for `short_name`.
    """
    base, words = _base(name)
    if match := _OF_LINE.fullmatch(base):
        base = "".join(filter(None, match.groups()))
    return _labelled(base, words)


def _outermost(text: str) -> Iterator[re.Match[str]]:
    """What parts a name outside its brackets, with the outermost brackets themselves."""
    brackets: list[str] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _OPENING:
            if mark == ">" and brackets[-1:] != ["<"]:
                continue  # A comparison within parentheses.
            while brackets and brackets.pop() != _OPENING[mark]:
                pass
        if not brackets:
            yield token
        if mark in _OPENING.values():
            brackets.append(mark)


def _function(part: str) -> str:
    """A part of a qualified name if it names a function or class; otherwise an empty text."""
    return part if _NAME.fullmatch(part) else ""


def short_names(names: Iterable[str]) -> Mapping[str, str]:
    """What one view calls each of its kernels: short names, and what tells alike ones apart.

    ``elementwise_kernel`` where no other kernel of the view has this short name, otherwise
    ``elementwise_kernel<FillFunctor, Half>``, with the words of the full name in which it
    differs.
    """
    groups: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for name in dict.fromkeys(names):
        base, words = _base(name)
        groups[base][name] = words
    shown: dict[str, str] = {}
    for base, group in groups.items():
        if len(group) > 1:
            shown |= _apart(base, group)
        else:
            shown |= {name: _labelled(base, words) for name, words in group.items()}
    return shown


def _base(name: str) -> tuple[str, tuple[str, ...]]:
    """The short name, with what says more where many kernels of a library share it."""
    base = short_name(name)
    shared = _OF_SCOPE.search(demangled(name))
    if shared is None or shared[2] != base:
        return base, ()
    return (base, (shared[3],)) if shared[1] == "cutlass" else (f"{shared[1]}::{base}", ())


def _labelled(base: str, words: tuple[str, ...]) -> str:
    return f"{base}<{', '.join(words)}>" if words else base


def _apart(base: str, labels: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Each name with its base and as few words as tell it from the others of this base."""
    # Of the full names but for namespaces: names first, then types, then numbers.
    words = {
        name: sorted(
            _WORD.findall(_SAYS_NOTHING.sub("", demangled(name))),
            key=lambda word: (word[0].isdigit(), _TYPE.fullmatch(word) is not None),
        )
        for name in labels
    }
    for _ in range(_MOST_WORDS):
        for alike in _alike(labels):
            columns = zip(*(words[name] for name in alike), strict=False)
            place = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))
            labels = labels | {
                name: labels[name] + (*words[name][place : place + 1],) for name in alike
            }
            words |= {name: words[name][place + 1 :] for name in alike}
    shown = {name: _labelled(base, words_apart) for name, words_apart in labels.items()}
    for alike in _alike(shown):
        for name, number in zip(alike[1:], count(2), strict=False):
            shown[name] += f" #{number}"
    return shown


def _alike(labels: Mapping[str, Hashable]) -> list[list[str]]:
    """Groups of names with one label."""
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for name, label in labels.items():
        groups[label].append(name)
    return [group for group in groups.values() if len(group) > 1]
