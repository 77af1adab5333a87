from drawing import draw
from pictures import figure

from gpuprof.show.charts import utilisation


def test_a_panel_per_device_shows_kernels_and_what_waits_for_transfers():
    profile = draw(
        kernels=[(0, 1_000), (1_000, 1_500, {"device_id": 1})],
        memcpys=[(1_000, 2_000)],
    )

    shown = figure(utilisation.CHART, profile)

    first, second = shown.axes
    kernels, waits = (patch.get_data() for patch in first.patches)
    assert list(kernels.values) == [100] * 10 + [0] * 10
    assert list(waits.values) == [100] * 20
    assert list(waits.baseline) == list(kernels.values)
    assert list(second.patches[0].get_data().values) == [0] * 10 + [100] * 5 + [0] * 5
    assert [axes.get_ylabel() for axes in shown.axes] == ["device 0\n[%]", "device 1\n[%]"]
    assert second.get_xlabel() == "time since the recording's origin [µs]"
    assert shown.get_suptitle() == "Device 0 waits 50.0 % of the time for transfers"


def test_one_device_is_named_once():
    shown = figure(utilisation.CHART, draw(kernels=[(0, 500), (750, 1_000)]))

    assert shown.get_suptitle() == "Device 0 runs kernels 75.0 % of the time"


def test_devices_that_are_as_busy_are_said_together():
    shown = figure(
        utilisation.CHART, draw(kernels=[(0, 1_000), *[(0, 1_000, {"device_id": 1})]], memcpys=[])
    )

    assert shown.get_suptitle() == "Each of 2 devices runs kernels 100 % of the time"
