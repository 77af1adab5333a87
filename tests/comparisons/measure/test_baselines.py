import pytest
from commands import DUAL, EXAGGERATED, SINGLE, gpuprof


@pytest.fixture
def project(tmp_path):
    """A project's folder with a folder in it, apart from the user's own."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "runs").mkdir()
    return tmp_path / "project"


def _run(project, *arguments):
    return gpuprof(*arguments, cwd=project / "runs", XDG_DATA_HOME=str(project.parent / "user"))


def test_a_baseline_is_compared_with_by_its_name(project):
    saved = _run(project, "baseline", "save", "main", SINGLE)
    by_name = _run(project, "compare", "main", DUAL, "--format", "json")
    by_option = _run(project, "compare", DUAL, "--baseline", "main", "--format", "json")

    folder = project / ".gpuprof" / "baselines" / "main"
    assert (saved.returncode, saved.stdout) == (0, "")
    assert saved.stderr.startswith("Saved main: 1 run, ")
    assert [entry.name for entry in folder.iterdir()] == ["run-1.gpuprof"]
    assert by_name.stdout == by_option.stdout
    assert '"baseline": "main"' in by_name.stdout
    assert '"implied_gpu_activity_ns": 39458893957' in by_name.stdout


def test_several_runs_are_repeats(project):
    _run(project, "baseline", "save", "main", SINGLE, DUAL)

    shown = _run(project, "compare", "main", EXAGGERATED, "--format", "json")

    assert '"runs": 2' in shown.stdout


def test_a_baseline_of_the_user_serves_every_project(project):
    _run(project, "baseline", "save", "mine", SINGLE, "--user")

    listed = _run(project, "baseline", "list")

    folder = project.parent / "user" / "gpuprof" / "baselines" / "mine"
    assert listed.stdout.startswith("mine: 1 run, ")
    assert listed.stdout.endswith(f", {folder}\n")


def test_a_baseline_is_shown_and_removed(project):
    _run(project, "baseline", "save", "main", SINGLE)

    shown = _run(project, "baseline", "show", "main")
    removed = _run(project, "baseline", "remove", "main")

    place = project / ".gpuprof" / "baselines"
    assert shown.stdout == (
        f"{place / 'main' / 'run-1.gpuprof'}\n  tool: nvprof\n  read as: nvprof-text\n"
        "  variant: n/a\n  command: n/a\n  recorded: n/a\n"
    )
    assert removed.stderr == f"Removed main from {place}\n"
    assert list(place.iterdir()) == []


def test_replacing_needs_force(project):
    _run(project, "baseline", "save", "main", SINGLE, DUAL)

    refused = _run(project, "baseline", "save", "main", SINGLE)
    forced = _run(project, "baseline", "save", "main", SINGLE, "--force")

    place = project / ".gpuprof" / "baselines"
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: baseline main exists already, in {place / 'main'}\n"
        "Hint: Replace it with --force, or give another name.\n"
    )
    assert forced.returncode == 0
    assert [entry.name for entry in place.iterdir()] == ["main"]
    assert [entry.name for entry in (place / "main").iterdir()] == ["run-1.gpuprof"]


REFUSED = {
    "unknown": (
        ["baseline", "show", "mian"],
        1,
        "Error: there is no baseline mian\nHint: Baselines: main.\n",
    ),
    "name-is-a-path": (
        ["baseline", "save", "../up", SINGLE],
        2,
        (
            'Error: "../up" is not a valid name for a baseline\n'
            "Hint: Use up to 100 letters, digits, dots, dashes, + and underscores.\n"
        ),
    ),
    "no-run": (["baseline", "save", "other", "none.txt"], 1, "Error: none.txt: no such file\n"),
    "one-run-twice": (
        ["baseline", "save", "other", SINGLE, SINGLE],
        2,
        (
            "Error: baseline other is given to single.txt twice; repeats must be different"
            " recordings\n"
            "Hint: Give each recording once, or use another label.\n"
        ),
    ),
    "nearly-a-baseline": (
        ["compare", "mian", DUAL],
        1,
        (
            "Error: mian: no such file, and no baseline is saved under this name\n"
            "Hint: Did you mean main?\n"
        ),
    ),
    "nearly-a-baseline-by-option": (
        ["compare", DUAL, "--baseline", "mian"],
        2,
        (
            "Error: no recording has the label mian, and no baseline is saved under this name\n"
            "Hint: Labels: dual. Baselines: main.\n"
        ),
    ),
    "neither-label-nor-saved": (
        ["compare", SINGLE, DUAL, "--baseline", "none"],
        2,
        (
            "Error: no recording has the label none, and no baseline is saved under this name\n"
            "Hint: Labels: single, dual. Baselines: main.\n"
        ),
    ),
}


@pytest.mark.parametrize(("arguments", "status", "stderr"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_kept(project, arguments, status, stderr):
    _run(project, "baseline", "save", "main", SINGLE)

    completed = _run(project, *arguments)

    assert (completed.returncode, completed.stderr) == (status, stderr)
    assert [entry.name for entry in (project / ".gpuprof" / "baselines").iterdir()] == ["main"]


def test_no_baselines_says_how_to_make_one(project):
    completed = _run(project, "baseline", "list")

    assert (completed.returncode, completed.stdout) == (0, "")
    assert completed.stderr == "No baselines. Save one with `gpuprof baseline save NAME RUN`.\n"
