import math

import pytest
from drawing import draw
from recordings import DUAL, PUBLISHED_DUAL, SINGLE, copy, kernel, row, summary, trace
from tensorflow_runs import copy as tensor_copy
from tensorflow_runs import document, written

import gpuprof
from gpuprof.base.errors import UsageError
from gpuprof.comparisons import comparison, labelled
from gpuprof.comparisons import result_tables as tables
from gpuprof.comparisons.measure.compared_steps import compared_steps
from gpuprof.comparisons.variant_figures import COMPONENTS


def _compared(**profiles):
    return comparison(profiles)


def _variants(result):
    return {variant["variant"]: variant for variant in result.variants.to_pylist()}


def _differences(result, metric):
    rows = result.differences.to_pylist()
    return {r["variant"]: (r["difference"], r["percent"]) for r in rows if r["metric"] == metric}


def test_a_difference_to_the_unknown_is_no_difference():
    result = _compared(single=summary(*SINGLE), dual=summary(*PUBLISHED_DUAL))

    assert _differences(result, "kernel_ns") == {}


def test_components_add_up_to_all_gpu_activities():
    for figures in _variants(_compared(a=summary(*SINGLE), b=summary(*DUAL))).values():
        assert sum(figures[name] for name in COMPONENTS) == figures["gpu_activity_ns"]


def test_exposed_transfers_are_those_of_the_device_that_waits_longest():
    memcpys = [
        copy("HtoD", 0, 10, device_id=0, dst_device_id=0),
        copy("HtoD", 0, 4, device_id=1, dst_device_id=1),
    ]
    kernels = [kernel("a", 8, 20, device_id=0), kernel("a", 4, 20, device_id=1)]
    profile = trace(kernels=kernels, memcpys=memcpys, memsets=[])

    variants = _variants(_compared(a=profile, b=summary(*DUAL)))

    assert variants["a"]["exposed_transfer_ns"] == 8
    assert variants["b"]["exposed_transfer_ns"] is None


def test_what_kernels_add_is_told_as_a_share_of_all_and_adds_up():
    times = {"a": 10, "b": 20, "c": 30, "d": 40}, {"a": 15, "b": 5, "c": 30, "e": 8}
    base, candidate = (
        summary(*(row(name, 1, ns) for name, ns in kernel_times.items())) for kernel_times in times
    )

    rows = _compared(base=base, other=candidate).kernels.to_pylist()

    figures = ("name", "status", "contribution", "baseline_ns", "candidate_ns")
    assert [tuple(r[name] for name in figures) for r in rows] == [
        ("d", "removed", -0.40, 40, 0),
        ("b", "faster", -0.15, 20, 5),
        ("e", "new", 0.08, 0, 8),
        ("a", "slower", 0.05, 10, 15),
        ("c", "same", 0.0, 30, 30),
    ]
    assert sum(r["difference_ns"] for r in rows) == 58 - 100


def test_a_row_that_an_excerpt_lacks_may_have_been_there():
    result = _compared(base=summary(*SINGLE), excerpt=summary(*PUBLISHED_DUAL))

    (kernel_row,) = result.kernels.to_pylist()
    assert (kernel_row["name"], kernel_row["status"], kernel_row["candidate_ns"]) == (
        "conv",
        "unlisted",
        None,
    )
    assert kernel_row["difference_ns"] is None


def test_epochs_are_averaged_over_all_that_were_marked():
    marked = [{"epoch": 0, "seconds": 3.0, "steps": 16}, {"epoch": 1, "seconds": 2.0, "steps": 16}]
    result = _compared(base=summary(*SINGLE), run=summary(*DUAL, epochs=marked))

    variant = _variants(result)["run"]
    assert (variant["seconds_per_epoch"], variant["epochs"], variant["steps"]) == (2.5, 2, 32)


def test_given_epoch_seconds_take_the_place_of_marked_ones():
    marked = [{"epoch": 0, "seconds": 3.0}]
    profiles = {"a": summary(*SINGLE, epochs=marked), "b": summary(*DUAL)}

    result = comparison(profiles, epoch_seconds={"a": 20.455, "b": 22.5})

    assert _variants(result)["a"]["seconds_per_epoch"] == 20.455
    assert _differences(result, "seconds_per_epoch")["b"][1] == pytest.approx(9.9975, abs=1e-3)


