"""Where the boxes and arrows of a placement stand, in rows of text."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpuprof.base.short_texts import shortened
from gpuprof.show.cells import clean
from gpuprof.show.contract import Row

# Widths in the units of the picture, whose heights are rows of text.
CELL: Final = 9.0
GAP: Final = 16.0
_PAD: Final = 0.5
_HEAD: Final = 1.2
_SPACE: Final = 0.8
_LABEL: Final = 22
# With more layers than this, a tower is drawn as one part.
_MOST_LAYERS: Final = 90
_NO_TOWER: Final = "loss, update and others"

_ASIDE: Final = 0.3  # Rows between the middle of a box and a copy that has one against it.

Point = tuple[float, float]
Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Box:
    """A rectangle with a label at its top, or within it.

    Args:
        x: Its left.
        y: Its top.
        width: Its width.
        height: Its height.
        label: Its name.
        row: Of the table, for a part.
    """

    x: float
    y: float
    width: float
    height: float
    label: str
    row: Row = field(default_factory=dict)


class Plan(NamedTuple):
    """All boxes, and where each copy starts and ends.

    Args:
        width: Of all.
        height: Of all.
        devices: Their boxes.
        towers: Boxes in them.
        parts: Boxes in these.
        ends: Start and end of each copy, in the order of the copies.
    """

    width: float
    height: float
    devices: list[Box]
    towers: list[Box]
    parts: list[Box]
    ends: list[tuple[Point, Point]]


def arranged(nodes: Sequence[Row], edges: Sequence[Row]) -> Plan:
    """Two columns: the device that copies most, or the first of two, and all others."""
    is_coarse = len({_key(row, is_coarse=False) for row in nodes}) > _MOST_LAYERS
    cells = _cells(nodes, edges, is_coarse=is_coarse)
    devices = sorted({key[0] for key in cells if key[0]}, key=_by_number)
    columns = _columns(devices, edges)
    labels = _labels(cells)
    plan = Plan(0, 0, [], [], [], [])
    boxes: dict[Key, Box] = {}
    for number, column in enumerate(columns):
        y = 0.0
        for device in column:
            drawn = _device(device, number * (2 * CELL + 6 * _PAD + GAP), y, cells, labels)
            boxes |= drawn.parts
            plan.devices.append(drawn.frame)
            plan.towers.extend(drawn.towers)
            y = drawn.frame.y + drawn.frame.height + _SPACE
    plan.parts.extend(boxes.values())
    plan.ends.extend(_ends(edges, boxes, is_coarse=is_coarse))
    width = len(columns) * (2 * CELL + 6 * _PAD + GAP) - GAP
    height = max((box.y + box.height for box in plan.devices), default=1)
    beside = GAP / 2 if any(start[0] == end[0] for start, end in plan.ends) else 0
    return Plan(width + beside, height, plan.devices, plan.towers, plan.parts, plan.ends)


@dataclass(frozen=True)
class _Device:
    frame: Box
    towers: list[Box]
    parts: dict[Key, Box]


def _key(row: Row, end: str = "src", *, is_coarse: bool) -> Key:
    layer = None if is_coarse else row[f"{end}_layer"]
    return row[f"{end}_device"], row[f"{end}_tower"], layer, str(bool(row[f"{end}_is_gradient"]))


def _cells(nodes: Sequence[Row], edges: Sequence[Row], *, is_coarse: bool) -> dict[Key, Row]:
    """A row for each part: of the table, or made up for one that only copies name."""
    cells: dict[Key, Row] = {}
    for row in nodes:
        key = _key(row, is_coarse=is_coarse)
        before = cells.get(key, {}).get("fallbacks") or 0
        cells[key] = row | {"fallbacks": before + (row["fallbacks"] or 0)}
    for edge in edges:
        for end in ("src", "dst"):
            made_up = {"src_is_gradient": edge[f"{end}_is_gradient"], "fallbacks": 0}
            cells.setdefault(_key(edge, end, is_coarse=is_coarse), made_up)
    return cells


def _by_number(device: str) -> tuple[str, int, str]:
    kind, _, number = device.rpartition(":")
    return kind, int(number) if number.isdecimal() else 0, device


def _columns(devices: list[str], edges: Sequence[Row]) -> list[list[str]]:
    if len(devices) <= 2:  # noqa: PLR2004 - one column each
        return [[device] for device in devices]
    moved: Counter[str] = Counter()
    for edge in edges:
        for end in ("src_device", "dst_device"):
            moved[edge[end]] += edge["bytes_per_step"] or 1
    hub = max(devices, key=lambda device: moved[device])
    return [[hub], [device for device in devices if device != hub]]


def _labels(cells: Iterable[Key]) -> dict[tuple[str | None, str | None], str]:
    """Layers' names, without the number of their call where they stay apart without it."""
    towers: dict[str | None, set[str]] = {}
    for _, tower, layer, _ in cells:
        towers.setdefault(tower, set()).add(layer or "")
    labels: dict[tuple[str | None, str | None], str] = {}
    for tower, layers in towers.items():
        plain = Counter(re.sub(r"_\d+$", "", layer) for layer in layers)
        for layer in layers:
            bare = re.sub(r"_\d+$", "", layer)
            shown = bare if plain[bare] == 1 else layer
            labels[tower, layer or None] = shortened(clean(shown) or "others", _LABEL)
    return labels


