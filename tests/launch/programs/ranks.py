"""Ranks that train on two logical devices each, and where none is told a launcher of two."""

import os
import signal
import subprocess
import sys
import time

KILLED = 1
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def train(rank):
    from two_devices import training_step  # noqa: PLC0415 - the launcher imports neither

    import gpuprof  # noqa: PLC0415

    for _ in range(2):
        with gpuprof.epoch():
            for _ in range(5):
                with gpuprof.step():
                    training_step()
    if rank == KILLED and "kill" in sys.argv:
        # A window of the recorder has closed by then, and marks are written at once.
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGKILL)
    if "wait" in sys.argv:
        time.sleep(60)


def launch(ranks):
    children = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(rank)})
        for rank in range(ranks)
    ]
    sys.exit(max(abs(child.wait()) for child in children))


if __name__ == "__main__":
    ranks_set = [os.environ[name] for name in RANKS if name in os.environ]
    if ranks_set:
        train(int(ranks_set[0]))
    else:
        launch(2)
