"""A prediction as text, JSON and picture."""

import csv
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import copy, kernel, trace

from gpuprof.facts.hosts import NO_NAMES
from gpuprof.model import data_model
from gpuprof.model.table import Selection
from gpuprof.predict.predict import predict
from gpuprof.show import Page
from gpuprof.show.charts.figure import save
from gpuprof.show.charts.step_path import path_of, step_path
from gpuprof.show.output import Output
from gpuprof.show.page.prediction_page import prediction_page
from gpuprof.show.page.recording_page import recording_page
from gpuprof.show.prediction import critical_paths, in_slots, prediction_text

PLACE = {"process_id": 1, "device_id": 0, "context_id": 1, "stream_id": 7}


@pytest.fixture
def profile():
    """A kernel, a copy to the other device, and a kernel that comes after it."""
    ends = {"src_device_id": 0, "dst_device_id": 1, "bytes": 1_000_000}
    call = {"process_id": 1, "thread_id": 1, "name": "cudaLaunchKernel"}
    return trace(
        kernels=[
            kernel("gemm(float*)", 10_000, 60_000, correlation_id=1, **PLACE),
            kernel("relu(float*)", 101_000, 111_000, correlation_id=3, **PLACE),
        ],
        memcpys=[copy("PtoP", 61_000, 100_000, correlation_id=2, **PLACE | ends)],
        api_calls=[
            call | {"start_ns": n * 2000, "end_ns": n * 2000 + 1000, "correlation_id": n}
            for n in (1, 2, 3)
        ],
    )


def text(profile, form, *changes):
    result = predict(profile, changes)
    return prediction_text(result, profile.origin, form, Page())


def test_people_see_the_answer_first_and_its_assumptions_with_each_time(profile):
    shown = text(profile, "terminal", "link=1us,100GB/s")

    assert shown.startswith("The recording would take 73.0 µs instead of 101 µs (-27.7 %;")
    sentences = " ".join(shown.split())
    assert "assuming that copies between devices (1) take 1.00 µs + bytes / 100 GB/s" in sentences
    assert "2.7 % of it is host work, calls and waits, as recorded" in sentences
    assert "copy PtoP 0->1 39.000 µs 11.000 µs -28.000 µs" in sentences
    assert "Next bottleneck: kernel gemm" in sentences


def test_people_read_that_a_copy_goes_through_the_host_and_programs_its_key(profile):
    (route,) = profile.table("memcpys").to_pylist()
    halves = [
        route | {"memcpy_kind": kind, "path": "staged", "start_ns": start, "end_ns": end}
        for kind, start, end in (("DtoH", 61_000, 80_000), ("HtoD", 80_000, 100_000))
    ]
    staged = profile.with_table("memcpys", data_model.MEMCPYS.table(halves))
    result = predict(staged, [])

    shown = prediction_text(result, staged.origin, "terminal", Page())
    assert "PtoP through the host 0->1" in shown
    assert "PtoP_staged" not in shown
    assert "PtoP_staged" not in prediction_page(result, staged)
    critical = json.loads(prediction_text(result, staged.origin, "json", Page()))
    names = [row["name"] for row in critical["tables"]["critical_path"]]
    assert "PtoP_staged 0->1" in names


def test_programs_get_where_the_edges_come_from(profile):
    document = json.loads(text(profile, "json", "drop=PtoP"))

    assert document["what"] == ["drop=PtoP"]
    edges = {row["dependency"]: row for row in document["tables"]["dependencies"]}
    assert edges["launch of an operation"]["provenance"] == "recorded"
    assert {row["provenance"] for row in edges.values()} <= {"recorded", "rule", "inferred"}
    assert document["tables"]["prediction"][0]["measured_ns"] == 101_000


def test_a_spreadsheet_gets_the_times(profile):
    rows = list(csv.DictReader(text(profile, "csv", "scale=gemm:2").splitlines()))

    assert rows[0]["measured_ns"] == "101000"
    assert rows[0]["predicted_ns"] == "151000"


def test_markdown_has_the_answer_in_bold(profile):
    assert text(profile, "markdown").startswith("**The recording takes 101 µs")


def test_both_paths_become_a_picture(profile, tmp_path):
    target = tmp_path / "paths.svg"

    save(critical_paths(predict(profile, ["link=1us,100GB/s"])), Output(target))

    picture = target.read_text()
    assert picture.startswith("<?xml")
    assert {"before", "after"} == {
        row["path"]
        for row in predict(profile, ["link=1us,100GB/s"]).tables["stretches"].to_pylist()
    }


