"""Samples of GPU metrics over time, as cells."""

import pytest
from drawing import draw
from pictures import figure

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts import gpu_metrics
from gpuprof.show.charts.catalogue import of_recording, picture_of
from gpuprof.show.page.recording_page import recording_page

USED = {"SMs Active": 50, "PCIe RX Throughput": 80, "PCIe TX Throughput": 0}


def recording(used=USED, devices=1):
    """A kernel of 1,200 ns on each device, whose second half is sampled."""
    return draw(
        kernels=[(0, 1_200, {"device_id": device}) for device in range(devices)],
        gpu_metrics=[
            {"start_ns": start, "device_id": device, "value": value}
            | {"metric": f"{metric} [Throughput %]"}
            for device in range(devices)
            for metric, value in used.items()
            for start in (600, 900)
        ],
    )


def test_a_row_per_metric_that_is_used_and_no_cell_where_nothing_was_sampled():
    shown = picture_of(gpu_metrics.CHART, of_recording(recording(), gpu_metrics.CHART))

    (panel,) = shown.panels
    assert shown.finding == "PCIe RX Throughput of device 0 is at 80.0 % of its peak"
    assert panel.rows == ["PCIe RX Throughput", "SMs Active"]
    assert panel.values == [[None] * 60 + [share] * 60 for share in (0.8, 0.5)]
    assert panel.times == (0, 1_200)
    assert panel.words == ["PCIe RX Throughput: 80.0 %", "SMs Active: 50.0 %"]


def test_each_device_has_a_panel_and_the_last_one_the_axis():
    shown = figure(gpu_metrics.CHART, recording(devices=2))

    panels = [axes for axes in shown.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["device 0", "device 1"]
    assert [axes.get_xlabel() for axes in panels] == ["", "time since the recording's origin [µs]"]


def test_devices_have_the_same_rows_also_where_one_was_not_sampled():
    profile = recording({"SMs Active": 50}, devices=2)
    more = {"start_ns": 600, "device_id": 1, "metric": "SM Issue [Throughput %]", "value": 9}
    samples = [*profile.table("gpu_metrics").to_pylist(), more, more | {"start_ns": 900}]
    profile = draw(
        kernels=[(0, 1_200, {"device_id": device}) for device in range(2)], gpu_metrics=samples
    )

    first, second = picture_of(gpu_metrics.CHART, of_recording(profile, gpu_metrics.CHART)).panels

    assert first.rows == second.rows == ["SM Issue", "SMs Active"]
    assert first.values[0] == [None] * 120
    assert first.words == ["SM Issue was not sampled", "SMs Active: 50.0 %"]
    assert second.words == ["SM Issue: 9.0 %", "SMs Active: 50.0 %"]
    assert "100 % of the peak" in recording_page(profile)


def test_a_page_has_it_below_the_timeline_and_only_where_something_is_used():
    page = recording_page(recording())
    assert page.index('id="timeline"') < page.index('id="gpu-metrics"')
    for unsampled in (recording(used={}), recording(used={"SMs Active": 0})):
        assert 'id="gpu-metrics"' not in recording_page(unsampled)


def test_without_anything_used_there_is_no_chart():
    with pytest.raises(EmptyRecordingError, match="gpu_metrics cannot be drawn"):
        figure(gpu_metrics.CHART, recording(used={"SMs Active": 0}))
