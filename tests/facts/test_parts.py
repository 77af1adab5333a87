"""Parts of a recording."""

from dataclasses import replace
from pathlib import Path

import pytest
from drawing import draw

from gpuprof.analyses.breakdown import breakdown
from gpuprof.analyses.reports import report
from gpuprof.base.errors import EmptyRecordingError, MissingTableError, UsageError
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.model.data_model import ACTIVITY_SUMMARY
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

RANGED = draw(
    nvtx_ranges=[
        (0, 10, {"text": "forward"}),
        (10, 20, {"text": "backward"}),
        (20, 30, {"text": "forward"}),
        (30, 40, {"text": "idle"}),
    ],
    api_calls=[(at, at + 1, {"correlation_id": at}) for at in (1, 11, 21)],
    kernels=[
        (100, 150, {"correlation_id": 1}),
        (150, 180, {"correlation_id": 11}),
        (200, 260, {"correlation_id": 21}),
    ],
)


def compute(profile):
    return [row["compute_ns"] for row in breakdown(profile).to_pylist()]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({}, [140], id="all"),
        pytest.param({"from_ns": 160}, [80], id="from"),
        pytest.param({"to_ns": 160}, [60], id="to"),
        pytest.param({"from_ns": 120, "to_ns": 210}, [70], id="window"),
        pytest.param({"range_text": "forward"}, [110], id="range"),
        pytest.param({"range_text": "*ward"}, [140], id="pattern"),
        pytest.param({"range_text": "forward", "occurrence": 1}, [60], id="one-range"),
        pytest.param({"range_text": "*ward", "occurrence": 1}, [30], id="one-like-a-pattern"),
        pytest.param({"range_text": "forward", "to_ns": 210}, [60], id="range-in-window"),
        pytest.param({"device_id": 0}, [140], id="device"),
    ],
)
def test_a_part_has_the_compute_time_of_its_windows(wanted, expected):
    assert compute(part_of(RANGED, RecordingPart(**wanted))) == expected


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        (
            {"range_text": "foward"},
            'drawn.sqlite has no NVTX range "foward"',
            "Did you mean forward?",
        ),
        (
            {"range_text": "x"},
            'drawn.sqlite has no NVTX range "x"',
            "Ranges: forward, backward, idle.",
        ),
        (
            {"range_text": "idle"},
            'drawn.sqlite: NVTX range "idle" launched nothing',
            "On the host it runs from 30ns to 40ns.",
        ),
        (
            {"range_text": "forward", "occurrence": 2},
            'drawn.sqlite has 2 ranges "forward", none of number 2',
            "Name one with --occurrence 0 to 1.",
        ),
        (
            {"range_text": "idle", "occurrence": -1},
            'drawn.sqlite has 1 range "idle", none of number -1',
            "Name one with --occurrence 0 to 0.",
        ),
        ({"device_id": 3}, "no device 3 is in drawn.sqlite", "Devices: 0."),
    ],
)
def test_a_part_that_is_nothing_is_said_to_be(wanted, message, hint):
    with pytest.raises(UsageError) as caught:
        part_of(RANGED, RecordingPart(**wanted))

    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_ranges_that_differ_in_numbers_are_named_once_as_a_part_takes_them():
    texts = ("epoch 1", "seq = 7, id = 1", "epoch 2", "seq = 7, id = 3")
    profile = draw(
        nvtx_ranges=[(10 * n, 10 * n + 9 - n % 2, {"text": t}) for n, t in enumerate(texts)],
        api_calls=[(1, 2, {"correlation_id": 1})],
        kernels=[(3, 4, {"correlation_id": 1})],
    )
    with pytest.raises(UsageError) as caught:
        part_of(profile, RecordingPart(range_text="x"))

    assert caught.value.hint == 'Ranges: epoch *, "seq = *, id = *".'
    assert compute(part_of(profile, RecordingPart(range_text="epoch *"))) == [1]


def test_a_device_that_is_named_and_did_nothing_is_no_mistake():
    profile = draw(kernels=[(0, 1)], devices=[{"device_id": 0}, {"device_id": 1}])

    assert compute(part_of(profile, RecordingPart(device_id=1))) == []


def test_a_device_at_the_far_end_of_a_copy_alone_can_be_chosen():
    copy = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 5}
    profile = draw(memcpys=[(0, 4, copy)])

    (row,) = breakdown(part_of(profile, RecordingPart(device_id=5))).to_pylist()
    assert row["exposed_transfer_ns"] == 4


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"from_ns": 260}, "drawn.sqlite: nothing runs in this part, from 260 ns to the end"),
        ({"to_ns": 0}, "drawn.sqlite: nothing runs in this part, from the start to 0 ns"),
        (
            {"range_text": "forward", "from_ns": 155, "to_ns": 190},
            (
                "drawn.sqlite: nothing runs in this part,"
                ' what ranges "forward" launched, from 155 ns to 190 ns'
            ),
        ),
    ],
)
def test_a_window_in_which_nothing_runs_is_said_to_be_one(wanted, message):
    with pytest.raises(EmptyRecordingError) as caught:
        part_of(RANGED, RecordingPart(**wanted))

    assert caught.value.message == message
    assert caught.value.hint == "Its activities start between 0 ns and 200 ns."


