"""Jobs of text files that processes count, as tests of the engine ask for them."""

from pathlib import Path

from counting import Counting

from gpuprof.ranks.engine import run
from gpuprof.ranks.rank_files import job_files
from gpuprof.ranks.work import Settings
from gpuprof.readers import recording_files


def outcome(folder, work=None, say=lambda _: None, **settings):
    files = job_files(recording_files([folder]))
    return run(work or Counting(), files, Settings(**settings), say)


def shape(result):
    """How partial results were merged, as `counting` tells it."""
    return result.partial["shape"]["shape"][0].as_py()


def children(process_id="self"):
    """The processes that a process has started and that live."""
    tasks = Path(f"/proc/{process_id}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
