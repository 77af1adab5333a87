"""What is run, and what it imports."""

import sys
from pathlib import Path

import pytest

from gpuprof.launch.run.program import environment_of, executable, imports, module, script


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, text=""):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def test_script_is_run_by_the_interpreter_that_runs_gpuprof():
    program = script(write("train.py"), ("--epochs", "5"))

    assert program.arguments == (sys.executable, "train.py", "--epochs", "5")
    assert program.source == Path("train.py")


def test_folder_with_a_main_is_a_script():
    write("project/__main__.py")

    assert script("project").arguments == (sys.executable, "project")
    assert script("project").source == Path("project/__main__.py")


def test_module_is_found_without_importing_what_is_above_it():
    write("package/__init__.py", "raise RuntimeError('imported')")
    write("package/train.py")
    program = module("package.train", ("-v",))

    assert program.arguments == (sys.executable, "-m", "package.train", "-v")
    assert program.source.name == "train.py"


def test_module_of_the_standard_library_is_there():
    assert module("timeit").arguments[1:] == ("-m", "timeit")
    assert module("zipimport").arguments[1:] == ("-m", "zipimport")


def test_executable_names_the_python_file_that_it_runs():
    write("train.py")
    program = executable("python3", ("-u", "train.py"))

    assert program.arguments[1:] == ("-u", "train.py")
    assert Path(program.arguments[0]).is_absolute()
    assert program.source == Path("train.py")


def test_imports_of_modules_beside_the_script_are_followed():
    write("train.py", "import models.tower as t\nfrom data import loader\nimport os.path")
    write("models/tower.py", "def f():\n    import tensorflow as tf")
    write("models/__init__.py")
    write("data/__init__.py")
    write("data/loader.py", "from keras.layers import Dense\nimport train")

    assert imports(script("train.py")) >= {"models", "data", "os", "tensorflow", "keras"}


def test_file_that_is_no_python_imports_nothing():
    write("train.py", "this is \x00 no python")

    assert imports(script("train.py")) == frozenset()


def test_users_own_choice_of_buffering_is_kept(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert environment_of({"A": "b"})["PYTHONUNBUFFERED"] == "1"
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    assert environment_of({})["PYTHONUNBUFFERED"] == ""
