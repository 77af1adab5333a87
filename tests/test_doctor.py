"""What the doctor says of machines of many kinds, and of this one."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from importlib.util import find_spec

import pytest
from commands import ROOT, gpuprof, printed_by

from gpuprof.doctor import findings
from gpuprof.doctor.checks import CHECKS
from gpuprof.doctor.examined_machine import Machine, links, this_machine
from gpuprof.launch.run.gpus import Gpu, gpus, has_driver

K80 = Gpu("Tesla K80", (3, 7), 12 << 30)
T4 = Gpu("Tesla T4", (7, 5), 16 << 30)
H200 = Gpu("NVIDIA H200", (9, 0), 140 << 30)
GOOD = Machine(
    system="Linux 6.1 x86_64",
    has_driver=True,
    driver="550.54.15",
    driver_cuda=(12, 4),
    gpus=(T4, T4),
    peers={(0, 1): True, (1, 0): True},
    links={(0, 1): "NV2", (1, 0): "NV2"},
    tools={"nsys": "2024.2.1", "nvprof": "12.4.127", "ncu": "2024.1.1"},
    nsys_cuda=(12, 4),
    packages={
        "tensorflow": "2.21.0",
        "nvtx": "0.2.11",
        "cupti-python": "12.8.1",
        "nvidia-ml-py": "12.560",
        "psutil": "7.0",
    },
    counters_for_admins=False,
    perf_event_paranoid=2,
    free_bytes={"/runs": 10**12, "/scratch": 10**11},
    obstacles={"nsys": None, "nvprof": None, "tensorflow": None},
)


def of(machine, name):
    [finding] = [f for f in findings(machine) if f.name == name]
    return finding


def test_a_machine_that_lacks_nothing_has_nothing_to_mend():
    assert [(f.name, f.text) for f in findings(GOOD) if f.state != "ok" or f.fix] == []
    assert of(GOOD, "topology").text == "all GPUs have peer access to each other: 0-1 NV2"


ILLS = {
    "windows": ({"system": "Windows 11"}, "system", "problem", "recording needs Linux"),
    "no-driver": ({"has_driver": False, "gpus": ()}, "driver", "limited", "no NVIDIA driver"),
    "no-gpu": ({"gpus": ()}, "gpus", "limited", "no NVIDIA GPU was found"),
    "hidden-gpus": (
        {"gpus": (), "variables": {"CUDA_VISIBLE_DEVICES": ""}},
        "gpus",
        "problem",
        "a driver is installed, but no GPU is visible: CUDA_VISIBLE_DEVICES=",
    ),
    "no-peer-access": (
        {"peers": {(0, 1): False, (1, 0): False}, "links": {(0, 1): "PHB"}},
        "topology",
        "limited",
        "GPUs 0-1 have no peer access, so copies go through the host (0-1 PHB)",
    ),
    "peer-access-one-way": (
        {"peers": {(0, 1): True, (1, 0): False}},
        "topology",
        "limited",
        "GPUs 0-1 have no peer access",
    ),
    "counters-kept": ({"counters_for_admins": True}, "counters", "limited", "ERR_NVGPUCTRPERM"),
    "no-nsys": ({"tools": {}}, "nsys", "limited", "nsys is not installed"),
    "nsys-older-than-cuda": (
        {"driver_cuda": (13, 0)},
        "nsys",
        "problem",
        "would record nothing: this nsys traces CUDA up to 12.4; the driver runs 13.0",
    ),
    "driver-too-old": ({"driver": "418.40.04"}, "nsys", "problem", "needs driver 450 or newer"),
    "gpu-too-old-for-nsys": ({"gpus": (K80,)}, "nsys", "problem", "Tesla K80 is older"),
    "gpu-too-old-for-ncu": ({"gpus": (K80,)}, "ncu", "limited", "Tesla K80 is older"),
    "gpu-too-new-for-nvprof": (
        {"gpus": (H200,)},
        "nvprof",
        "limited",
        "nvprof cannot profile NVIDIA H200 (compute capability 9.0); it supports up to 7.5",
    ),
    "no-nvprof": ({"tools": {"nsys": "2024.2.1"}}, "nvprof", "limited", "not installed"),
    "cupti-newer-than-cuda": (
        {"packages": {"cupti-python": "13.4.0"}},
        "cupti",
        "problem",
        "cupti-python 13.4.0 needs CUDA 13; the driver supports 12.4",
    ),
    "no-monitor": (
        {"packages": {"psutil": "7.0"}},
        "monitor",
        "limited",
        "GPUs are not sampled during a run",
    ),
    "without-compiled-functions": (
        {"is_compiled": False},
        "SQLite",
        "limited",
        "installed without its compiled functions",
    ),
    "inside-nsys": (
        {"variables": {"CUDA_INJECTION64_PATH": "/x.so"}},
        "other profiler",
        "problem",
        "CUDA_INJECTION64_PATH is set",
    ),
    "container": ({"container": "Docker"}, "container", "limited", "without SYS_ADMIN"),
    "paranoid": ({"perf_event_paranoid": 4}, "sampling", "limited", "perf_event_paranoid is 4"),
    "disk-almost-full": ({"free_bytes": {"/runs": 10**8}}, "space", "problem", "100 MB free"),
    "little-space": ({"free_bytes": {"/a": 5 * 10**9}}, "space", "limited", "short traces"),
    "no-framework": (
        {"packages": {}},
        "frameworks",
        "limited",
        "TensorFlow, PyTorch and JAX are not installed",
    ),
    "no-nvtx": ({"packages": {}}, "nvtx", "limited", "nsys does not record marked epochs"),
    "nvtx-too-new": (
        {"packages": {"nvtx": "0.2.13"}, "tools": {"nsys": "2023.4.4.54"}},
        "nvtx",
        "problem",
        "nvtx 0.2.13 is too new for nsys 2023.4.4.54, which would record no ranges",
    ),
    "other-gpuprof": (
        {"other_gpuprof": "0.4.1"},
        "distribution",
        "problem",
        "PyPI's gpuprof 0.4.1",
    ),
    "nothing-records": (
        {"gpus": (), "obstacles": {"nsys": None, "tensorflow": "TensorFlow is not installed"}},
        "recorders",
        "problem",
        "no recorder works here: nsys would record no GPU; TensorFlow is not installed",
    ),
}


@pytest.mark.parametrize(("change", "name", "state", "said"), ILLS.values(), ids=ILLS.keys())
def test_what_is_wrong_is_said_with_its_fix(change, name, state, said):
    finding = of(replace(GOOD, **change), name)

    assert (finding.state, said in finding.text) == (state, True), finding
    assert finding.fix


def test_every_check_has_a_case_that_is_not_ok():
    assert {name for _, name, _, _ in ILLS.values()} == {f.name for f in findings(GOOD)}
    assert len(CHECKS) == len(findings(GOOD))


@pytest.mark.parametrize("name", ["counters", "sampling", "container"])
def test_an_administrator_is_kept_from_nothing(name):
    kept = replace(GOOD, counters_for_admins=True, perf_event_paranoid=4, container="Docker")

    assert of(replace(kept, is_admin=True), name).state == "ok"
    assert of(kept, name).state == "limited"


def test_tools_that_see_no_gpu_are_not_counted_as_able_to_record():
    blind = replace(GOOD, gpus=())

    assert of(blind, "recorders").text == "available recorders: tensorflow"
    assert of(GOOD, "recorders").text == "available recorders: nsys, nvprof, tensorflow"


TOPOLOGY = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV12\tPXB\t0-31\t0
GPU1\tNV12\t X \tSYS\t32-63\t1
NIC0\tPXB\tSYS\t X \t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def test_links_are_read_as_nvidia_smi_draws_them():
    assert links(TOPOLOGY) == {(0, 1): "NV12", (1, 0): "NV12"}
    assert links("") == {}
    assert links("\tGPU0\tCPU Affinity\nGPU0\t X \t0-31\n") == {}


@pytest.fixture(scope="module")
def here():
    completed = gpuprof("doctor", "--format", "json")
    document = json.loads(completed.stdout)
    problems = [f for f in document["findings"] if f["state"] == "problem"]
    assert (completed.returncode, completed.stderr) == (int(bool(problems)), "")
    return document


def test_findings_of_this_machine_are_what_its_own_commands_say(here):
    machine = here["machine"]

    assert machine["system"].split()[:2] == [
        *subprocess.check_output(["uname", "-sr"]).decode().split()
    ]
    assert (machine["has_driver"], len(machine["gpus"])) == (has_driver(), len(gpus()))
    assert set(machine["tools"]) == {t for t in ("nsys", "nvprof", "ncu") if shutil.which(t)}
    for tool, version in machine["tools"].items():
        assert version in subprocess.check_output([tool, "--version"], text=True)
    named = {"tensorflow-cpu": "tensorflow", "cupti-python": "cupti", "nvidia-ml-py": "pynvml"}
    for package in machine["packages"]:
        assert find_spec(named.get(package, package)), package
    for folder, free in machine["free_bytes"].items():
        assert abs(free - shutil.disk_usage(folder).free) < 10**9
    assert [f["name"] for f in here["findings"]] == [f.name for f in findings(GOOD)]
    assert all(f["fix"] for f in here["findings"] if f["state"] != "ok")


@pytest.mark.skipif(has_driver(), reason="shows what is said where there is no driver")
def test_this_machine_without_a_driver_is_told_so(here):
    states = {f["name"]: (f["state"], f["text"]) for f in here["findings"]}

    assert states["driver"] == (
        "limited",
        "no NVIDIA driver is installed, so no GPU activity can be recorded",
    )
    assert states["gpus"] == ("limited", "no NVIDIA GPU was found")
    assert states["counters"][0] == "ok"


@pytest.mark.parametrize("columns", [80, 200])
def test_text_fits_the_terminal_and_names_every_finding(columns):
    completed = gpuprof("doctor", COLUMNS=str(columns))

    lines = completed.stdout.splitlines()
    commands = [line for line in lines if "://" in line or "'" in line]
    assert max(len(line) for line in lines if line not in commands) <= columns
    names = [re.match(r"(?:ok|limited|problem) +(\S+(?: \S+)?)  ", line) for line in lines]
    assert [m[1].strip() for m in names if m] == [f.name for f in findings(GOOD)]


@pytest.mark.parametrize("name", ["gpuprof", "Gpuprof"])
def test_the_other_gpuprof_of_pypi_is_found_where_it_is_installed(tmp_path, name):
    folder = tmp_path / "gpuprof-0.4.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.4.1\n")
    completed = gpuprof("doctor", PYTHONPATH=f"{ROOT}:{tmp_path}", COLUMNS="200")

    assert completed.returncode == 1
    assert "problem  distribution" in completed.stdout
    assert "pip uninstall gpuprof, then install gpuprof-toolkit again" in completed.stdout


def test_a_profiler_around_the_doctor_is_seen(monkeypatch):
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/libToolsInjection64.so")

    assert of(this_machine(), "other profiler").state == "problem"


def test_no_framework_is_imported():
    code = (
        "import sys; from gpuprof.doctor.examined_machine import this_machine; this_machine()\n"
        "print(sorted({'tensorflow', 'torch', 'jax', 'keras', 'numpy'} & sys.modules.keys()))"
    )

    assert printed_by(code) == "[]\n"
