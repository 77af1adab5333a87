"""Which of the ranges of a thread is the outer and which the inner one at a launch."""

import tempfile
from pathlib import Path

import pytest
from drawing import draw
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nsys_export import KERNEL, NVTX, STRINGS, kernel, pid, write
from recordings import trace

from gpuprof.facts.launches import ALL_THREADS, launches
from gpuprof.facts.nvtx import NO_RANGE, ranges_of
from gpuprof.facts.range_launches import holding
from gpuprof.model import arrow_values
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof import write_gpuprof_file

SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted), max_size=8)


@settings(max_examples=100)
@given(SPANS, st.lists(st.integers(0, 13), min_size=1, max_size=6, unique=True))
def test_of_ranges_that_overlap_as_they_like_the_first_and_the_last_that_is_open_count(spans, at):
    profile = draw(
        nvtx_ranges=[(start, end, {"text": f"{start} {end}"}) for start, end in spans],
        api_calls=[(time, time + 1, {"correlation_id": time}) for time in at],
        kernels=[(100 + time, 101 + time, {"correlation_id": time}) for time in at],
    )
    held, found = ranges_of(profile), launches(profile)

    def span(index):
        return None if index == NO_RANGE else (int(held.start_ns[index]), int(held.end_ns[index]))

    said = {
        time: (span(outer), span(inner))
        for time, outer, inner in zip(
            found.launch_ns[:].tolist(),
            holding(held, found, is_outermost=True).tolist(),
            holding(held, found).tolist(),
            strict=True,
        )
    }
    opened = {time: [(s, e) for s, e in spans if s <= time < e] for time in at}
    assert said == {
        time: (
            min(around, key=lambda one: (one[0], -one[1]), default=None),
            max(around, key=lambda one: (one[0], -one[1]), default=None),
        )
        for time, around in opened.items()
    }


