"""JSON that is nested deeper than any profiler nests it ends in one error, wherever it is read."""

import json
import zipfile
from dataclasses import replace

import pytest
import test_kineto
import test_run_folder
import test_tf1_timeline
from tensorflow_runs import document

from gpuprof.base.errors import GpuprofError, InputError
from gpuprof.base.manifest import MANIFEST, MARKS, MONITOR, finish_manifest
from gpuprof.launch.recorders import in_process, tensorflow_digest
from gpuprof.launch.run import marks
from gpuprof.readers import find_reader, read_profile
from gpuprof.readers.gpuprof.cupti_run import PROCESS
from gpuprof.readers.gpuprof.gpuprof_file import HEADER
from gpuprof.readers.gpuprof.packed_run import INDEX, unpack
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.sweep_file import read_sweep_file
from gpuprof.sweeps.sweep_folder import PLAN, open_sweep

# Beyond what Python's stack takes, and beyond what gpuprof reads although the stack takes it.
NESTS = {"far-too-deep": "[" * 100_000 + "]" * 100_000, "too-deep": "[" * 300 + "]" * 300}
deep = pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
SLOT = "@nested@"


def filled(text, nest):
    assert f'"{SLOT}"' in text
    return text.replace(f'"{SLOT}"', nest)


def kineto(**places):
    event = test_kineto.event("kernel", "k", 10, 5, **test_kineto.WHERE)
    return json.dumps(
        {"schemaVersion": 1, "traceEvents": [event | places.pop("event", {})]} | places
    )


def timeline(folder):
    path = test_tf1_timeline.written(folder, test_tf1_timeline.event(1, SLOT, 100, 5))
    return path.read_text(encoding="utf-8")


FORMATS = {f"kineto-{part}": "kineto" for part in ("unknown-field", "list", "device")}
STATS = [{"Time (%)": 60.0, "Total Time (ns)": 6000, "Instances": SLOT, "Name": "k"}]
FILES = {
    "kineto": lambda _: kineto(event={"args": SLOT}),
    "kineto-unknown-field": lambda _: kineto(event={"more": SLOT}),
    "kineto-list": lambda _: json.dumps([SLOT, *json.loads(kineto())["traceEvents"]]),
    "kineto-device": lambda _: kineto(deviceProperties=[{"id": SLOT}]),
    "tf1-timeline": timeline,
    "tensorflow-run": lambda _: json.dumps(document(notes=SLOT)),
    "nsys-stats": lambda _: json.dumps(STATS),
}


@pytest.mark.parametrize("name", FILES)
def test_a_nested_recording_is_refused_in_one_line(tmp_path, name):
    path = tmp_path / "nested.json"
    path.write_text(filled(FILES[name](tmp_path), NESTS["far-too-deep"]), encoding="utf-8")

    with pytest.raises(GpuprofError) as caught:
        read_profile(path, FORMATS.get(name, name))

    assert caught.value.message.startswith(str(path))
    assert "nested deeper than 200 levels" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", ["tensorflow-run", "nsys-stats"])
def test_what_is_made_into_objects_is_refused_before_the_stack_ends(tmp_path, name):
    path = tmp_path / "nested.json"
    path.write_text(filled(FILES[name](tmp_path), NESTS["too-deep"]), encoding="utf-8")

    with pytest.raises(GpuprofError, match="nested deeper than 200 levels"):
        read_profile(path, name)


@pytest.mark.parametrize("name", ["kineto", "kineto-unknown-field", "kineto-device"])
def test_what_is_not_needed_of_a_trace_refuses_nothing_below_that(tmp_path, name):
    path = tmp_path / "nested.json"
    path.write_text(filled(FILES[name](tmp_path), NESTS["too-deep"]), encoding="utf-8")

    assert read_profile(path, "kineto").table("kernels").num_rows == 1


@deep
def test_a_nested_manifest_is_refused(tmp_path, nest):
    finish_manifest(tmp_path, replace(test_run_folder.RUN, git={"commit": SLOT}))
    path = tmp_path / MANIFEST
    path.write_text(filled(path.read_text(encoding="utf-8"), nest), encoding="utf-8")

    with pytest.raises(GpuprofError, match="is not the manifest of a run"):
        read_profile(tmp_path)


@deep
def test_a_nested_header_of_a_file_of_gpuprof_is_refused(tmp_path, nest):
    path = tmp_path / "nested.gpuprof"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, f'{{"gpuprof_file": 1, "origin": {nest}}}')

    with pytest.raises(GpuprofError, match=f"{HEADER} in it is missing or broken"):
        read_profile(path, "gpuprof")


@deep
def test_a_nested_process_of_cuptis_recorder_is_refused(tmp_path, nest):
    text = f'{{"format": "gpuprof-cupti", "format_version": 1, "columns": {nest}}}'
    (tmp_path / PROCESS).write_text(text, encoding="utf-8")
    assert find_reader(tmp_path).name == "cupti"

    with pytest.raises(GpuprofError, match="missing or damaged"):
        read_profile(tmp_path)


@deep
def test_a_nested_index_of_a_packed_run_is_refused(tmp_path, nest):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(INDEX, f'{{"gpuprof_pack": 1, "members": {nest}}}')

    with pytest.raises(GpuprofError, match=f"{INDEX} in it is missing or broken"):
        unpack(path, tmp_path / "out")


@deep
def test_a_nested_plan_of_a_sweep_is_refused(tmp_path, nest):
    plan = Plan(command=("a", "{b}"), axes={"b": ("1",)})
    open_sweep(tmp_path, plan)
    (tmp_path / PLAN).write_text(f'{{"plan": {nest}}}', encoding="utf-8")

    with pytest.raises(GpuprofError, match="cannot be read as the plan of a sweep"):
        open_sweep(tmp_path, plan)


def test_a_nested_sweep_file_is_refused(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(f"command = {'[' * 100_000}", encoding="utf-8")

    with pytest.raises(InputError, match="nested too deep"):
        read_sweep_file(path)


@deep
def test_a_nested_sample_of_the_monitor_is_left_out(tmp_path, nest):
    (tmp_path / "log.txt").write_text(test_run_folder.LOG, encoding="utf-8")
    finish_manifest(tmp_path, test_run_folder.RUN)
    good = '{"unix_ns": 5, "device_id": 0}'
    (tmp_path / MONITOR).write_text(f'{good}\n{{"unix_ns": {nest}}}\n{good}\n', encoding="utf-8")

    assert read_profile(tmp_path).table("monitor").num_rows == 2


@deep
def test_nested_lines_that_a_program_left_are_left_out(tmp_path, nest):
    good = '{"epoch": 0, "seconds": 1.5, "steps": null}'
    (tmp_path / MARKS).write_text(f"{nest}\n{good}\n", encoding="utf-8")
    (tmp_path / "told.json").write_text(nest, encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text(f'{{"note": "first"}}\n{nest}\n', encoding="utf-8")

    epochs, *_ = marks.marked(tmp_path)
    assert [epoch["seconds"] for epoch in epochs] == [1.5]
    assert in_process.document(tmp_path / "told.json") == {}
    assert tensorflow_digest.digest(tmp_path)["notes"][0] == "first"
