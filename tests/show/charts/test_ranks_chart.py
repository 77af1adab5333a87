import numpy as np
import pytest
from drawn_jobs import STEP_NS, job
from pictures import figure

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.model.data_model import KERNELS
from gpuprof.show.charts import ranks


def test_a_row_per_device_and_a_column_per_step_show_who_works_longer():
    rank_of = [{"device_id": device, "rank": device + 8} for device in range(4)]

    shown = figure(ranks.IN_STEPS, job([300, 300, 400, 300], devices=rank_of))

    axes = shown.axes[0]
    cells = axes.images[0].get_array()
    assert cells.shape[0] == 4
    assert cells.shape[1] >= 6
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"rank {device + 8}, device {device}" for device in range(4)
    ]
    assert cells[2].tolist() == pytest.approx([100 * (850 / 750 - 1)] * cells.shape[1], abs=2)
    assert cells[0].tolist() == [0] * cells.shape[1]
    assert shown.get_suptitle() == "Rank 10, device 2 works 13.3 % longer than the median device"
    assert axes.get_xlabel() == (
        "step; rank 10, device 2 is the slowest in 100 % of them, mostly in compute"
    )


def test_a_device_whose_recording_ends_early_leaves_the_others_their_columns():
    whole = job([300, 300, 400, 300])
    rows = whole.table("kernels").to_pylist()
    kept = [row for row in rows if row["device_id"] or row["start_ns"] < 4 * STEP_NS]

    shown, early = (
        figure(ranks.IN_STEPS, profile).axes[0].images[0].get_array()
        for profile in (whole, whole.with_table("kernels", KERNELS.table(kept)))
    )

    assert early[1:].tolist() == shown[1:].tolist()
    assert np.ma.count_masked(early[0]) == 3


def test_devices_that_work_as_long_are_said_together():
    shown = figure(ranks.IN_STEPS, job([300, 300]))

    assert shown.get_suptitle() == "Both devices work alike: 750 ns of a step"


def test_the_scale_has_its_whole_label_beside_two_devices():
    shown = figure(ranks.IN_STEPS, job([300, 300]))
    shown.draw_without_rendering()

    label = shown.axes[1].yaxis.label.get_window_extent()
    assert shown.bbox.y0 <= label.y0
    assert label.y1 <= shown.bbox.y1
    assert label.x1 <= shown.bbox.x1


def test_a_single_device_has_no_chart():
    with pytest.raises(EmptyRecordingError, match="ranks cannot be drawn"):
        figure(ranks.IN_STEPS, job([300]))
