import pytest
from drawing import draw
from pictures import figure

from gpuprof.show.charts import timeline, utilisation
from gpuprof.show.charts.figure import choose_devices


def _devices(count):
    """Device n is busy for n + 1 of every 100 ns."""
    times = [
        (start, start + device + 1, {"device_id": device})
        for device in range(count)
        for start in (0, 100)
    ]
    return draw(kernels=times)


def test_up_to_sixteen_devices_are_all_shown():
    assert choose_devices(dict.fromkeys(range(16), 0.5)) == (frozenset(range(16)), "")


def test_of_more_the_busiest_and_the_least_busy_are_shown():
    devices, words = choose_devices({device: device % 100 for device in range(1, 99)} | {None: 0})

    assert devices == frozenset((None, *range(1, 8), *range(91, 99)))
    assert words == "the 8 busiest and the 8 least busy of 99 devices"


@pytest.mark.parametrize("chart", [timeline.CHART, utilisation.CHART], ids=lambda c: c.name)
def test_a_chart_of_many_devices_says_which_it_shows(chart):
    few, many = (figure(chart, _devices(count)) for count in (16, 40))

    assert many.get_figheight() == few.get_figheight()
    assert many.axes[-1].get_xlabel().endswith("\nthe 8 busiest and the 8 least busy of 40 devices")
    assert "busiest" not in few.axes[-1].get_xlabel()
