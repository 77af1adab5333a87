"""What can be wrong is found before the program starts, and nothing is written."""

import errno
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from recorded_runs import ENVIRONMENT, gpuprof, words

from gpuprof import read_profile
from gpuprof.base.errors import OutputError
from gpuprof.base.manifest import foreign_files, read_manifest
from gpuprof.launch import RECORDERS, recording
from gpuprof.launch.contract import Program
from gpuprof.launch.recorders import timing_only
from gpuprof.launch.recording import Options
from gpuprof.launch.recording import record as start


@pytest.fixture(autouse=True)
def in_a_folder_with_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text("open('ran', 'w').close()")


def record(*words, recorder="plain", **variables):
    return gpuprof("record", "--recorder", recorder, *words, **variables)


REFUSALS = {
    "script-missing": (["nosuch.py"], 1, "Error: nosuch.py: no such script"),
    "script-is-a-folder": (["folder"], 1, "Error: folder: no such script"),
    "module-missing": (["-m", "nosuch.module"], 1, "Error: nosuch.module: no such module"),
    "executable-missing": (["--", "./nosuch"], 1, "Error: ./nosuch: no such program"),
    "not-executable": (["--", "./script.py"], 1, "Error: ./script.py: is not executable"),
    "executable-without-dashes": (
        ["sh", "-c", "x"],
        1,
        "Hint: To record an executable, put -- before it: gpuprof record -- sh -c x\n",
    ),
    "output-is-a-file": (["-o", "file", "script.py"], 1, "Error: file is a file"),
    "output-exists": (["-o", "folder", "script.py"], 1, "Error: folder exists already"),
    "output-under-a-file": (
        ["-o", "file/run", "script.py"],
        1,
        "Error: file/run cannot be created",
    ),
    "output-read-only": (["-o", "/proc/run", "script.py"], 1, "Error: /proc/run cannot be created"),
    "force-on-no-run": (
        ["-o", "folder", "--force", "script.py"],
        1,
        "Error: folder does not contain a recording, and --force replaces only recordings",
    ),
    "nothing-to-run": ([], 2, "Error: Missing argument"),
    "unknown-recorder": (["--recorder", "vtune", "script.py"], 2, "'vtune' is not one of 'auto'"),
    "unknown-option": (["--nosuch", "script.py"], 2, "Error: No such option"),
}


