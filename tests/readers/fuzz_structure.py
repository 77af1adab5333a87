"""Change the structure of recordings for a while, and use whatever is still read.

    python tests/readers/fuzz_structure.py --seconds 300

Where ``fuzz.py`` changes bytes, this changes typed values, columns, members of archives, trees of
JSON and records. What is read goes through every analysis, the report, `convert` and the export to
Perfetto. Faults are kept in ``fuzz-found/``: what ends in any way but with a message, and numbers
that no recording can hold.
"""

# ruff: noqa: I001 - `fuzz` says first where all others lie
import json
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

import fuzz
import cupti_folder
import structures
import test_data_set
import test_nvprof_text
from cupti_folder import EPOCH_NS
from nsys_export import KERNEL, MEMCPY, export, kernel, memcpy

import gpuprof
from recordings import copy, trace
from gpuprof.analyses import reports
from gpuprof.model import borders, data_model, schema
from gpuprof.analyses import ANALYSES, LONG, analysis_named
from gpuprof.show.archive import pack
from gpuprof.base.errors import GpuprofError
from gpuprof.base.manifest import MONITOR, Manifest, finish_manifest
from gpuprof.readers import inputs
from gpuprof.readers.gpuprof import write_data_set
from gpuprof.readers.gpuprof.write_gpuprof_file import write
from gpuprof.show import renderer_named
from gpuprof.show import Page
from gpuprof.show.exporters import EXPORTERS
from gpuprof.show.output import Output

LARGEST = 1_500_000
LONGEST_MESSAGE = 1_500
# Words of libraries, which say nothing to the user.
FOREIGN = re.compile(
    r"TProtocol|thrift|DuckDB|(?:Binder|Catalog|Conversion|Input|INTERNAL) Error", re.IGNORECASE
)
# What Markdown makes of it is a mail, a link or a formula.
ACTIVE = re.compile(r"@(?=\w)|(?<!<span>)\$|(?<![A-Za-z0-9])https?:(?=/)")
# Not those of the schema, which is what is tried.
BOUNDS = {
    "device_id": (0, 2**15), "src_device_id": (0, 2**15), "dst_device_id": (0, 2**15),
    "peer_device_id": (0, 2**15), "registers_per_thread": (0, 2**16), "epoch": (0, 2**62),
    "rank": (0, 2**62), **{f"grid_{axis}": (0, 2**31) for axis in "xyz"},
}  # fmt: skip
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
        folders.append(_data_set(folder))
        write(_of_all_tables(), folder / "tables.gpuprof")
        pack(folder / "run", Output(folder / "run.zip"))
        archives = [
            folder / "run.zip",
            folder / "tables.gpuprof",
            *fuzz.ROOT.glob("sample_logs/**/*.gpuprof"),
        ]
        packed = {path.name: {path.name: path.read_bytes()} for path in archives}
        return packed | {path.name: _files(path) for path in folders}


def _data_set(folder):
    """Two ranks of a job as `gpuprof convert` writes them into a folder."""
    (folder / "ranks").mkdir()
    test_data_set.hosts(folder / "ranks")
    (folder / "set").mkdir()
    write_data_set.write(gpuprof.read_profile(folder / "ranks"), folder / "set")
    return folder / "set"


def _of_all_tables():
    """A recording that has a row in each table."""
    of_type = {schema.INT: 1, schema.FLOAT: 0.5, schema.TEXT: "a", schema.FLAG: True}
    known = {"end_ns": 9, "source": "cuda", "activity_kind": "kernel", "section": "gpu"}
    profile = trace(
        kernels=[{"start_ns": 0, "end_ns": 9, "name": "k"}], memcpys=[copy("HtoD", 0, 5)]
    )
    for table in data_model.TABLES:
        if not profile.has(table.name):
            row = {name: known.get(name, of_type[c.dtype]) for name, c in table.columns.items()}
            profile = profile.with_table(table.name, table.table([row]))
    return profile


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
        if content == structures.LOOP:
            path.symlink_to(path.name)
        elif content == structures.PIPE:
            os.mkfifo(path)
        else:
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
    assert len(message) <= LONGEST_MESSAGE, message
    assert not FOREIGN.search(message), message
    return None


def _use(profile, folder):
    tables = {table: _rows(profile, table) for table in profile.sources}
    assert (profile.origin.epoch_ns or 0) >= 0, profile.origin.epoch_ns
    report = reports.report(profile, NAMES)
    for name, table in report.tables.items():
        if table is not None:
            fault = borders.fault(analysis_named(name).schema, table)
            # A slice of a recording may last as long as any two of its activities are apart.
            assert fault is None or "13 days" in fault, f"{name}: {fault}"
    for renderer in ("terminal", "markdown", "csv", "json"):
        text = renderer_named(renderer).report(report, Page())
        assert renderer != "markdown" or not ACTIVE.search(text), ACTIVE.search(text)
    path = folder / "converted.gpuprof"
    write(profile, path)
    again = _readable(path)
    assert tables == {table: again.table(table).num_rows for table in again.sources}
    exporter = EXPORTERS["perfetto"]
    if all(map(profile.has, exporter.NEEDS)):
        with (folder / "trace").open("wb") as file:
            exporter.write(profile, file)
    return profile.origin.reader


def _rows(profile, name):
    """How many rows a table has, whose values a recording can hold."""
    table = profile.table(name)
    for column in BOUNDS.keys() & {*table.column_names}:
        least, end = BOUNDS[column]
        beyond = [n for n in table[column].to_pylist() if n is not None and not least <= n < end]
        assert not beyond, f"{name}: {column} {beyond[0]}"
    return table.num_rows


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
    inputs.WRITER_WAIT_S = 0.1
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