def test_copies_per_step_of_a_tensorflow_run(tmp_path):
    copies = [
        tensor_copy("item/a", 2000, is_gradient=True),
        tensor_copy("item/b", 500, calls=20),
    ]
    run = gpuprof.read_profile(written(tmp_path, document(*copies)))

    variant = _variants(_compared(a=run, b=summary(*DUAL)))["a"]

    assert variant["peer_transfer_calls"] == 30
    assert variant["peer_transfer_ns"] is None
    assert variant["peer_transfer_bytes"] == 30_000
    assert variant["peer_transfer_calls_per_step"] == 3
    assert variant["peer_transfer_bytes_per_step"] == 3000
    assert (variant["gradient_bytes_per_step"], variant["forward_bytes_per_step"]) == (2000, 1000)
    assert (variant["largest_scope"], variant["largest_scope_is_gradient"]) == ("item", True)


def test_a_tensorflow_run_without_copies_made_none(tmp_path):
    run = gpuprof.read_profile(written(tmp_path, document()))

    variant = _variants(_compared(a=run, b=summary(*DUAL)))["a"]

    assert (variant["peer_transfer_calls"], variant["peer_transfer_ns"]) == (0, 0)
    assert variant["peer_transfer_calls_per_step"] == 0
    assert variant["kernel_ns"] is None


@pytest.mark.parametrize(
    ("sources", "variants", "labels"),
    [
        (["runs/one.txt", "two.txt"], [None, "dual"], ["one", "dual"]),
        (["single/run.txt", "dual/run.txt"], [None, None], ["single/run", "dual/run"]),
        (["summary.txt", "summary.txt"], [None, None], ["summary", "summary (2)"]),
    ],
    ids=["the variant or the file's name", "folders of equal names", "numbers of equal paths"],
)
def test_labels_tell_recordings_apart(sources, variants, labels):
    profiles = [summary(source=s, variant=v) for s, v in zip(sources, variants, strict=True)]

    assert list(labelled(profiles)) == labels


def test_a_label_that_is_a_file_s_name_is_told_apart():
    first, *repeats = (summary(source=f"{name}.txt") for name in "abc")

    assert list(labelled([first, *(("a", repeat) for repeat in repeats)])) == ["a (2)", "a"]


def test_recordings_of_one_label_are_runs_of_one_variant():
    first, second = summary(source="one.txt"), summary(source="two.txt")

    candidate = summary(source="b.txt")

    assert labelled([("a", first), candidate, ("a", second)]) == {
        "a": (first, second),
        "b": (candidate,),
    }


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_seconds_that_are_no_time_are_refused(seconds):
    with pytest.raises(UsageError, match="must be above 0"):
        comparison({"a": summary(), "b": summary()}, epoch_seconds={"a": seconds})


def test_notes_name_the_recording_unless_all_share_them():
    result = _compared(whole=summary(*SINGLE), part=summary(*PUBLISHED_DUAL))

    assert result.notes[1].startswith("part: Excerpt: rows listed 10.1 s")
    assert result.notes[-1].startswith("No recording marks its steps")


def test_the_public_function_of_recordings_without_a_common_figure():
    result = gpuprof.compare([("a", trace(api_calls=[])), ("b", summary(*PUBLISHED_DUAL))])

    assert list(result.variants.index) == ["a", "b"]


def test_steps_of_the_start_are_left_out_where_asked():
    marks = [(start, end, {"text": "step"}) for start, end in ((0, 90), (90, 100), (100, 110))]
    calls = [(start, start + 1, {"correlation_id": start}) for start in (0, 90, 100)]
    kernels = [(start + 1, start + 5, {"correlation_id": start}) for start in (0, 90, 100)]
    recording = draw(nvtx_ranges=marks, api_calls=calls, kernels=kernels)

    [all_steps], [warm] = (
        compared_steps({"a": [recording]}, "step", skip)[0][0]["a"] for skip in (0, 1)
    )

    assert (all_steps.steps, warm.steps) == (3, 2)
    assert warm.profile.table("kernels")["start_ns"].to_pylist() == [91, 101]


def test_the_fields_of_an_outcome_are_the_columns_of_its_table():
    assert tables.Outcome._fields == tuple(tables.OUTCOMES.columns)
