from dataclasses import replace

import pytest
from drawing import draw
from drawn_jobs import job
from pictures import figure

from gpuprof.analyses.steps import STEPS
from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts import steps
from gpuprof.show.charts.catalogue import of_recording, picture_of
from gpuprof.show.charts.figure import Results, figure_of


def _rows(profile):
    return picture_of(steps.CHART, of_recording(profile, steps.CHART)).rows.to_pylist()


def test_a_bar_is_a_step_and_its_parts_add_up():
    rows = _rows(job([300], steps=5))

    assert [row["step"] for row in rows] == list(range(5))
    assert rows[1]["span_ns"] == 1_000
    assert (rows[1]["compute_ns"], rows[1]["exposed_communication_ns"]) == (300, 250)
    assert rows[1]["idle_ns"] == 450
    assert all(row["span_ns"] == sum(row[part] for part in steps.PARTS) for row in rows)


def test_bars_stand_on_one_another():
    axes = figure(steps.CHART, job([300], steps=5)).axes[0]

    by_part = {bars.get_label(): bars for bars in axes.containers if bars.get_label()[:1] != "_"}
    assert list(by_part)[:3] == ["compute", "exposed communication", "idle"]
    assert by_part["exposed communication"][1].get_y() == pytest.approx(0.3)
    assert by_part["idle"][1].get_y() + by_part["idle"][1].get_height() == pytest.approx(1)


def test_the_device_that_computes_most_is_shown():
    rows = _rows(job([300, 400, 200]))

    assert {row["device_id"] for row in rows} == {1}


def test_steps_that_are_set_aside_are_pale():
    profile = replace(job([300], steps=8), skip_steps=3)

    rows = _rows(profile)
    assert [row["status"] for row in rows][:4] == ["warm_up"] * 3 + ["sample"]
    axes = figure(steps.CHART, profile).axes[0]
    pale = {bar.get_x() + bar.get_width() / 2 for bar in axes.patches if bar.get_alpha() == 0.4}
    assert {0, 1, 2} <= {round(place) for place in pale}
    assert 4 not in {round(place) for place in pale}


def test_many_steps_are_means_of_some():
    profile = job([300], steps=900)
    rows = _rows(profile)

    assert len(rows) <= 200
    assert (rows[0]["step"], rows[0]["last_step"]) == (0, 4)
    assert rows[1]["span_ns"] == pytest.approx(1_000)
    (columns,) = picture_of(steps.CHART, of_recording(profile, steps.CHART)).panels
    assert columns.names[0] == "steps 0 to 4 (mean), step #, counted"


def test_the_title_says_what_a_step_takes_and_the_longest():
    title = figure(steps.CHART, job([300], steps=5)).get_suptitle()

    assert title == "A step takes 1.00 µs"


def test_phases_are_parted_and_named():
    rows = of_recording(job([300], steps=20), steps.CHART).table("steps").to_pylist()
    rows = [row | {"phase": "train" if row["step"] < 15 else "validate"} for row in rows]

    shown = picture_of(steps.CHART, Results({"steps": STEPS.table(rows)}))

    axes = figure_of(shown).axes[0]
    assert {text.get_text() for text in axes.texts} == {"train", "validate"}
    assert [line.get_xdata()[0] for line in axes.lines if line.get_label() == "median"] == [
        -0.5,
        14.5,
    ]
    assert shown.finding == 'A step of "train" takes 1.00 µs'
    assert axes.get_xlabel() == "step on device 0; dashed: median of 15 steps"


def test_phases_of_one_name_have_numbers_and_medians_of_their_own():
    rows = of_recording(job([300], steps=20), steps.CHART).table("steps").to_pylist()
    rows = [row | {"phase": "step", "phase_number": 1 + (row["step"] >= 15)} for row in rows]
    rows = [row | {"span_ns": row["span_ns"] // row["phase_number"]} for row in rows]

    shown = picture_of(steps.CHART, Results({"steps": STEPS.table(rows)}))

    axes = figure_of(shown).axes[0]
    assert {text.get_text() for text in axes.texts} == {"step (1)", "step (2)"}
    medians = [line.get_ydata()[0] for line in axes.lines if line.get_label() == "median"]
    assert medians == pytest.approx([1.0, 0.5])
    assert shown.finding == 'A step of "step (1)" takes 1.00 µs'


def test_a_recording_without_steps_has_no_chart():
    with pytest.raises(EmptyRecordingError, match="steps cannot be drawn"):
        figure(steps.CHART, draw(kernels=[(0, 5, {"name": "a"}), (7, 9, {"name": "b"})]))


def test_the_longest_of_very_many_steps_is_named_and_marked_and_not_averaged_away():
    rows = of_recording(job([300], steps=1_000), steps.CHART).table("steps").to_pylist()
    rows = [row | {"span_ns": row["span_ns"] * (9 if row["step"] == 778 else 1)} for row in rows]

    shown = picture_of(steps.CHART, Results({"steps": STEPS.table(rows)}))

    (columns,) = shown.panels
    assert shown.finding == "A step takes 1.00 µs, the longest 9.00 µs"
    place, height, text = columns.mark
    assert (columns.names[place].partition(",")[0], height, text) == (
        "steps 775 to 779 (mean)", 9_000, "step 778",
    )  # fmt: skip
    assert columns.ranges[place] == (1_000, 9_000)
    assert columns.levels[0][2] == 1_000


def test_very_many_steps_have_ticks_at_round_numbers():
    rows = of_recording(job([300], steps=1_100), steps.CHART).table("steps").to_pylist()

    axes = figure_of(picture_of(steps.CHART, Results({"steps": STEPS.table(rows)}))).axes[0]

    ticks = [int(label.get_text()) for label in axes.get_xticklabels()]
    assert len(ticks) > 5
    assert not [tick for tick in ticks if tick % 100]
