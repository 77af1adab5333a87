"""The critical path over the operations of a typical step, as recorded above as predicted."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from gpuprof.base.kernel_names import short_names
from gpuprof.base.labels import copy_label
from gpuprof.base.short_texts import cut
from gpuprof.base.units import say_ns
from gpuprof.facts.hosts import DeviceNames
from gpuprof.facts.timeline import timelines
from gpuprof.model.profile import Profile
from gpuprof.predict.paths import KINDS
from gpuprof.predict.predict import Prediction, predict
from gpuprof.show import Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import LARGEST, LONGEST_NAME, MOST_LANES

LABELS: Final = {"before": "as recorded", "after": "predicted"}
# The replay of more takes longer than a tenth of a page.
_MOST_EVENTS: Final = 300_000
KERNELS_OF_PATHS: Final = ("kernel", "collective")
# Of more those on the path, and the longest, so that a page stays small.
_MOST_ROWS: Final = 6_000
# The lane of what is on the path and no operation.
_ELSEWHERE: Final = "host, waits"


def step_path(result: Prediction, devices: DeviceNames, *, has_full_names: bool = False) -> Row:
    """Both steps for the page's script, as `side_by_side` gives them; no lanes without operations.

    A mark is 1 for what is on the critical path. Where nothing is changed, the lower one has no
    lanes.
    """
    rows = result.step.to_pylist()
    called = names_for_people(rows, has_full_names=has_full_names)
    places: dict[str, int] = {}
    sides: dict[str, list[Row]] = {name: [] for name in LABELS}
    for row in rows:
        row["shown"] = cut(clean(called.get(row["name"], row["name"])), LONGEST_NAME)
        sides[row["path"]].append(row)
    # From its first operation on: before and after, a step begins at other times.
    origins = {
        name: min((r["start_ns"] for r in of_side if r["operation"] is not None), default=0)
        for name, of_side in sides.items()
    }
    takes = {
        name: {row["operation"]: row["end_ns"] - row["start_ns"] for row in of_side}
        for name, of_side in sides.items()
    }
    before, after = (
        _side(_longest(sides[name]), takes[counterpart], (name, origins[name]), places, devices)
        for name, counterpart in (("before", "after"), ("after", "before"))
    )
    after["marks"] = [*before.pop("marks"), *after["marks"]]
    after["largest"] = _parts(result, rows, origins)
    left_out = max(len(of_side) - _MOST_ROWS for of_side in sides.values())
    shown = {"baseline": before, "candidates": [after], "names": [*places], "marked": "path"}
    return shown | {"left_out": max(left_out, 0)}


def path_of(profile: Profile) -> Prediction | None:
    """The critical path of a recording as it is.

    None of a part of one, of more events than a page waits for, without the host's calls, or where
    usual latencies do not explain the recording.
    """
    is_small = profile.unrestricted is profile and profile.events <= _MOST_EVENTS
    if not (is_small and profile.has("kernels", "memcpys", "api_calls") and timelines(profile)):
        return None
    result = predict(profile, ())
    is_explained = None not in result.tables["prediction"].column("predicted_ns").to_pylist()
    return result if is_explained and result.step.num_rows else None


def rows_on_path(result: Prediction) -> list[Row]:
    """What of the recorded step is on its critical path, by start."""
    rows = [row for row in result.step.to_pylist() if row["is_on_path"] and row["path"] == "before"]
    return sorted(_longest(rows), key=lambda row: row["start_ns"])


def _longest(rows: Sequence[Row]) -> list[Row]:
    """Those on the path first, as many as a page has room for."""

    def weight(row: Row) -> tuple[bool, int]:
        return row["is_on_path"], row["end_ns"] - row["start_ns"]

    return sorted(rows, key=weight, reverse=True)[:_MOST_ROWS]


def names_for_people(rows: Sequence[Row], *, has_full_names: bool = False) -> Mapping[str, str]:
    """What people read for the names in some rows of paths, where that is something else.

    Kernels have their short names, and copies the labels of their kinds.
    """
    called = {row["name"]: copy_label(row["name"]) for row in rows if row.get("name")}
    if not has_full_names:
        called |= short_names({r["name"] for r in rows if r.get("kind") in KERNELS_OF_PATHS})
    return called


def _side(
    rows: Sequence[Row],
    takes: Mapping[int | None, int],
    named: tuple[str, int],
    places: dict[str, int],
    devices: DeviceNames,
) -> Row:
    """One step: the lane of the host, then those of streams; how long each takes elsewhere."""
    (name, origin), by_lane, on_path_ns = named, defaultdict[str, list[Row]](list), Counter[str]()
    streams = {(row["device_id"], row["stream_id"]) for row in rows if row["operation"] is not None}
    count = Counter(device for device, _ in streams)
    for row in sorted(rows, key=lambda row: row["start_ns"]):
        lane = _ELSEWHERE
        if row["operation"] is not None:
            lane = devices.called(row["device_id"])
            if count[row["device_id"]] > 1 and row["stream_id"] is not None:
                lane += f", stream {row['stream_id']}"
        by_lane[lane].append(row)
        on_path_ns[lane] += row["is_on_path"] * (row["end_ns"] - row["start_ns"])
    longest = sorted(by_lane, key=lambda lane: -on_path_ns[lane])[:MOST_LANES]
    order = sorted(longest, key=lambda lane: (lane != _ELSEWHERE, lane))
    lanes, marks = [], []
    for lane in order:
        flat, usual, its_marks, last = list[int](), list[int](), list[int](), origin
        for row in by_lane[lane]:
            length = row["end_ns"] - row["start_ns"]
            place = places.setdefault(row["shown"], len(places))
            flat += [row["start_ns"] - last, length, place]
            last = row["start_ns"]
            usual.append(length)
            is_operation = row["operation"] is not None
            other_ns = takes.get(row["operation"], 0) if is_operation else 0
            its_marks += [int(row["is_on_path"]), other_ns]
        lanes.append({"name": lane, "operations": flat, "usual": usual})
        marks.append(its_marks)
    length = max((row["end_ns"] for row in rows), default=origin) - origin
    return {"label": LABELS[name], "length": length, "lanes": lanes, "marks": marks}


def _parts(result: Prediction, rows: Sequence[Row], origins: Mapping[str, int]) -> list[Row]:
    """The longest parts of the path, each with the place of its longest stretch."""
    rows_by_part: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row["is_on_path"]:
            key = row["kind"], row["name"]
            longest = rows_by_part.setdefault(key, row)
            if row["end_ns"] - row["start_ns"] > longest["end_ns"] - longest["start_ns"]:
                rows_by_part[key] = row
    parts = list[Row]()
    for part in result.tables["critical_path"].to_pylist():
        there = rows_by_part.get((part["kind"], part["name"]))
        if there is None or len(parts) == LARGEST:
            continue
        words = f"{part['kind']}: {say_ns(part['before_ns'])}"
        if part["difference_ns"]:
            words += f", predicted {say_ns(part['after_ns'])}"
        place = {n: there[f"{n}_ns"] - origins[there["path"]] for n in ("start", "end")}
        side = [*LABELS].index(there["path"])
        parts.append({"name": there["shown"], "words": words, "side": side} | place)
    return parts


def sums_by_kind(result: Prediction) -> dict[str, list[int]]:
    """What the path takes of each kind, as recorded and as predicted; only what it has."""
    rows = result.tables["critical_path"].to_pylist()
    sums = {
        kind: [
            sum(row[time] or 0 for row in rows if row["kind"] == kind)
            for time in ("before_ns", "after_ns")
        ]
        for kind in KINDS
    }
    return {kind: times for kind, times in sums.items() if any(times)}
