"""Change the structure of recordings for a while, and use whatever is still read.

    python tests/readers/fuzz_structure.py --seconds 300

Where ``fuzz.py`` changes bytes, this changes typed values, columns, members of archives, trees of
JSON and records. What is read goes through every analysis, the report, `convert` and the export to
Perfetto. Faults are kept in ``fuzz-found/``: what ends in any way but with a message, and numbers
that no recording can hold.
"""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import cupti_folder
import fuzz
import structures
import test_nvprof_text
from cupti_folder import EPOCH_NS
from nsys_export import KERNEL, MEMCPY, export, kernel, memcpy

import gpuprof
from gpuprof import reports
from gpuprof.analyses import ANALYSES, LONG, analysis_named
from gpuprof.archive import pack
from gpuprof.errors import GpuprofError
from gpuprof.manifest import MONITOR, Manifest, finish_manifest
from gpuprof.readers.gpuprof.write_gpuprof_file import write
from gpuprof.render import renderer_named
from gpuprof.render.contract import Page
from gpuprof.render.exporters import EXPORTERS
from gpuprof.render.output import Output

LARGEST = 1_500_000
NAMES = [*ANALYSES, *LONG]


def seeds():
    """The files of recordings, by recording and by their paths in its folder."""
    files = fuzz.seeds() | fuzz.real_files()
    single = {name: {name: content} for name, content in files.items() if len(content) < LARGEST}
    return single | _folders() | _converted(single)


def _folders():
    """Recordings that are folders, and runs that were packed into a file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {KERNEL: [kernel(0, 9), kernel(9, 12)], MEMCPY: [memcpy(0, 5, 1)]}
        folders = []
        for suffix in (".parquet", ".arrow"):
            (folder / suffix).mkdir()
            folders.append(export(folder / suffix / f"nsys{suffix}", tables, suffix))
        rows = [cupti_folder.at(start, start + 5, name=0) for start in (10, 20)]
        copies = [cupti_folder.at(30, 40, bytes=64, copy_kind=1, src_kind=1, dst_kind=3)]
        folders.append(cupti_folder.write(folder / "cupti", kernels=rows, memcpys=copies))
        folders.append(_run(folder / "run"))
        pack(folder / "run", Output(folder / "run.zip"))
        archives = [folder / "run.zip", *fuzz.ROOT.glob("sample_logs/**/*.gpuprof")]
        packed = {path.name: {path.name: path.read_bytes()} for path in archives}
        return packed | {path.name: _files(path) for path in folders}


def _run(folder):
    """A run as `gpuprof record --monitor` leaves it."""
    folder.mkdir()
    (folder / "log.txt").write_text(test_nvprof_text.LOG, encoding="utf-8")
    epochs = ({"epoch": 0, "seconds": 2.0, "steps": 4, "started_at_unix_ns": EPOCH_NS},)
    run = Manifest("nvprof", "dual", ("./a",), "2026-01-02", recordings=("log.txt",), epochs=epochs)
    finish_manifest(folder, run)
    sample = {"unix_ns": EPOCH_NS, "device_id": 0, "utilisation": 0.5, "power_w": 99.5}
    (folder / MONITOR).write_text(f"{json.dumps(sample)}\n" * 2, encoding="utf-8")
    return folder


def _files(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _converted(single):
    """What `convert` makes of those that are read."""
    converted = {}
    for name, files in single.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "converted.gpuprof"
            try:
                write(gpuprof.read_profile(_written(files, Path(folder))), path)
            except GpuprofError:
                continue
            content = path.read_bytes()
        converted[f"{name}.gpuprof"] = {path.name: content}
    return converted


def _written(files, folder):
    """The file, or the folder of several, under its own name."""
    for name, content in files.items():
        path = folder / "recording" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (path, *siblings) = (folder / "recording").iterdir()
    return path.parent if siblings or path.is_dir() else path


def try_one(_, files):
    """Read a recording and use it; the reader's name, or None if it is refused.

    Raises:
        AssertionError: A message has several lines, or a number is one that cannot be.
        Exception: Whatever else than a `GpuprofError` is raised.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            return _use(gpuprof.read_profile(_written(files, folder)), folder)
        except GpuprofError as error:
            message = error.message
    assert "\n" not in message, message
    return None


def _use(profile, folder):
    tables = {table: profile.table(table).num_rows for table in profile.sources}
    report = reports.report(profile, NAMES)
    for name, table in report.tables.items():
        if table is not None:
            fault = analysis_named(name).schema.fault(table)
            # A slice of a recording may last as long as any two of its activities are apart.
            assert fault is None or "13 days" in fault, f"{name}: {fault}"
    for renderer in ("terminal", "markdown", "csv", "json"):
        renderer_named(renderer).report(report, Page())
    path = folder / "converted.gpuprof"
    write(profile, path)
    again = _readable(path)
    assert tables == {table: again.table(table).num_rows for table in again.sources}
    exporter = EXPORTERS["perfetto"]
    if all(map(profile.has, exporter.NEEDS)):
        with (folder / "trace").open("wb") as file:
            exporter.write(profile, file)
    return profile.origin.reader


def _readable(path):
    try:
        return gpuprof.read_profile(path)
    except GpuprofError as error:
        msg = f"converted, it is refused: {error.message}"
        raise AssertionError(msg) from error


def main():
    """Try changes until the time is up; the exit status says whether a fault was found."""
    options = fuzz.arguments(__doc__.splitlines()[0])
    rng = random.Random(options.seed)  # noqa: S311 - no secret
    chosen = {
        name: files
        for name, files in seeds().items()
        if not options.names or any(part in name for part in options.names)
    }
    trials, end = fuzz.Trials(try_one), time.monotonic() + options.seconds
    os.environ["GPUPROF_CACHE"] = str(fuzz.FOUND / "cache")
    while time.monotonic() < end:
        name = rng.choice([*chosen])
        if name not in trials.usual_bytes:
            trials.learn(name, chosen[name])
        files = chosen[name]
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            files = structures.changed_files(files, rng)
        trials.add(name, files)
    return trials.end()


if __name__ == "__main__":
    sys.exit(main())