@pytest.mark.parametrize(("words", "status", "error"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refused_before_the_program_starts(words, status, error):
    Path("folder").mkdir()
    Path("folder/precious").touch()
    Path("file").touch()
    before = sorted(Path().rglob("*"))

    completed = record(*words)

    assert completed.returncode == status
    assert error in completed.stderr
    assert "Traceback" not in completed.stderr
    assert completed.stdout == ""
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("recorder", ["nsys", "nvprof"])
def test_recorder_that_is_not_installed_says_how_to_get_it(recorder):
    completed = record("script.py", recorder=recorder, PATH="/bin/no")

    assert completed.returncode == 1
    error, hint = completed.stderr.splitlines()
    assert error == f"Error: {recorder} is not installed or not on PATH"
    assert "apt-get install" in hint
    assert not Path("ran").exists()
    assert not Path("gpuprof-runs").exists()


def test_force_replaces_a_run_and_nothing_of_the_old_one_stays():
    record("-o", "run", "script.py")
    Path("run/nsys.sqlite").touch()

    refused = record("-o", "run", "script.py")
    forced = record("-o", "run", "--force", "script.py")

    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        "Error: run exists already",
        "Hint: Choose another folder with -o, or replace it with --force.",
    ]
    assert forced.returncode == 0
    assert not Path("run/nsys.sqlite").exists()
    assert Path("run/manifest.json").exists()


def test_force_replaces_a_run_that_did_not_finish():
    Path("run").mkdir()
    Path("run/manifest.json.unfinished").touch()

    assert record("-o", "run", "--force", "script.py").returncode == 0


@pytest.mark.parametrize("is_repeat", [False, True])
def test_force_never_removes_what_others_put_into_the_folder(is_repeat):
    options = ("--repeat", "1") if is_repeat else ()
    place = Path("run/run-1") if is_repeat else Path("run")
    record("-o", "run", *options, "script.py")
    (place / "thesis.txt").write_text("mine")
    (place / "nsys.nsys-rep").touch()

    forced = record("-o", "run", "--force", "script.py")

    name = (place / "thesis.txt").relative_to("run")
    assert forced.returncode == 1
    assert forced.stderr.splitlines() == [
        f"Error: run holds files that gpuprof did not make: {name}",
        "Hint: Move them away first, or choose another folder.",
    ]
    assert (place / "manifest.json").exists()
    (place / "thesis.txt").unlink()
    assert record("-o", "run", "--force", "script.py").returncode == 0
    assert not (place / "nsys.nsys-rep").exists()


def test_every_recorder_has_its_files_known_by_their_beginning(tmp_path):
    (tmp_path / "script.py").unlink()
    for name in RECORDERS.keys() - {"none"}:
        ends = (".nsys-rep", ".sqlite", ".qdstrm") if name == "nsys" else ("-42.json", "-rank1-42")
        for end in ends:
            (tmp_path / f"{name}{end}").touch()
    (tmp_path / "manifest.json.unfinished").touch()

    assert foreign_files(tmp_path) == []


def test_force_with_a_wrong_script_keeps_the_old_run():
    record("-o", "run", "script.py")

    assert record("-o", "run", "--force", "nosuch.py").returncode == 1
    assert Path("run/manifest.json").exists()


def test_a_run_whose_output_finds_no_room_is_kept_with_a_word_and_the_programs_status():
    # A limit on the size of files fails in write() as a full disk does.
    Path("script.py").write_text(
        "for _ in range(100): print('x' * 100_000)\nprint('end'); raise SystemExit(7)"
    )
    limit = (1_000_000, 1_000_000)
    completed = subprocess.run(
        words("plain", ["script.py"]),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )

    assert completed.stdout.endswith("end\n")
    assert completed.returncode == 7
    assert "Warning: program.log is cut short: File too large." in completed.stderr.splitlines()
    assert read_manifest(Path("run")).exit_status == 7
    assert Path("run/program.log").stat().st_size == 1_000_000


@pytest.fixture
def disk_of(tmp_path):
    """Mount a file system of some bytes."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mounted(size_bytes):
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("a small file system cannot be mounted: not root, or not allowed")
        return disk

    yield mounted
    subprocess.run(["umount", str(disk)], capture_output=True, check=False)


def test_a_full_disk_leaves_what_was_recorded(disk_of):
    tiny_disk = disk_of(300 << 10)
    Path("script.py").write_text("print('x' * 1_000_000); raise SystemExit(7)")
    completed = record("-o", f"{tiny_disk}/run", "script.py", recorder="none")

    assert completed.returncode == 7
    assert completed.stdout == "x" * 1_000_000 + "\n"
    assert read_manifest(tiny_disk / "run").warnings == (
        "program.log is cut short: No space left on device.",
        "The disk was full at the end: what was recorded last may be missing.",
    )


def test_a_run_that_cannot_be_finished_is_kept(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(recording, "finish_manifest", full)
    with pytest.raises(OutputError) as caught:
        start(Program((sys.executable, "script.py")), Options("none", folder=Path("run")), print)

    assert caught.value.message == "run cannot be finished: No space left on device"
    assert caught.value.hint == "What was recorded until then is kept in it."
    assert Path("run/program.log").exists()
    assert Path("run/manifest.json.unfinished").exists()


@pytest.mark.profilers
def test_a_report_of_nsys_whose_export_has_no_room_is_kept(disk_of):
    Path("script.py").write_text("raise SystemExit(7)")
    record("-o", "usual", "script.py", recorder="nsys")
    report, export = (
        Path("usual", name).stat().st_size for name in ("nsys.nsys-rep", "nsys.sqlite")
    )
    # The report fits and its export does not; nsys itself ends with 0.
    tiny_disk = disk_of(report + export // 2)
    completed = record("-o", f"{tiny_disk}/run", "script.py", recorder="nsys")

    said = "nsys.sqlite is missing (No space left on device); "
    said += "gpuprof reads nsys.nsys-rep."
    assert completed.returncode == 7
    assert f"Warning: {said}" in completed.stderr.splitlines()
    assert said in read_manifest(tiny_disk / "run").warnings
    assert (tiny_disk / "run" / "nsys.nsys-rep").exists()
    assert not (tiny_disk / "run" / "nsys.sqlite").exists()
    assert read_profile(tiny_disk / "run").origin.recorder.startswith("nsys ")


def test_ctrl_c_before_the_program_starts_leaves_no_folder(monkeypatch):
    def stopped():
        raise KeyboardInterrupt

    recorder = replace(timing_only.RECORDER, versions=stopped)
    monkeypatch.setattr("gpuprof.launch.recording.all_recorders", lambda: [recorder])
    options = Options(recorder.name, folder=Path("run"))
    with pytest.raises(KeyboardInterrupt):
        start(Program((sys.executable, "script.py")), options, print)

    assert not Path("run").exists()