@given(texts=st.lists(st.sampled_from(["a", "b", "", "epoch 1"]), max_size=20))
def test_few_texts_and_many_are_numbered_alike(texts):
    ranges = [(n, n + 1, {"text": text}) for n, text in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch:
        labels = []
        for few in (0, 100):
            patch.setattr(arrow_values, "_FEW_WORDS", few)
            read = ranges_of(draw(nvtx_ranges=ranges))
            labels.append([read.labels[label][0] for label in read.label.tolist()])

    assert labels == [texts, texts]


PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
NAMES = {1: "saxpy", 2: "step", 3: "NCCL", 4: ""}
EVENTS = st.fixed_dictionaries({
    "start": st.sampled_from([None, 0, 5, 9]),
    "end": st.sampled_from([None, 0, 9, 12]),
    "eventType": st.sampled_from([PUSH_POP, PUSH_POP, START_END, MARK, DOMAIN]),
    "text": st.sampled_from([None, "step", "", "epoch 1"]),
    "textId": st.sampled_from([None, 1, 2, 4, 77, 1 << 40, (1 << 63) - 1]),
    "globalTid": st.sampled_from([None, pid(9) | 3, pid(9) | 4, pid(8) | 3]),
    "domainId": st.sampled_from([None, 0, 5]),
})  # fmt: skip


def is_plain(rows, absent):
    """Whether no range ends before it starts, and each domain has one name."""
    names = {}
    for row in (dict(row) | dict.fromkeys(absent) for row in rows):
        if row["eventType"] == DOMAIN:
            name = row["text"] if row["text"] is not None else NAMES.get(row["textId"])
            key = row["domainId"], (row["globalTid"] or 0) >> 24
            if names.setdefault(key, name) != name:
                return False
    return all((row["end"] or 0) >= (row["start"] or 0) for row in rows)


@settings(max_examples=80)
@given(
    rows=st.lists(EVENTS, min_size=1, max_size=8),
    absent=st.sets(st.sampled_from(["text", "textId", "domainId"]), max_size=2),
)
def test_ranges_are_those_of_the_events(rows, absent):
    assume(is_plain(rows, absent))
    with tempfile.TemporaryDirectory() as folder:
        typed = {"text": "", "start": 0, "end": 0, "eventType": MARK, "globalTid": 0}
        strings = [{"id": number, "value": name} for number, name in NAMES.items()]
        first = dict.fromkeys(rows[0], 0) | typed  # a mark, from which columns have their types
        tables = {KERNEL: [kernel(0, 5)], NVTX: [first, *rows], STRINGS: strings}
        profile = read_profile(write(Path(folder) / "x.sqlite", tables, drop=absent))

        assert labelled(ranges_of(profile)) == expected_ranges(rows, absent)


def expected_ranges(rows, absent):
    """The ranges of nsys' events, one event after another."""
    there = [{name: None if name in absent else row[name] for name in row} for row in rows]

    def process(row):
        return UNKNOWN if row["globalTid"] is None else row["globalTid"] >> 24 & 0xFFFFFF

    def thread(row):
        return UNKNOWN if row["globalTid"] is None else row["globalTid"] & 0xFFFFFF

    def text(row):
        return row["text"] if row["text"] is not None else NAMES.get(row["textId"])

    domains = {
        (process(row), row["domainId"]): text(row)
        for row in there
        if row["eventType"] == DOMAIN and row["domainId"] is not None
    }
    kinds = {PUSH_POP: "push_pop", START_END: "start_end"}
    return sorted(
        (
            row["start"],
            row["end"],
            process(row),
            ALL_THREADS if row["eventType"] == START_END else thread(row),
            text(row) or "",
            domains.get((process(row), row["domainId"])) or "",
            kinds[row["eventType"]],
        )
        for row in there
        if row["eventType"] in kinds
        and None not in (row["start"], row["end"])
        and (row["start"], row["end"]) != (0, 0)
    )


def known(number):
    return UNKNOWN if number is None else number


def labelled(ranges):
    columns = (ranges.start_ns, ranges.end_ns, ranges.process, ranges.thread, ranges.label)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return sorted((*row, *ranges.labels[label]) for *row, label in rows)


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "start_ns": st.sampled_from([0, 5, 9]),
                "end_ns": st.sampled_from([9, 12]),
                "text": st.sampled_from([None, "step", "", "epoch 1"]),
                "domain": st.sampled_from([None, "", "NCCL"]),
                "range_kind": st.sampled_from([None, "push_pop", "start_end"]),
                "process_id": st.sampled_from([None, 8, 9]),
                "thread_id": st.sampled_from([None, 3]),
            }
        ),
        min_size=1,
        max_size=8,
    )
)
def test_ranges_of_a_gpuprof_file_are_those_that_were_written(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gpuprof"
        write_gpuprof_file.write(trace(nvtx_ranges=rows), path)

        assert labelled(ranges_of(read_profile(path))) == sorted(
            (
                row["start_ns"],
                row["end_ns"],
                known(row["process_id"]),
                ALL_THREADS if row["range_kind"] == "start_end" else known(row["thread_id"]),
                *(row[name] or "" for name in ("text", "domain", "range_kind")),
            )
            for row in rows
        )


@pytest.mark.parametrize("suffix", [".sqlite", ".gpuprof"])
def test_a_part_of_a_recording_knows_the_ranges_of_all_of_it(tmp_path, suffix):
    rows = [
        {"start": 10 * i, "end": 10 * i + 5, "eventType": PUSH_POP, "text": "step",
         "globalTid": pid(9) | 3}
        for i in range(8)
    ]  # fmt: skip
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 5)], NVTX: rows})
    if suffix == ".gpuprof":
        export, path = path, tmp_path / "x.gpuprof"
        write_gpuprof_file.write(read_profile(export), path)

    part = read_profile(path).restricted(Selection(windows=((20, 40),)))

    assert ranges_of(part).start_ns.tolist() == [10 * i for i in range(8)]
