"""Where a TensorFlow model runs: devices as boxes, its parts in them, copies as thick as bytes."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

import pyarrow as pa

from gpuprof.base.short_texts import shortened
from gpuprof.base.units import capital, counted, say_bytes, say_share
from gpuprof.show import RECORDING, Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import Arrow, Box, Boxes, Chart, Look, Picture, Point, Results

FORWARD: Final = Look("forward pass, loss and update", "forward", "#56B4E9")
GRADIENTS: Final = Look("gradients", "gradients", "#E69F00", "///")
FORWARD_COPY: Final = Look("copies for the forward pass", "forward", "#0072B2")
GRADIENT_COPY: Final = Look("copies for gradients", "gradients", "#D55E00", "/////")
FALLBACK: Final = Look("ran elsewhere than asked", "fallback", "#CC0000")
# Widths in the units of the picture, whose heights are rows of text.
_CELL: Final = 9.0
GAP: Final = 16.0
_PAD: Final = 0.5
_HEAD: Final = 1.2
_SPACE: Final = 0.8
_LABEL: Final = 22
# With more layers than this, a tower is drawn as one part.
_MOST_LAYERS: Final = 90
_ASIDE: Final = 0.3  # Rows between the middle of a box and a copy that has one against it.
_THICKEST: Final = 11.0
_THINNEST: Final = 0.7
# Copies of a smaller share of the step's bytes carry no figure.
_LEAST_SHARE: Final = 0.02
_MOST_FIGURES: Final = 14
# Where along an arrow its figure may stand, and how far from others.
_PLACES: Final = (0.5, 0.35, 0.65, 0.42, 0.58, 0.28, 0.72)
_FIGURE_WIDTH: Final = 4.6
_FIGURE_HEIGHT: Final = 1.0

# Device, tower, layer, and whether it is of gradients.
_Key = tuple[str | None, str | None, str | None, bool]


def picture(results: Results) -> Picture:
    """The parts of `placement`, then what they copy to each other as `placement_edges` has it."""
    edges = results.table("placement_edges")
    hints = results.rows("placement_hints")
    nodes = [
        {
            **{f"src_{name}": row[name] for name in ("device", "tower", "layer", "is_gradient")},
            **{name: row[name] for name in ("operations", "requested_device", "fallbacks")},
        }
        for row in results.rows("placement")
    ]
    kinds = [("operations", pa.int64()), ("requested_device", pa.string())]
    schema = pa.schema([*edges.schema, *kinds, ("fallbacks", pa.int64())])
    copies = edges.to_pylist()
    rows = pa.Table.from_pylist([*nodes, *copies], schema=schema)
    finding = capital(hints[0]["finding"]) if hints else what_a_step_copies(copies)
    return Picture(finding, rows, [arranged(nodes, copies)] if rows.num_rows else [])


def what_a_step_copies(edges: Sequence[Row]) -> str:
    """How much, and which part of it is for gradients."""
    sizes = [row["bytes_per_step"] for row in edges]
    if not edges:
        return "Nothing is copied between devices in a step"
    if None in sizes:
        return "What a step copies between devices; some sizes are not known"
    for_gradients = sum(row["bytes_per_step"] for row in edges if row["is_gradient"])
    share = say_share(for_gradients / sum(sizes)) if for_gradients else "none"
    return f"A step copies {say_bytes(sum(sizes))} between devices, {share} of it for gradients"


def arranged(nodes: Sequence[Row], edges: Sequence[Row]) -> Boxes:
    """Devices side by side; in each, a row per layer: its forward part, then its gradients.

    The device that copies most, or the first of two, is on the left, all others on the right.
    """
    is_coarse = len({_key(row, "src", is_coarse=False) for row in nodes}) > _MOST_LAYERS
    # Operations and fallbacks of each part: of the table, or of one that only copies name.
    cells: dict[_Key, tuple[int | None, int]] = {}
    for row in nodes:
        key = _key(row, "src", is_coarse=is_coarse)
        before = cells.get(key, (0, 0))[1]
        cells[key] = row.get("operations"), before + (row["fallbacks"] or 0)
    for edge, end in product(edges, ("src", "dst")):
        cells.setdefault(_key(edge, end, is_coarse=is_coarse), (None, 0))
    devices = sorted({key[0] for key in cells if key[0]}, key=_by_number)
    columns = [[device] for device in devices]
    if devices[2:]:  # else a column each
        moved: Counter[str] = Counter()
        for edge in edges:
            for end in ("src_device", "dst_device"):
                moved[edge[end]] += edge["bytes_per_step"] or 1
        hub = max(devices, key=lambda device: moved[device])
        columns = [[hub], [device for device in devices if device != hub]]
    labels = _labels(cells)
    step = 2 * _CELL + 6 * _PAD + GAP
    outer: list[Box] = []
    inner: list[Box] = []
    parts: dict[_Key, Box] = {}
    for number, column in enumerate(columns):
        y = 0.0
        for device in column:
            frame, towers, of_device = _boxes_of(device, number * step, y, cells, labels)
            outer.append(frame)
            inner += towers
            parts |= of_device
            y = frame.y + frame.height + _SPACE
    arrows = _arrows(edges, parts, is_coarse=is_coarse)
    beside = GAP / 2 if any(arrow.start[0] == arrow.end[0] for arrow in arrows) else 0
    height = max((box.y + box.height for box in outer), default=1)
    width = len(columns) * step - GAP + beside
    return Boxes(width, height, outer, inner, [*parts.values()], arrows, FALLBACK)


def _key(row: Row, end: str, *, is_coarse: bool) -> _Key:
    layer = None if is_coarse else row[f"{end}_layer"]
    return row[f"{end}_device"], row[f"{end}_tower"], layer, bool(row[f"{end}_is_gradient"])


def _by_number(device: str) -> tuple[str, int, str]:
    kind, _, number = device.rpartition(":")
    return kind, int(number) if number.isdecimal() else 0, device


def _labels(cells: Iterable[_Key]) -> dict[tuple[str | None, str | None], str]:
    """Layers' names, without the number of their call where they stay apart without it."""
    towers: dict[str | None, set[str]] = {}
    for _, tower, layer, _ in cells:
        towers.setdefault(tower, set()).add(layer or "")
    labels: dict[tuple[str | None, str | None], str] = {}
    for tower, layers in towers.items():
        bare = {layer: re.sub(r"_\d+$", "", layer) for layer in layers}
        count = Counter(bare.values())
        for layer in layers:
            shown = bare[layer] if count[bare[layer]] == 1 else layer
            labels[tower, layer or None] = shortened(clean(shown) or "others", _LABEL)
    return labels