def test_what_takes_no_time_runs_in_the_window_that_it_starts_in():
    profile = draw(kernels=[(0, 5), (10, 10)])

    assert part_of(profile, RecordingPart(from_ns=10)).selection.windows[0][0] == 10


@pytest.mark.parametrize("wanted", [{"device_id": 0}, {"from_ns": 1}])
def test_sums_over_all_devices_and_times_are_not_passed_off_as_those_of_a_part(wanted):
    row = {"activity_kind": "kernel", "name": "matmul", "calls": 2, "total_ns": 7}
    profile = Profile(
        Origin(Path("log.txt"), "drawn", "nvprof"),
        {"activity_summary": ACTIVITY_SUMMARY.table([row])},
    )

    with pytest.raises(MissingTableError, match=r"log\.txt holds sums only"):
        part_of(profile, RecordingPart(**wanted))


def test_a_printed_summary_beside_a_trace_is_no_sum_of_one_device():
    row = {"activity_kind": "kernel", "name": "matmul", "calls": 9, "total_ns": 900}
    both = RANGED.with_table("activity_summary", ACTIVITY_SUMMARY.table([row]))

    assert not part_of(both, RecordingPart(device_id=0)).has("activity_summary")


@pytest.mark.parametrize(
    ("wanted", "note"),
    [
        ({"device_id": 0}, "A part of drawn.sqlite: device 0."),
        (
            {"device_id": 0, "range_text": "forward", "from_ns": 120},
            (
                'A part of drawn.sqlite: device 0, what ranges "forward" launched, from 120 ns to'
                " the end. Sums are of what starts in it; the time of a device is cut at its"
                " borders."
            ),
        ),
    ],
)
def test_a_report_says_of_which_part_it_is(wanted, note):
    assert report(part_of(RANGED, RecordingPart(**wanted)), ["breakdown"]).notes[0] == note


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("aten::mm", [50], id="an-operation"),
        pytest.param("*", [30], id="only-what-people-named-where-that-fits"),
        pytest.param("aten*", [50], id="operations-where-nothing-else-fits"),
    ],
)
def test_a_pattern_means_operations_where_nothing_that_people_named_is_like_it(pattern, expected):
    profile = draw(
        nvtx_ranges=[
            (0, 10, {"text": "aten::mm", "range_kind": "operation"}),
            (10, 20, {"text": "backward", "range_kind": "annotation"}),
        ],
        api_calls=[(at, at + 1, {"correlation_id": at}) for at in (1, 11)],
        kernels=[(100, 150, {"correlation_id": 1}), (150, 180, {"correlation_id": 11})],
    )

    assert compute(part_of(profile, RecordingPart(range_text=pattern))) == expected


def test_a_part_of_files_of_the_folder_one_is_in_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = replace(RANGED, origin=replace(RANGED.origin, source=Path()))

    assert part_of(here, RecordingPart(device_id=0)).origin.warnings == (
        f"A part of {tmp_path.name}: device 0.",
    )


UNKNOWN = 'drawn.sqlite: what NVTX range "forward" launched is not known: no launches were recorded'


@pytest.mark.parametrize(
    ("tables", "message", "hint"),
    [
        ({}, "drawn.sqlite has no nvtx_ranges table (read as drawn)", "Record with"),
        (
            {"nvtx_ranges": [(0, 10, {"text": "forward"}), (10, 20, {"text": "forward"})]},
            UNKNOWN,
            "On the host it runs from 0ns to 10ns first.",
        ),
        (
            {"nvtx_ranges": [(0, 10, {"text": "forward"})], "api_calls": [(2, 3)]},
            UNKNOWN,
            "On the host it runs from 0ns to 10ns.",
        ),
    ],
)
def test_what_is_missing_to_tell_what_a_range_launched_is_named(tables, message, hint):
    with pytest.raises(MissingTableError) as caught:
        part_of(draw(kernels=[(0, 1)], **tables), RecordingPart(range_text="forward"))

    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("step [1]", [50]), ("step [*", [80]), ("step ?1]", None), ("step [12]", None)],
)
def test_nothing_but_an_asterisk_stands_for_anything(pattern, expected):
    profile = draw(
        nvtx_ranges=[(0, 10, {"text": "step [1]"}), (10, 20, {"text": "step [2]\n"})],
        api_calls=[(at, at + 1, {"correlation_id": at}) for at in (1, 11)],
        kernels=[(100, 150, {"correlation_id": 1}), (150, 180, {"correlation_id": 11})],
    )

    if expected is None:
        with pytest.raises(UsageError, match="has no NVTX range"):
            part_of(profile, RecordingPart(range_text=pattern))
    else:
        assert compute(part_of(profile, RecordingPart(range_text=pattern))) == expected
