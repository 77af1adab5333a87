"""Environments and names of hosts, which nsys keeps in its metadata, are in no output."""

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest
from contract import CORPUS, TOOL_NEEDED, corpus_files

from gpuprof.analyses import reports
from gpuprof.base.errors import GpuprofError
from gpuprof.readers import read_profile
from gpuprof.show import RENDERERS, Page, renderer_named

TABLES = ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV")
EXPORTS = [path for path in corpus_files() if path.suffix == ".sqlite"]
REPORTS = [path for path in corpus_files() if path.suffix in TOOL_NEEDED - {".qdstrm"}]
# Shorter values, as "1" or "en_US", stand in any text by chance.
SHORTEST = 13

pytestmark = pytest.mark.skipif(not EXPORTS, reason="the corpus of real files is not here")


def secrets(path):
    """Names of hosts and values of environment variables in a database's metadata."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        database.text_factory = lambda value: value.decode("utf-8", errors="replace")
        there = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        rows = [
            row
            for table in there.intersection(TABLES)
            for row in database.execute(f"SELECT name, value FROM {table}")
        ]
    hosts = {value for name, value in rows if name.lower() == "hostname" and value}
    variables = [value or "" for name, value in rows if "environment" in name.lower()]
    values = {
        variable.partition("=")[2].strip('"')
        for text in variables
        for variable in re.split("[;\n]", text)
    }
    return hosts | {value for value in values if len(value) >= SHORTEST}


def check_outputs(path, found):
    try:
        report = reports.report(read_profile(path))
    except GpuprofError as error:
        report, shown = None, {"error": f"{error.message} {error.hint}"}
    if report is not None:
        shown = {
            name: renderer_named(name).report(report, Page(is_wide=True)) for name in RENDERERS
        }
    # The command that a person typed is shown; it may hold a folder of theirs.
    typed = report.origin.command or "" if report is not None else ""
    for output, text in shown.items():
        assert not [s for s in found if s in text and s not in typed], output


WITH_SECRETS = [path for path in EXPORTS if secrets(path)]


def test_some_exports_hold_names_of_hosts_and_an_environment():
    assert len(WITH_SECRETS) > 10


@pytest.mark.parametrize("path", WITH_SECRETS, ids=lambda path: path.name)
def test_no_output_shows_the_secrets_of_an_export(path):
    check_outputs(path, secrets(path))


@pytest.mark.profilers
@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: str(path.relative_to(CORPUS)))
def test_no_output_shows_the_secrets_of_a_report(path, tmp_path):
    metadata = tmp_path / "metadata.sqlite"
    tables = "--tables=" + ",".join(f"^{table}$" for table in TABLES)
    command = ["nsys", "export", "-q", "true", "--type=sqlite", tables, "-o", metadata, path]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or not metadata.exists():
        pytest.skip("the installed nsys cannot open it")

    check_outputs(path, secrets(metadata))
