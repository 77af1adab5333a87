"""What cannot be compared is refused in two lines; what can, however odd, is compared."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import DUAL, SINGLE, gpuprof
from drawing import draw, stepped
from recordings import row, summary

from gpuprof.base.errors import UsageError
from gpuprof.base.manifest import MANIFEST, Manifest
from gpuprof.comparisons import comparison
from gpuprof.show import Page, renderer_named

EXISTS = "EMPTY exists already", "Replace it with --force, or give another name."
# What is asked for, the status, the error and the hint.
REFUSED = {
    "no-variants": (
        ["--baseline", "x"],
        2,
        "a comparison needs two recordings, and none is given",
        "Name them: gpuprof compare single.sqlite dual.sqlite",
    ),
    "one-variant": (
        [SINGLE],
        2,
        "a comparison needs two variants, and one is given: single",
        "Add another recording, or look at this one with `gpuprof report`.",
    ),
    "one-label-for-all": (
        ["--label", f"a={SINGLE}", "--label", f"a={DUAL}"],
        2,
        "a comparison needs two variants, and one is given: a",
        "Recordings with the same label are repeats. Add another label or a baseline.",
    ),
    "twice-the-same-run": (
        ["--label", f"a={SINGLE}", "--label", f"a={SINGLE}"],
        2,
        "label a is given to single.txt twice; repeats must be different recordings",
        "Give each recording once, or use another label.",
    ),
    "baseline-is-not-there": (
        [SINGLE, DUAL, "--baseline", "dula"],
        2,
        "no recording has the label dula, and no baseline is saved under this name",
        "Labels: single, dual.",
    ),
    "baseline-of-one-is-not-there": (
        [SINGLE, "--baseline", "main"],
        2,
        "no recording has the label main, and no baseline is saved under this name",
        "Labels: single.",
    ),
    "baseline-is-a-file": (
        [SINGLE, "--baseline", DUAL],
        2,
        f"no recording has the label {DUAL}, and no baseline is saved under this name",
        "To compare with a recording, give it as the first of FILES.",
    ),
    "empty-file": (
        [SINGLE, "EMPTY"],
        1,
        "EMPTY is empty",
        "Was the recording cut off, or the disk full?",
    ),
    "nan-seconds": (
        [SINGLE, DUAL, "--epoch-seconds", "dual=nan"],
        2,
        "epoch seconds of dual must be above 0, not nan",
        "Write it as --epoch-seconds LABEL=20.455.",
    ),
    "no-steps": (
        [SINGLE, DUAL, "--skip-steps", "2"],
        2,
        "steps cannot be skipped: single, dual have no known steps",
        "Mark steps with gpuprof.step() or NVTX ranges, or select ranges with --range.",
    ),
    "no-ranges": (
        [SINGLE, DUAL, "--range", "step"],
        1,
        f"{SINGLE} has no nvtx_ranges table (read as nvprof-text)",
        "Record with `gpuprof record`, which keeps every activity.",
    ),
    "junit-without-conditions": (
        [SINGLE, DUAL, "--junit", "out.xml"],
        2,
        "--junit needs conditions: give at least one by --fail-if.",
        "See `gpuprof compare --help`.",
    ),
    "output-exists": ([SINGLE, DUAL, "-o", "EMPTY"], 1, *EXISTS),
    "page-exists": ([SINGLE, DUAL, "--html", "EMPTY"], 1, *EXISTS),
    "junit-exists": ([SINGLE, DUAL, "--fail-if", "peer_share > 1", "--junit", "EMPTY"], 1, *EXISTS),
}


@pytest.mark.parametrize(("arguments", "status", "error", "hint"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_refused(tmp_path, arguments, status, error, hint):
    empty = tmp_path / "empty.txt"
    empty.touch()
    arguments_used = [str(empty) if argument == "EMPTY" else argument for argument in arguments]

    completed = gpuprof("compare", *arguments_used, cwd=tmp_path, XDG_DATA_HOME=str(tmp_path))

    assert (completed.returncode, completed.stdout) == (status, "")
    error = error.replace("EMPTY", str(empty))
    assert completed.stderr == f"Error: {error}\nHint: {hint}\n"
    assert list(tmp_path.iterdir()) == [empty]


def test_an_epoch_without_a_time_is_in_no_mean():
    epochs = [{"epoch": 0, "seconds": 1.0}, {"epoch": 1, "seconds": None}]
    marked = summary(row("conv", 1, 10, 1.0), epochs=epochs)

    result = comparison({"a": marked, "b": summary(row("conv", 1, 12, 1.0))})

    assert result.variants.to_pylist()[0]["seconds_per_epoch"] is None
    assert "a: 1 of 2 epochs has no time, so the seconds per epoch are unknown." in result.notes


def test_a_nan_in_the_manifest_of_a_run_is_said(tmp_path):
    log = Path(SINGLE).read_text()
    for name, seconds in (("one", 1.0), ("other", float("nan"))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "log.txt").write_text(log.replace("6.92", "7.92") if name == "other" else log)
        epochs = [{"epoch": 0, "seconds": seconds, "steps": None, "started_at_unix_ns": None}]
        run_manifest = Manifest(
            "nvprof", name, ("./a",), "2026-01-01", recordings=("log.txt",), epochs=epochs
        )
        (folder / MANIFEST).write_text(run_manifest.to_json())

    completed = gpuprof("compare", "one", "other", "--format", "json", cwd=tmp_path)

    assert (completed.returncode, completed.stderr) == (0, "")
    assert "NaN" not in completed.stdout
    document = json.loads(completed.stdout)
    assert document["variants"]["other"]["seconds_per_epoch"] is None
    note = "other: 1 of 1 epoch has no time, so the seconds per epoch are unknown."
    assert note in document["notes"]


def test_an_empty_recording_has_nothing_to_compare():
    result = comparison({"a": draw(kernels=[(0, 10)], memsets=[]), "empty": _other(memsets=[])})

    assert result.verdict == (
        "Against a, empty takes 10 ns (removed) less GPU time; with one run each, noise cannot be"
        " judged. Kernel time drops to 0, and almost all of the difference is kernels: 10 ns of"
        " 10 ns in empty."
    )


def _other(**tables):
    """A recording in another file than those that `draw` makes."""
    profile = draw(**tables)
    return replace(profile, origin=replace(profile.origin, source=Path("other.sqlite")))


FEW, MANY = (stepped(*[100] * count, idle_ns=40) for count in (4, 8))


def test_different_units_of_work_are_named():
    batches = stepped(*[100] * 8, text="batch {}")
    result = comparison({"a": FEW, "b": batches})

    assert result.unit == "step"
    assert result.notes[0] == "What counts as a step differs: step # in a, batch # in b."
    assert result.notes[-2:] == (
        "Compared by step (a 3, b 7); activity outside steps is left out.",
        "Left out, because the recording cuts them off: 1 step of a and 1 step of b.",
    )


def test_steps_on_one_side_alone_leave_whole_recordings():
    result = comparison({"a": FEW, "b": draw(kernels=[(0, 10)])})

    assert result.unit == "recording"
    assert result.notes[-1] == "b has no known steps, so whole recordings are compared."


def test_steps_are_skipped_and_ranges_chosen():
    profiles = {"a": FEW, "b": MANY}

    skipped = comparison(profiles, skip_steps=2)
    chosen = comparison(profiles, range_text="step 1")

    assert [r["steps"] for r in skipped.variants.to_pylist()] == [1, 5]
    assert [r["steps"] for r in chosen.variants.to_pylist()] == [1, 1]
    assert [r["kernel_ns"] for r in chosen.variants.to_pylist()] == [60, 60]


def test_skipping_every_step_is_refused():
    with pytest.raises(UsageError) as caught:
        comparison({"a": FEW, "b": MANY}, skip_steps=4)

    assert caught.value.message == "a has 3 whole steps, and --skip-steps 4 leaves none"
    assert caught.value.hint == "Use a smaller --skip-steps."


def test_fifty_variants_fit_80_columns():
    many = {f"v{n}": summary(row("conv", 1, 1000 + n, 1.0)) for n in range(50)}

    text = renderer_named("terminal").comparison(comparison(many), Page())

    assert "v49" in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_of_two_thousand_characters_are_shortened_unless_wide():
    label, kernel = "l" * 2000, "void k" + "x" * 2000 + "<float>(int)"
    base, candidate = (draw(kernels=[(0, ns, {"name": kernel})]) for ns in (5, 9))
    result = comparison({"base": base, label: candidate})
    show = renderer_named("terminal").comparison

    for tables in (None, ("kernels",)):
        text = show(result, Page(tables=tables))
        assert max(map(len, text.splitlines())) <= 80
        assert text.count("\n") < 40
    assert label in show(result, Page(is_wide=True)).replace("\n", "")
    page = Page(tables=("kernels",), is_wide=True)
    assert kernel not in show(result, page)
    assert kernel in show(result, replace(page, has_full_names=True))
    assert json.loads(renderer_named("json").comparison(result, Page()))["variants"][label]


def test_two_hundred_columns_are_used():
    kernel = "void " + "x" * 150 + "<float>(int)"
    base, candidate = (draw(kernels=[(0, ns, {"name": kernel})]) for ns in (5, 9))

    text = renderer_named("terminal").comparison(
        comparison({"a": base, "b": candidate}), Page(width=200, tables=("kernels",))
    )

    assert 180 < max(map(len, text.splitlines())) <= 200