def _boxes_of(
    device: str,
    x: float,
    y: float,
    cells: dict[_Key, tuple[int | None, int]],
    labels: dict[tuple[str | None, str | None], str],
) -> tuple[Box, list[Box], dict[_Key, Box]]:
    """A device's box, those of its towers below each other, and their layers as rows.

    Layers stand in the order of the tower's forward pass, the same on every device.
    """
    inner, parts, place = list[Box](), dict[_Key, Box](), y + _HEAD
    towers = dict.fromkeys(key[1] for key in cells if key[0] == device)
    for tower in sorted(towers, key=lambda tower: tower is None):
        of_tower = sorted((key for key in cells if key[1] == tower), key=lambda key: key[3])
        here = {key[2] for key in of_tower if key[0] == device}
        layers = [layer for layer in dict.fromkeys(key[2] for key in of_tower) if layer in here]
        height = _HEAD + len(layers) + _PAD / 2
        name = shortened(clean(tower or "loss, update and others"), 2 * _LABEL)
        inner.append(Box(x + _PAD, place, 2 * _CELL + 4 * _PAD, height, name))
        rows = [(row, layer, of) for row, layer in enumerate(layers) for of in (False, True)]
        for row, layer, is_gradient in rows:
            if (key := (device, tower, layer, is_gradient)) not in cells:
                continue
            operations, fallbacks = cells[key]
            label, look = labels[tower, layer], GRADIENTS if is_gradient else FORWARD
            words = f": {counted(operations, 'operation', 'operations')}" if operations else ""
            left_edge, top = x + 2 * _PAD + is_gradient * (_CELL + _PAD), place + _HEAD + row
            parts[key] = Box(
                *(left_edge, top, _CELL, 0.86, label, look, f"{label}{words}"),
                is_marked=bool(fallbacks),
            )
        place += height + _PAD
    frame = Box(x, y, 2 * _CELL + 6 * _PAD, place - y, clean(device), None, clean(device))
    return frame, inner, parts


def _arrows(edges: Sequence[Row], boxes: dict[_Key, Box], *, is_coarse: bool) -> list[Arrow]:
    """Each copy from the facing side of its source's box to that of its destination's.

    Those of unknown purpose are with those for gradients; large ones carry a figure.
    """
    keys = [tuple(_key(e, end, is_coarse=is_coarse) for end in ("src", "dst")) for e in edges]
    sizes: list[float] = [row["bytes_per_step"] or 0 for row in edges]
    largest, total, taken = max(sizes, default=0) or 1, sum(sizes), list[Point]()
    arrows = []
    for number, (row, (src, dst), size) in enumerate(zip(edges, keys, sizes, strict=True)):
        # There and back, each beside the other.
        aside = 0.0
        if (dst, src) in keys:
            aside = _ASIDE if [*map(str, src)] < [*map(str, dst)] else -_ASIDE
        (x, y), (to_x, to_y) = _side(boxes[src], boxes[dst]), _side(boxes[dst], boxes[src])
        start, end = (x, y + aside), (to_x, to_y + aside)
        figure, place = "", (0.0, 0.0)
        if number < _MOST_FIGURES and size >= _LEAST_SHARE * total > 0:
            figure, place = say_bytes(row["bytes_per_step"]), _free_place(start, end, taken)
            taken.append(place)
        levels = ("device", "tower", "layer")
        names = (
            "/".join(row[f"{at}_{level}"] for level in levels if row[f"{at}_{level}"])
            for at in ("src", "dst")
        )
        words = clean(f"{' to '.join(names)}: {say_bytes(row['bytes_per_step'])} per step")
        look = FORWARD_COPY if row["is_gradient"] is False else GRADIENT_COPY
        width = _THINNEST + _THICKEST * size / largest
        arrows.append(Arrow(look, start, end, width, words, figure, place))
    return arrows


def _side(box: Box, target: Box) -> Point:
    """The middle of the side that faces the other box; the right one where both stand alike."""
    is_left = target.x + _CELL + GAP / 2 < box.x
    return (box.x if is_left else box.x + box.width), box.y + box.height / 2


def _free_place(start: Point, end: Point, taken: Sequence[Point]) -> Point:
    """A place along an arrow that is far enough from others, the middle where none is."""
    (x, y), (to_x, to_y) = start, end
    bend = GAP / 3 if x == to_x else 0
    places = [(x + share * (to_x - x) + bend, y + share * (to_y - y)) for share in _PLACES]
    free = (
        (across, down)
        for across, down in places
        if all(abs(across - a) > _FIGURE_WIDTH or abs(down - d) > _FIGURE_HEIGHT for a, d in taken)
    )
    return next(free, places[0])


CHART: Final = Chart(
    "placement",
    "Where the parts of a TensorFlow model run, and what they copy to each other in a step",
    RECORDING,
    ("placement", "placement_edges", "placement_hints"),
    picture,
)
