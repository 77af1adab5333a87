"""Jobs of small text files, as `counting` reads them."""

import pytest

from gpuprof.ranks import work_plan


@pytest.fixture
def job_of(tmp_path):
    """Makes the files of a job: by default each has as many lines as its place says."""

    def write(count, **texts):
        folder = tmp_path / "job"
        folder.mkdir()
        for place in range(count):
            text = texts.get(f"rank{place:02}", "line\n" * place)
            (folder / f"rank{place:02}.txt").write_text(text)
        return folder

    return write


@pytest.fixture
def small_tasks(monkeypatch):
    """Tasks of four files, of which small files make many."""
    monkeypatch.setattr(work_plan, "_MOST_FILES", 4)
