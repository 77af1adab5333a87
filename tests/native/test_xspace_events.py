import random
from struct import pack

import numpy as np
import pytest
from xspaces import field

from gpuprof.native import library, xspace, xspace_events
from gpuprof.native.xspace import WireError
from gpuprof.readers.xplane import event_columns

compiled = pytest.mark.skipif(library() is None, reason="nothing was compiled here")
KEYS = ((1, 200), (2,), ())
OTHERS = (b"", b"\x13", b"\x08", field(2, b"x"), field(1, b"key"), b"\x19" + bytes(8), b"\x25abcd")


def value(chance):
    """A value as profilers write it, or of another type, or in another order."""
    key = field(1, chance.choice((1, 2, 3, 200, 1 << 40)))
    number = chance.choice((0, 1, 300, 1 << 63, (1 << 64) - 1))
    of_field = chance.randrange(2, 9)
    kinds = field(of_field, number), field(of_field, b"text"), bytes([of_field << 3 | 5]) + b"four"
    parts = [key, chance.choice((*kinds, bytes([2 << 3 | 1]) + pack("<d", 2.5)))]
    if chance.random() < 0.2:
        parts.insert(chance.randrange(3), chance.choice((*kinds, *OTHERS[:1])))
    return b"".join(reversed(parts) if chance.random() < 0.1 else parts)


def event(chance):
    parts = [field(1, chance.choice((3, 4, 1 << 20))), field(2, chance.randrange(1 << 50))]
    parts += [field(3, chance.randrange(1 << 20))]
    parts += [field(4, value(chance)) for _ in range(chance.randrange(4))]
    if chance.random() < 0.05:
        parts.append(chance.choice(OTHERS))
    if chance.random() < 0.1:
        chance.shuffle(parts)
    return b"".join(parts)


def shown(columns):
    """All numbers, and each text; the place of a text is how it is found, and no answer."""
    rows = []
    for of_name in zip(columns.kind, columns.value, columns.size, strict=True):
        for kind, number, size in zip(*map(np.ndarray.tolist, of_name), strict=True):
            is_text = kind == xspace.STAT_TEXT
            text = bytes(columns.texts[number : number + size]) if is_text else number
            rows.append((kind, text if kind else None))
    return columns.numbers.tolist(), rows


@compiled
@pytest.mark.parametrize("seed", range(200))
def test_compiled_functions_read_events_as_python_does(seed):
    chance = random.Random(seed)  # noqa: S311 - guards nothing
    events = [event(chance) for _ in range(chance.randrange(1, 9))]
    line = b"".join(field(4, text) for text in events)
    after, places = xspace_events.event_places(line, 0)
    assert after == len(line)
    assert [line[b:e] for b, e in zip(*places, strict=True)] == events

    columns = xspace_events.decoded(line, places, KEYS)

    if columns is None:
        with pytest.raises(WireError):
            event_columns.one_by_one(line, places, KEYS)
    else:
        assert shown(columns) == shown(event_columns.one_by_one(line, places, KEYS))


@compiled
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_events_end_where_one_breaks_off_or_another_field_begins(cut):
    line = field(4, b"ab") + field(4, b"c" * 200)
    for text in (line + field(11, b"name"), line + field(4, b"abc")[:cut]):
        after, places = xspace_events.event_places(text, 0)

        assert after == len(line)
        assert (places[0].tolist(), places[1].tolist()) == ([2, 7], [4, 207])
