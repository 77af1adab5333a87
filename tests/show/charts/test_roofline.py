"""Operators beside the peaks of their GPU, as bars."""

import json

import pytest
from drawing import draw
from pictures import figure

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts.catalogue import of_recording, picture_of
from gpuprof.show.charts.roofline import CHART
from gpuprof.show.page.recording_page import recording_page

A100 = {"device_id": 0, "name": "NVIDIA A100-SXM4-40GB"}


def recording(device=A100, addition_ns=10_000):
    """A product of 50 µs that needs 6.9, and additions of 10 µs that need 4.0."""
    operators = ["aten::mm", "aten::add", "aten::add"]
    durations = [50_000, addition_ns, addition_ns]
    inputs = {"shapes": [[1024, 1024]] * 2, "types": ["c10::Half"] * 2, "values": []}
    return draw(
        nvtx_ranges=[
            (
                100 * n,
                100 * n + 50,
                {"text": name, "range_kind": "operation", "inputs": json.dumps(inputs)},
            )
            for n, name in enumerate(operators)
        ],
        api_calls=[(100 * n, 100 * n + 5, {"correlation_id": n}) for n in range(3)],
        kernels=[
            (100_000 * n, 100_000 * n + ns, {"correlation_id": n}) for n, ns in enumerate(durations)
        ],
        devices=[device],
    )


def test_a_bar_has_what_is_needed_and_what_is_above_it():
    shown = picture_of(CHART, of_recording(recording(), CHART))

    assert shown.finding == "mm 1024x1024 half takes 43.1 µs more than its GPU needs"
    (bars,) = shown.panels
    assert bars.names == ["mm 1024x1024 half", "add 1024x1024 half"]
    assert [round(part.end) for part in bars.parts] == [6_883, 50_000, 8_092, 20_000]
    assert [part.look.kind for part in bars.parts] == ["compute", "idle", "htod", "idle"]
    assert bars.figures == [
        "13.8 % of the roofline, 42.9 TFLOP/s",
        "40.5 % of the roofline, 629 GB/s",
    ]


def test_what_is_faster_than_the_memory_is_no_share_of_the_roofline_but_says_why():
    (bars,) = picture_of(CHART, of_recording(recording(addition_ns=2_000), CHART)).panels

    assert bars.figures[1] == ("3.15 TB/s, above the peak: from caches, or of expanded tensors")
    assert [part.end for part in bars.parts][2:] == [4_000, 4_000]


def test_a_page_has_it_where_operators_tell_their_shapes():
    assert 'id="roofline"' in recording_page(recording())
    assert 'id="roofline"' not in recording_page(draw(kernels=[(0, 10)]))
    unknown = {"device_id": 0, "name": "TITAN V"}
    assert 'id="roofline"' not in recording_page(recording(device=unknown))


def test_without_a_known_gpu_there_is_no_chart():
    with pytest.raises(EmptyRecordingError, match="roofline cannot be drawn"):
        figure(CHART, recording(device={"device_id": 0, "name": "TITAN V"}))
