"""Recordings are compared phase with phase, by the median of their whole steps."""

import json
from csv import DictReader

import numpy as np
import pytest
from drawing import stepped

from gpuprof.base.errors import UsageError
from gpuprof.comparisons import comparison
from gpuprof.comparisons.gate import checks, parse
from gpuprof.show import Page
from gpuprof.show import csv as render_csv
from gpuprof.show import json as render_json

US = 1_000
FEW = 2


def _steps(lengths):
    return stepped(*lengths, idle_ns=5 * US)


def _series(usual_us, count=30, spread_us=1):
    """Lengths around a usual one; of equal spread they differ by what the usual ones differ."""
    apart = np.random.default_rng(7).uniform(-spread_us, spread_us, count)
    return [round((usual_us + offset_us) * US) for offset_us in apart.tolist()]


def _outcome(result, label="b"):
    (row,) = [row for row in result.outcomes.to_pylist() if row["variant"] == label]
    return row


def test_one_very_long_step_is_no_change_of_the_usual_one():
    long = _series(100)
    long[17] *= 40
    result = comparison({"a": _steps(_series(100)), "b": _steps(long)})

    row = _outcome(result)
    assert (row["metric"], row["difference"]) == ("step_ns", 0)
    assert row["certainty_of_steps"] == "within noise"
    assert "b takes the same time per step within noise" in result.verdict


def test_a_change_beyond_the_spread_of_steps_is_sure_within_the_runs():
    result = comparison({"a": _steps(_series(100)), "b": _steps(_series(103))})

    row = _outcome(result)
    assert (row["difference"], row["certainty"]) == (3 * US, "noise unknown")
    assert row["certainty_of_steps"] == "beyond noise"
    assert row["candidate_low_ns"] > row["baseline_high_ns"]
    # What would end the last step is not recorded.
    assert (row["baseline_steps"], row["candidate_steps"]) == (29, 29)
    assert result.verdict.endswith("other runs may differ.")


def test_the_parts_of_a_step_add_up_to_the_difference_of_the_medians():
    long = [*_series(103)]
    long[3] *= 9
    result = comparison({"a": _steps(_series(100)), "b": _steps(long)})

    parts = [row for row in result.split.to_pylist() if row["basis"] == "exposed"]
    assert sum(row["difference_ns"] for row in parts) == _outcome(result)["difference"]


def test_from_fewer_than_three_steps_is_said():
    few = _steps([100 * US] * (FEW + 1))
    result = comparison({"a": _steps(_series(100)), "b": few})

    assert "; with one run of 2 steps, noise cannot be judged" in result.verdict
    assert _outcome(result)["certainty_of_steps"] is None


@pytest.mark.parametrize(("skip", "set_aside"), [(None, True), (0, False), (4, False)])
def test_warm_up_is_set_aside_unless_another_number_is_asked_for(skip, set_aside):
    lengths = [400 * US, 300 * US, *_series(100)]
    recordings = {label: _steps(lengths) for label in "ab"}
    result = comparison(recordings, skip_steps=skip)

    steps = result.variants.column("steps").to_pylist()
    # The last one has no known end.
    assert steps == [len(lengths) - (FEW if set_aside else skip) - 1] * 2
    assert any("Set aside as warm-up: 2 steps of a" in note for note in result.notes) == set_aside


def test_phases_of_one_process_that_differ_in_length_are_compared_apart():
    levels = [*_series(400), *_series(100)]
    slower = [*_series(400), *_series(110)]
    result = comparison({"a": _steps(levels), "b": _steps(slower)})

    assert _outcome(result)["baseline"] == pytest.approx(100 * US, abs=US)
    assert _outcome(result)["difference"] == 10 * US
    (second_phase,) = result.other_phases
    assert _outcome(second_phase)["basis"] == "same"
    in_quotes = second_phase.phase.replace("step #", '"step #"')
    assert f"In {in_quotes}, b takes neither more nor less per step." in result.verdict


def _with_a_reference():
    """Recordings of one phase, the second with far longer steps after it."""
    longer = [*_series(400), *_series(3_100)]
    return {"a": _steps(_series(400)), "b": _steps(longer)}


def test_a_phase_that_only_one_side_has_is_named_with_its_steps():
    result = comparison(_with_a_reference())

    name = "step # (1 device, from 12.0 ms on)"
    (row,) = result.uncompared.to_pylist()
    assert (row["variant"], row["phase"], row["devices"]) == ("b", name, 1)
    assert row["steps"] == 29
    assert row["step_ns"] == pytest.approx(3_100 * US, abs=US)
    quoted = '"step #" (1 device, from 12.0 ms on)'
    assert result.notes[0] == f"Only in b: phase {quoted}, 29 steps, 3.10 ms each."
    assert result.phase == "step # (1 device)"
    assert _outcome(result)["difference"] == pytest.approx(0, abs=US)


def test_spreadsheets_get_a_row_for_a_phase_of_one_side():
    result = comparison(_with_a_reference())

    rows = list(DictReader(render_csv.comparison(result, Page()).splitlines()))

    assert [(row["variant"], row["steps"]) for row in rows] == [
        ("a", "29"),
        ("b", "30"),
        ("b", "29"),
    ]
    assert rows[0]["phase"] == rows[1]["phase"] == "step # (1 device)"
    assert rows[2]["phase"] == "step # (1 device, from 12.0 ms on)"
    assert json.loads(render_json.comparison(result, Page()))["uncompared"][0]["variant"] == "b"


def test_recordings_of_the_same_phases_have_none_that_is_not_compared():
    result = comparison({label: _steps(_series(400)) for label in "ab"})

    assert not result.uncompared.num_rows
    assert result.phase is None


def test_a_gate_is_asked_in_every_phase():
    levels = [*_series(400), *_series(100)]
    slower = [*_series(400), *_series(110)]
    result = comparison({"a": _steps(levels), "b": _steps(slower)})

    of_all = checks(result, [parse("step_ns > 1.05x")])

    assert [check.reason is not None for check in of_all] == [True, False]
    assert result.phase == "step # (1 device, from 12.0 ms on)"
    assert of_all[0].reason.endswith(', in "step #" (1 device, from 12.0 ms on)')


@pytest.mark.parametrize(
    ("lengths", "fails", "is_known"),
    [
        pytest.param(_series(103), True, True, id="beyond"),
        pytest.param(_series(101, spread_us=9), False, True, id="within"),
        pytest.param([103 * US] * 3, True, False, id="too-few-steps"),
    ],
)
def test_a_gate_may_ask_for_differences_beyond_noise(lengths, fails, is_known):
    base = _steps(_series(100, spread_us=1))
    result = comparison({"a": base, "b": _steps(lengths)})

    (check,) = checks(result, [parse("step_ns > 1.001x beyond noise")])

    assert (check.reason is not None, check.is_known) == (fails, is_known)


def test_beyond_noise_of_other_figures_takes_several_runs():
    result = comparison({"a": _steps(_series(100)), "b": _steps(_series(103))})

    (check,) = checks(result, [parse("kernel_ns > 1x beyond noise")])

    assert not check.is_known
    assert "noise is unknown" in check.reason


@pytest.mark.parametrize("text", ["step_ns > 1.05x beyond", "step_ns > 1x beyond noise or so"])
def test_what_follows_a_number_is_a_unit_or_beyond_noise(text):
    with pytest.raises(UsageError):
        parse(text)
