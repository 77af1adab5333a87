"""Texts cut to the room that they have, so that those which differ still look different."""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import count, groupby, pairwise
from typing import Final

_WORD: Final = re.compile(r"\w+$")
# A longer name leaves no room for the rest of a sentence.
LONGEST_IN_WORDS: Final = 80
_ROUNDS: Final = 2  # What differs may read the same as that of another template's variants.
_TYPE: Final = "void "  # Of every kernel template, in front of what tells them apart.


def shortened(text: str, width: int) -> str:
    """Text cut in its middle to a width, such as a path: paths differ at both ends."""
    if len(text) <= width:
        return text
    if width - 2 <= 1:  # room for no more than the dots
        return text[:width]
    head_width = (width - 2) // 2 + (width - 2) % 2
    return f"{text[:head_width]}..{text[len(text) - (width - 2 - head_width) :]}"


def cut(text: str, width: int) -> str:
    """Text cut at its end to a width."""
    return text if len(text) <= width else f"{text[: max(width - 2, 0)]}.."[:width]


def shortened_apart(
    texts: Sequence[str], width: int, shorten: Callable[[str, int], str] = cut
) -> list[str]:
    """Texts cut to a width so that those which differ look different.

    Those that would look alike, such as variants of one template, show the word in which they
    differ from the one most like them.

    Args:
        texts: What is shown together.
        width: The most characters of each.
        shorten: How others are cut: at the end, or in the middle by `shortened`.
    """
    if all(len(text) <= width for text in texts):
        return [*texts]
    bare = {text: text if len(text) <= width else text.removeprefix(_TYPE) for text in texts}
    shown = {text: shorten(short, width) for text, short in bare.items()}
    for _ in range(_ROUNDS):
        for alike in _alike(shown):
            shown |= _where_different({text: bare[text] for text in alike}, width)
    taken = set(shown.values())
    for alike in _alike(shown):
        marks = (f"#{number}" for number in count(2))
        marked = (f"{shown[alike[0]][: max(width - len(m), 0)]}{m}" for m in marks)
        for text in alike[1:]:
            shown[text] = next(text for text in marked if text not in taken)
            taken.add(shown[text])
    return [shown[text] for text in texts]


def _alike(shown: Mapping[str, str]) -> list[list[str]]:
    """Groups of texts that are shown as the same."""
    ordered = sorted(shown, key=lambda text: shown[text])
    groups = [list(group) for _, group in groupby(ordered, key=lambda text: shown[text])]
    return [group for group in groups if len(group) > 1]


def _where_different(bare: Mapping[str, str], width: int) -> dict[str, str]:
    """Of each text its beginning, and the word in which it differs from the one most like it."""
    ordered = sorted(bare, key=lambda text: bare[text])
    # In this order no other text begins with more of the same than a neighbour does.
    shared = [0, *(_shared(bare[a], bare[b]) for a, b in pairwise(ordered)), 0]
    head, shown = width // 4, {}
    for name, place in zip(ordered, map(max, pairwise(shared)), strict=True):
        text = bare[name]
        # From the word at the place on.
        before = text[max(place - width // 3, 0) : place]
        start = place - len(before) + len(_WORD.sub("", before))
        shown[name] = cut(f"{text[:head]}..{text[start:]}" if start > head + 2 else text, width)
    return shown


def _shared(first: str, second: str) -> int:
    """How many characters two texts both begin with."""
    ends = range(1, min(len(first), len(second)) + 1)
    return bisect_left(ends, x=True, key=lambda end: first[:end] != second[:end])
