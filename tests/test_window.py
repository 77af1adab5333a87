import pytest
from recordings import copy, kernel, summary, trace

from gpuprof.errors import EmptyRecordingError, MissingTableError, UsageError
from gpuprof.window import Window, cut, window_of_range

RECORDING = trace(
    kernels=[kernel("a", 0, 15), kernel("b", 10, 20), kernel("c", 20, 30)],
    memcpys=[copy("HtoD", 12, 13, bytes=8)],
    nvtx_ranges=[
        {"text": "run", "start_ns": 0, "end_ns": 40},
        {"text": "step", "start_ns": 0, "end_ns": 10},
        {"text": "step", "start_ns": 10, "end_ns": 20},
    ],
    devices=[{"device_id": 0, "name": "V100"}],
    epochs=[{"epoch": 0, "seconds": 1.0}],
)


def names(profile, table="kernels", column="name"):
    return profile.table(table).column(column).to_pylist()


@pytest.mark.parametrize(
    ("window", "kernels", "copies"),
    [
        pytest.param(Window(None, None), ["a", "b", "c"], 1, id="all"),
        # a reaches into the window, but belongs to where it starts; c starts where it ends.
        pytest.param(Window(10, 20), ["b"], 1, id="start-is-in-end-is-not"),
        pytest.param(Window(None, 10), ["a"], 0, id="from-the-start"),
        pytest.param(Window(13, None), ["c"], 0, id="to-the-end"),
    ],
)
def test_what_starts_in_the_window_is_kept_whole(window, kernels, copies):
    part = cut(RECORDING, window)

    assert names(part) == kernels
    assert part.table("memcpys").num_rows == copies


def test_windows_side_by_side_add_up_to_the_recording():
    parts = [cut(RECORDING, Window(*times)) for times in ((None, 10), (10, 20), (20, None))]

    assert [name for part in parts for name in names(part)] == names(RECORDING)


def test_ranges_that_reach_into_the_window_are_kept():
    assert names(cut(RECORDING, Window(10, 20)), "nvtx_ranges", "text") == ["run", "step"]


def test_times_stay_those_of_the_recording():
    assert names(cut(RECORDING, Window(10, 20)), column="start_ns") == [10]


def test_devices_stay_and_what_is_true_of_the_whole_goes():
    part = cut(RECORDING, Window(10, 20))

    assert names(part, "devices") == ["V100"]
    assert not part.has("epochs")


def test_a_part_says_what_it_is_a_part_of():
    warnings = cut(RECORDING, Window(10, 20)).origin.warnings

    assert warnings == ("A part of trace.sqlite: what starts from 10 ns to 20 ns.",)


def test_the_recording_itself_is_left_alone():
    cut(RECORDING, Window(10, 20))

    assert names(RECORDING) == ["a", "b", "c"]
    assert RECORDING.origin.warnings == ()


def test_a_window_without_any_activity_is_refused():
    with pytest.raises(EmptyRecordingError) as caught:
        cut(RECORDING, Window(35, 40))

    assert caught.value.message == "trace.sqlite: nothing starts from 35 ns to 40 ns"
    assert caught.value.hint == "What it holds starts from 0 ns to 20 ns."


def test_sums_cannot_be_cut():
    recording = summary({"activity_kind": "kernel", "name": "k", "calls": 1})

    with pytest.raises(MissingTableError, match="holds sums only, which cannot be cut"):
        cut(recording, Window(0, 1))


@pytest.mark.parametrize("times", [(20, 10), (10, 10)])
def test_a_window_that_ends_before_it_begins_is_refused(times):
    with pytest.raises(UsageError, match=f"the window ends at {times[1]} ns"):
        Window(*times)


@pytest.mark.parametrize(
    ("text", "occurrence", "expected"),
    [("run", None, (0, 40)), ("step", 0, (0, 10)), ("step", 1, (10, 20)), ("run", 0, (0, 40))],
)
def test_a_range_names_a_window(text, occurrence, expected):
    window = window_of_range(RECORDING, text, occurrence)

    assert (window.from_ns, window.to_ns) == expected


@pytest.mark.parametrize(
    ("text", "occurrence", "message", "hint"),
    [
        ("epoch", None, 'trace.sqlite has no range "epoch"', "Ranges: run, step."),
        (
            "step",
            None,
            'trace.sqlite has 2 ranges "step"',
            "Name one with --occurrence 0 to 1.",
        ),
        (
            "step",
            2,
            'trace.sqlite has 2 ranges "step", none of number 2',
            "Name one with --occurrence 0 to 1.",
        ),
    ],
)
def test_a_range_that_is_not_one_is_refused(text, occurrence, message, hint):
    with pytest.raises(UsageError) as caught:
        window_of_range(RECORDING, text, occurrence)

    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_operation_is_meant_where_no_other_range_has_its_text():
    times = {"forward": ((0, 10), (10, 20)), "aten::mm": ((10, 20),)}
    kinds = {"forward": ("annotation", "operation"), "aten::mm": ("operation",)}
    profile = trace(
        kernels=[kernel("a", 0, 15)],
        nvtx_ranges=[
            {"text": text, "range_kind": kind, "start_ns": start, "end_ns": end}
            for text in times
            for kind, (start, end) in zip(kinds[text], times[text], strict=True)
        ],
    )

    assert window_of_range(profile, "forward") == Window(0, 10)
    assert window_of_range(profile, "aten::mm") == Window(10, 20)


def test_ranges_that_were_not_recorded_are_not_just_absent():
    with pytest.raises(MissingTableError, match="has no nvtx_ranges table"):
        window_of_range(trace(kernels=[kernel("a", 0, 1)]), "step")
