"""Work on a real Dask cluster of several processes: the same results, and who is missing."""

import importlib
import os
import signal
import threading

import pytest
from counted import outcome
from counting import Counting

from gpuprof.base.errors import GpuprofError, UsageError
from gpuprof.ranks import dask

pytestmark = [
    pytest.mark.dask,
    pytest.mark.usefixtures("small_tasks"),
    # Dask's own loops and processes, which a killed worker leaves as they are.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def distributed():
    return pytest.importorskip("distributed", reason="Dask is not installed (extra scale)")


@pytest.fixture(scope="module")
def cluster(distributed):
    # After 15 seconds, a cluster gives up a worker that just then starts again.
    patient = importlib.import_module("dask").config.set(
        {"distributed.deploy.lost-worker-timeout": "5 minutes"}
    )
    with (
        patient,
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as running,
    ):
        yield running


def test_a_cluster_gives_what_local_processes_give(job_of, cluster):
    folder = job_of(18, rank01="corrupt", rank04="nothing", rank06="bug")
    local = outcome(folder, workers=2)
    distant = outcome(folder, scheduler=cluster.scheduler_address)

    assert distant.partial == local.partial
    assert distant.faults == local.faults
    assert len(distant.faults) == 3


def test_a_worker_that_dies_takes_nothing_with_it_but_the_file_at_fault(job_of, cluster):
    folder = job_of(9, rank03="die")
    result = outcome(folder, scheduler=cluster.scheduler_address)

    assert result.partial["counts"]["place"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert [fault.reason.replace(f"{folder}/", "") for fault in result.faults] == [
        "rank03.txt was read by workers of the cluster that ended (is memory short?)"
    ]


def test_workers_that_are_killed_change_nothing(job_of, cluster):
    folder = job_of(24)
    first = next(iter(cluster.workers.values()))
    killing = threading.Timer(0.3, lambda: os.kill(first.pid, signal.SIGKILL))
    killing.start()
    result = outcome(folder, Counting(pause_s=0.05), scheduler=cluster.scheduler_address)
    killing.join()

    assert result.faults == ()
    assert result.partial["counts"]["place"].to_pylist() == [*range(24)]


def test_when_the_scheduler_goes_what_was_done_is_kept(job_of, distributed, tmp_path):
    folder, state = job_of(24), tmp_path / "state"
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    )
    address = cluster.scheduler_address
    left = []

    def say(now):
        left.append(now.waiting_count)
        if now.waiting_count <= 16 and cluster.status.name == "running":
            cluster.close()

    with pytest.raises(GpuprofError) as caught:
        outcome(folder, Counting(pause_s=0.1), say, scheduler=address, state=state)

    assert caught.value.message == f"the Dask scheduler at {address} is gone"
    resumed = outcome(folder, Counting(pause_s=0.1), workers=2, state=state)
    assert resumed.resumed_count >= 24 - left[-1] > 0
    assert resumed.partial["counts"]["place"].to_pylist() == [*range(24)]


def test_a_cluster_that_stays_without_workers_is_not_waited_for(job_of, distributed, monkeypatch):
    monkeypatch.setattr(dask, "_WITHOUT_WORKERS_S", 1.2)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty:
        address = empty.scheduler_address
        with pytest.raises(GpuprofError) as caught:
            outcome(job_of(2), scheduler=address)

    assert caught.value.message == f"the Dask cluster at {address} had no worker for 0.02 min"


def test_an_address_where_nobody_answers_is_named(job_of, distributed, monkeypatch):
    monkeypatch.setattr(dask, "_CONNECT_S", 1)

    with pytest.raises(GpuprofError) as caught:
        outcome(job_of(1), scheduler="tcp://127.0.0.1:1")

    assert caught.value.message == "no Dask scheduler answers at tcp://127.0.0.1:1"
    assert caught.value.hint == "Give its address, as in tcp://host:8786."
    assert distributed


def test_without_dask_the_message_says_what_to_install(job_of, monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", absent)

    with pytest.raises(GpuprofError) as caught:
        outcome(job_of(1), scheduler="tcp://127.0.0.1:1")

    assert caught.value.message == "--scheduler needs Dask, which is not installed"
    assert caught.value.hint == "Install it: pip install 'distributed>=2024.1'"


def test_limits_of_local_processes_are_not_those_of_a_cluster(job_of):
    with pytest.raises(UsageError):
        outcome(job_of(1), scheduler="tcp://127.0.0.1:1", workers=2)
