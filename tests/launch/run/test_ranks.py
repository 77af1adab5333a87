"""Jobs of several processes: each rank is recorded and labelled, whatever becomes of the others."""

import importlib
import json
import os
import re
import signal
import sys

import pytest
import recorded_runs
from recorded_runs import ENVIRONMENT, PROGRAMS, script, start
from tensorflow_recording import manifest, needs_tensorflow, record

from gpuprof import epoch, read_profile
from gpuprof.launch.recorders.in_process import INJECT

# Open MPI refuses root, and more ranks than cores, unless told; and kills a second after SIGTERM.
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_odls_base_sigkill_timeout": "10",
}


def documents(folder):
    """Rank to what was recorded of it."""
    by_rank = {}
    for path in folder.glob("tensorflow-rank*.json"):
        [rank] = re.findall(r"rank(\d+)", path.name)
        by_rank[int(rank)] = json.loads(path.read_text())
    return by_rank


def executions(document):
    return [f["executions"] for f in document["functions"] if f["is_step"]]


class TestOneFolder:
    pytestmark = needs_tensorflow

    def test_every_rank_is_recorded_and_labelled(self, tmp_path):
        completed = record(tmp_path / "run", PROGRAMS / "ranks.py")

        assert completed.returncode == 0, completed.stderr
        found = {rank: executions(made) for rank, made in documents(tmp_path / "run").items()}
        assert found == {0: [10], 1: [10]}
        saved_manifest = manifest(tmp_path / "run")
        assert [(p["rank"], p["epochs"]) for p in saved_manifest["processes"]] == [(0, 2), (1, 2)]
        assert saved_manifest["warnings"] == [
            "2 processes marked epochs; those of rank 0 are kept."
        ]
        profile = read_profile(tmp_path / "run")
        runs = profile.query("SELECT rank FROM runs ORDER BY rank")
        assert runs["rank"].to_pylist() == [0, 1]
        assert profile.query("SELECT sum(calls) AS n FROM tensor_copies")["n"].to_pylist()[0] >= 20

    @pytest.mark.mpi
    def test_mpirun_ends_the_others_where_one_is_killed_and_they_are_whole(self, tmp_path):
        mpirun = ("--", "mpirun", "-n", "2", sys.executable)
        completed = record(
            tmp_path / "run", *mpirun, PROGRAMS / "ranks.py", "kill", "wait", **AS_ROOT
        )
        saved_manifest = manifest(tmp_path / "run")

        assert completed.returncode == 137, completed.stderr
        assert {r: executions(d) for r, d in documents(tmp_path / "run").items()}[0] == [10]
        assert set(documents(tmp_path / "run")) == {0, 1}
        assert [(p["rank"], p["epochs"]) for p in saved_manifest["processes"]] == [(0, 2), (1, 2)]
        notes = [
            d["windows"]["ended_in_order"] for _, d in sorted(documents(tmp_path / "run").items())
        ]
        assert notes == [True, False]


@pytest.mark.torch
@pytest.mark.usefixtures("in_an_empty_folder")
def test_torchrun_leaves_a_trace_of_each_rank(tmp_path):
    program = script(
        "import torch, gpuprof\n"
        "torch.distributed.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))\n"
        "with gpuprof.epoch():\n"
        "    with gpuprof.step(): model(torch.ones(2, 4)).sum().backward()\n"
        "torch.distributed.destroy_process_group()\n"
    )
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *program]
    completed = recorded_runs.record("torch", torchrun, OMP_NUM_THREADS="1")
    saved_manifest = recorded_runs.manifest()

    assert completed.returncode == 0, completed.stderr
    traces = sorted((tmp_path / "run").glob("torch-rank*.json.gz"))
    assert [re.findall(r"rank(\d)", trace.name) for trace in traces] == [["0"], ["1"]]
    assert [(p["rank"], p["epochs"]) for p in saved_manifest["processes"]] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.usefixtures("in_an_empty_folder")
def test_processes_of_multiprocessing_mark_their_epochs_in_one_run(method):
    program = script(
        "import multiprocessing, os, gpuprof\n"
        "def work(rank):\n"
        "    os.environ['RANK'] = str(rank)\n"
        "    with gpuprof.epoch(): pass\n"
        "    if rank == 1: os.kill(os.getpid(), 9)\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context('{method}')\n"
        "    ranks = [context.Process(target=work, args=(rank,)) for rank in range(3)]\n"
        "    for rank in ranks: rank.start()\n"
        "    for rank in ranks: rank.join()\n"
    )
    recorded_runs.record("none", program)

    processes = recorded_runs.manifest()["processes"]
    assert [(p["rank"], p["epochs"]) for p in processes] == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.mpi
@pytest.mark.usefixtures("in_an_empty_folder")
def test_mpirun_that_is_stopped_keeps_what_its_ranks_marked(monkeypatch):
    program = script(
        "import time, gpuprof\n"
        "with gpuprof.epoch(): pass\n"
        "print('trained', flush=True)\n"
        "time.sleep(60)\n"
    )
    for name, value in AS_ROOT.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)
    child = start("none", ["--", "mpirun", "-n", "2", sys.executable, *program])
    # Of two ranks the lines may come as one and an empty one.
    printed = ""
    while printed.count("trained") < 2:
        line = child.stdout.readline()
        assert line, printed
        printed += line
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    saved_manifest = recorded_runs.manifest()

    assert child.returncode not in (0, None)
    assert saved_manifest["exit_status"] == child.returncode
    assert [(p["rank"], p["epochs"]) for p in saved_manifest["processes"]] == [(0, 1), (1, 1)]


LAUNCHERS = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "HOROVOD_RANK",
    "SLURM_PROCID",
)


@pytest.mark.parametrize("variable", LAUNCHERS)
def test_recordings_and_marks_bear_the_rank_that_a_launcher_tells(tmp_path, monkeypatch, variable):
    monkeypatch.syspath_prepend(str(INJECT))
    monkeypatch.setenv("GPUPROF_RUN_DIR", str(tmp_path))
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "3")
    with epoch():
        pass

    name = importlib.import_module("gpuprof_window").process_name("jax")
    assert name == f"jax-rank3-{os.getpid()}"
    assert json.loads((tmp_path / "marks.jsonl").read_text())["rank"] == 3