def test_paths_take_as_long_as_the_answer_says():
    """Steps of 40, 41, ... µs in which a kernel takes all but 20 µs; one takes 1 ms."""
    kernels, ranges, start = [], [], 0
    for n in range(9):
        end = start + (1_000_000 if n == 4 else 40_000 + n * 1_000)
        kernels.append(kernel("gemm(float*)", start + 10_000, end - 10_000, **PLACE))
        ranges.append({"text": f"step {n}", "start_ns": start, "end_ns": end, "process_id": 1})
        start = end
    columns = {"domain": "", "range_kind": "push_pop", "thread_id": 1}
    profile = trace(kernels=kernels, memcpys=[], nvtx_ranges=[columns | row for row in ranges])

    tables = predict(profile, ["scale=gemm:0.5"]).tables

    step = next(row for row in tables["prediction"].to_pylist() if row["phase"])
    stretches, parts = tables["stretches"].to_pylist(), tables["critical_path"].to_pylist()
    for name, figure in (("before", "measured_ns"), ("after", "predicted_ns")):
        assert max(row["end_ns"] for row in stretches if row["path"] == name) == step[figure]
        assert sum(row[f"{name}_ns"] for row in parts) == step[figure]


@given(st.lists(st.tuples(st.sampled_from(["kernel", "host"]), st.integers(1, 500)), min_size=1))
def test_slots_of_a_picture_keep_the_time_of_every_kind(drawn):
    rows, at = [], 0
    for kind, took in drawn:
        rows.append({"kind": kind, "name": "", "start_ns": at, "end_ns": at + took})
        at += took

    slots = in_slots(rows, at)

    assert [row["start_ns"] for row in slots[1:]] == [row["end_ns"] for row in slots[:-1]]
    for kind in ("kernel", "host"):
        times = [
            sum(r["end_ns"] - r["start_ns"] for r in stretches if r["kind"] == kind)
            for stretches in (rows, slots)
        ]
        assert times[0] == times[1]


def batched(flat, count):
    return zip(*[iter(flat)] * count, strict=True)


def _shown(profile, *changes):
    data = step_path(predict(profile, changes), NO_NAMES)
    sides = data["baseline"], data["candidates"][0]
    marks = iter(sides[1]["marks"])
    return [
        {
            lane["name"]: [
                (data["names"][name], length, *mark)
                for (_, length, name), mark in zip(
                    batched(lane["operations"], 3), batched(next(marks), 2), strict=True
                )
            ]
            for lane in side["lanes"]
        }
        for side in sides
    ]


def test_a_step_is_shown_with_what_is_on_the_path_and_the_time_that_each_takes_after(profile):
    before, after = _shown(profile, "link=1us,100GB/s")

    assert before["device 0"] == [
        ("gemm", 50_000, 1, 50_000),
        ("PtoP 0->1", 39_000, 1, 11_000),
        ("relu", 10_000, 1, 10_000),
    ]
    assert [name for name, *_ in before["host, waits"]] == ["order of a stream"] * 2
    assert after["device 0"][1] == ("PtoP 0->1", 11_000, 1, 39_000)


def test_what_a_change_removes_is_not_in_the_step_that_is_predicted(profile):
    before, after = _shown(profile, "drop=PtoP")

    assert before["device 0"][1] == ("PtoP 0->1", 39_000, 1, 0)
    assert [name for name, *_ in after["device 0"]] == ["gemm", "relu"]


def test_without_a_change_there_is_one_step(profile):
    before, after = _shown(profile)

    assert len(before["device 0"]) == 3
    assert after == {}


def test_a_page_has_the_answer_the_path_and_its_sums(profile):
    page = prediction_page(predict(profile, ["link=1us,100GB/s"]), profile)

    assert "<h1>The recording would take <strong>73.0" in page
    assert "<p>Assumed: copies between devices (1) take" in page
    assert "The critical path of the recording, as recorded and as predicted" in page
    assert "<li>as recorded: copies 39.0 µs (38.6 %)</li>" in page
    assert "<li>predicted: copies 11.0 µs (15.1 %)</li>" in page
    assert "copy: 39.0 µs, predicted 11.0 µs" in page


def test_a_recording_without_calls_has_a_page_that_says_why_nothing_is_predicted():
    late = trace(
        kernels=[kernel("gemm", n * 1_000_000, n * 1_000_000 + 10, **PLACE) for n in range(3)]
    )
    page = prediction_page(predict(late, ["scale=gemm:0.5"]), late)

    assert "<h1>No prediction: " in page


def test_the_path_of_a_recording_stands_on_its_lanes(profile):
    page = recording_page(profile)
    data = json.loads(re.search(r'id="data-timeline">(.*?)</script>', page, re.DOTALL)[1])
    lanes = {(lane["device"], lane["name"]): lane.get("path") for lane in data["lanes"]}

    assert data["of_path"].startswith(
        "Critical path of the recording, 101 µs: compute kernels 60.0"
    )
    assert len(lanes[0, "compute"]) == 6
    assert len(lanes[0, "PtoP"]) == 3
    assert lanes[1, "PtoP"] is None
    assert len(lanes[None, "host, waits"]) == 6
    assert data["path"] == [10_000, 111_000]


@pytest.mark.parametrize(
    "part", [Selection(((0, 60_000),)), Selection(device_id=0)], ids=["window", "device"]
)
def test_a_part_of_a_recording_has_no_path(profile, part):
    assert path_of(profile.restricted(part)) is None
