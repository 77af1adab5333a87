"""`gpuprof.plot` draws what the command draws, from any form of its inputs."""

import pytest
from commands import DUAL, ROOT, SINGLE

import gpuprof
from gpuprof.base.errors import InputError, UsageError

DIRECT, STAGED = (
    ROOT / "gpuprof" / "docs" / "recordings" / f"{name}.gpuprof" for name in ("direct", "staged")
)


def _title(figure):
    return figure.get_suptitle().replace("\n", " ")


def test_a_chart_of_a_recording_takes_a_path_or_a_report_and_a_part():
    by_path = gpuprof.plot("matrix", STAGED)
    by_report = gpuprof.plot("matrix", gpuprof.report(STAGED))
    part = gpuprof.plot("matrix", STAGED, from_="0s", to="20ms")

    assert _title(by_path) == _title(by_report) != _title(part)


def test_a_chart_of_a_comparison_takes_recordings_or_their_comparison():
    result = gpuprof.compare(DIRECT, STAGED)

    assert _title(gpuprof.plot("waterfall", {"direct": DIRECT, "staged": STAGED})) == _title(
        gpuprof.plot("waterfall", result)
    )
    turned = gpuprof.plot("waterfall", DIRECT, STAGED, baseline="staged")
    assert _title(turned).startswith("direct takes")


def test_a_chart_of_a_sweep_takes_a_table_of_times(tmp_path):
    times = tmp_path / "times.csv"
    times.write_text("label,batch_size,seconds\na,1,2\na,2,2\nb,1,4\nb,2,1\n")

    assert "faster than a from about batch size 1" in _title(gpuprof.plot("batch", times))


@pytest.mark.parametrize(
    ("chart", "recordings", "options", "message"),
    [
        ("matrx", [SINGLE], {}, "there is no chart matrx"),
        ("matrix", [], {}, "chart matrix shows a recording, and none is given"),
        ("waterfall", [SINGLE, DUAL], {"device": 1}, "chart waterfall does not take device"),
        ("batch", ["times.csv"], {"range": "x"}, "chart batch does not take range"),
        ("batch", ["a.csv", "b.csv"], {}, "chart batch takes one table of measured times, not 2"),
        ("matrix", [STAGED], {"baseline": "x"}, "chart matrix does not take baseline"),
    ],
    ids=["name", "nothing", "of-recordings", "of-sweeps", "two-tables", "of-comparisons"],
)
def test_what_does_not_fit_a_chart_is_refused(chart, recordings, options, message):
    with pytest.raises(UsageError) as caught:
        gpuprof.plot(chart, *recordings, **options)

    assert caught.value.message == message


def test_what_cannot_be_read_is_an_error():
    with pytest.raises(InputError, match="no such file"):
        gpuprof.plot("matrix", "nowhere.sqlite")
    with pytest.raises(TypeError, match=r"^a path is text or a path object, not int$"):
        gpuprof.plot("batch", 7)