def _device(
    device: str,
    x: float,
    y: float,
    cells: dict[Key, Row],
    labels: dict[tuple[str | None, str | None], str],
) -> _Device:
    """A device's box: its towers below each other, their layers as rows."""
    here = [key for key in cells if key[0] == device]
    towers = sorted(dict.fromkeys(key[1] for key in here), key=lambda tower: tower is None)
    width = 2 * CELL + 4 * _PAD
    place = y + _HEAD
    frames: list[Box] = []
    parts: dict[Key, Box] = {}
    for tower in towers:
        tower_layers = {key[2] for key in here if key[1] == tower}
        layers = [layer for layer in _layers(cells, tower) if layer in tower_layers]
        height = _HEAD + len(layers) + _PAD / 2
        label = shortened(clean(tower or _NO_TOWER), 2 * _LABEL)
        frames.append(Box(x + _PAD, place, width, height, label))
        for number, layer in enumerate(layers):
            for side, flag in enumerate(("False", "True")):
                key: Key = (device, tower, layer, flag)
                if key in cells:
                    cell_x, top = x + 2 * _PAD + side * (CELL + _PAD), place + _HEAD + number
                    parts[key] = Box(cell_x, top, CELL, 0.86, labels[tower, layer], cells[key])
        place += height + _PAD
    return _Device(Box(x, y, width + 2 * _PAD, place - y, clean(device)), frames, parts)


def _layers(cells: Iterable[Key], tower: str | None) -> list[str | None]:
    """A tower's layers in the order of its forward pass, the same on every device."""
    tower_cells = sorted(
        (key for key in cells if key[1] == tower), key=lambda key: key[3] == "True"
    )
    return list(dict.fromkeys(key[2] for key in tower_cells))


def _ends(
    edges: Sequence[Row], boxes: dict[Key, Box], *, is_coarse: bool
) -> list[tuple[Point, Point]]:
    """Each copy from the facing side of its source's box to that of its destination's."""
    keys = [tuple(_key(e, end, is_coarse=is_coarse) for end in ("src", "dst")) for e in edges]
    ends = []
    for src, dst in keys:
        # There and back, each beside the other.
        aside = (_ASIDE if src < dst else -_ASIDE) if (dst, src) in keys else 0
        (x, y), (to_x, to_y) = _side(boxes[src], boxes[dst]), _side(boxes[dst], boxes[src])
        ends.append(((x, y + aside), (to_x, to_y + aside)))
    return ends


def _side(box: Box, target: Box) -> Point:
    """The middle of the side that faces the other box; the right one where both stand alike."""
    is_left = target.x + CELL + GAP / 2 < box.x
    return (box.x if is_left else box.x + box.width), box.y + box.height / 2
