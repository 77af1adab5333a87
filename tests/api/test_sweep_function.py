"""`gpuprof.sweep` runs a grid and returns its results, which comparisons and charts take."""

from pathlib import Path

import pytest
from commands import ROOT

import gpuprof
from gpuprof.base.errors import StoppedError, UsageError
from gpuprof.sweeps import execution

PROGRAM = """
import sys, time, gpuprof
with gpuprof.epoch():
    time.sleep(0.02)
print("loss", sys.argv[1])
"""


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("train.py").write_text(PROGRAM)


def test_a_grid_becomes_tables_charts_and_a_comparison():
    result = gpuprof.sweep(
        *("train.py", "{batch}", "{is_dual}", "--token", "planted-7f3a"),
        grid={"batch": [1, 2], "is_dual": [False, True]},
        baseline={"is_dual": False},
        figures={"loss": r"loss (\S+)"},
        recorder="none",
        out="swept",
    )

    cells = result["cells"]
    assert list(cells["batch"]) == [1, 1, 2, 2]
    assert list(cells["is_dual"]) == ["false", "true", "false", "true"]
    assert list(cells["loss"]) == [1, 1, 2, 2]
    assert list(result["break_evens"]["axis"]) == ["batch"]
    assert result.headline.startswith("4 of 4 cells ran.")
    assert result.folder == Path("swept")
    assert {path.name for path in Path("swept").glob("*.*")} >= {"results.csv", "scaling.svg"}
    assert "Fastest is" in result.plot().get_suptitle()
    assert "Along batch" in result.plot("break-even").get_suptitle()
    assert len(gpuprof.compare(result).variants) == 4
    assert "is_dual=false" in gpuprof.plot("batch", result).get_suptitle()
    assert "Cells" in result._repr_html_()
    assert "Sweep in swept" in repr(result)
    assert "4 of 4 cells ran" in result.to_html()
    assert "--token ***" in result.to_html()
    assert "planted-7f3a" not in result.to_html()


def test_the_same_call_continues_and_repeats_nothing(capfd):
    words, options = ("train.py", "{a}"), {"recorder": "none", "out": "swept"}
    gpuprof.sweep(*words, grid={"a": [1]}, **options)
    capfd.readouterr()

    result = gpuprof.sweep(*words, grid={"a": [1, 2]}, **options)

    assert "1 of 2 runs are already complete" in capfd.readouterr().err
    assert len(result["cells"]) == 2


def test_a_file_is_a_sweep_too():
    Path("sweep.toml").write_text(
        'command = ["train.py", "{a}"]\nrecorder = "none"\n[grid]\na = [1]\n'
    )

    result = gpuprof.sweep("sweep.toml", repeat=2)

    assert result.folder == Path("gpuprof-sweeps/sweep")
    assert len(result["runs"]) == 2
    assert "break_evens" not in result.tables
    with pytest.raises(UsageError, match=r"^break-even cannot be drawn: it needs a baseline"):
        result.plot("break-even")


def test_ctrl_c_is_an_error_of_both_kinds(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "_run", stop)

    with pytest.raises(StoppedError, match=r"^Ctrl-C stopped the sweep in swept") as caught:
        gpuprof.sweep("train.py", "{a}", grid={"a": [1]}, recorder="none", out="swept")
    assert caught.value.hint == "The same call continues it."
    assert isinstance(caught.value, KeyboardInterrupt)


@pytest.mark.parametrize(
    ("words", "options", "error", "message"),
    [
        ((), {}, UsageError, "sweep needs a script"),
        (("train.py",), {}, UsageError, "the sweep has no grid"),
        (("a.toml",), {"grid": {"a": [1]}}, UsageError, "grid cannot be combined with a.toml"),
        (("train.py", "{a}"), {"grid": {"a": "12"}}, TypeError, "the values of the axis a must be"),
        (("train.py", "{a}"), {"grid": {"a": [1], "b": [1]}}, UsageError, "the command has no {b}"),
        (("train.py", "{a}"), {"grid": {"a": [1]}, "recorder": "x"}, UsageError, "there is no rec"),
    ],
    ids=["nothing", "grid", "file", "text", "axis", "recorder"],
)
def test_arguments_that_do_not_fit_are_refused(words, options, error, message):
    with pytest.raises(error) as caught:
        gpuprof.sweep(*words, **options)

    assert str(caught.value).startswith(message)
