"""Environments and names of hosts, which nsys keeps in its metadata, are in no output."""

import re
import sqlite3
from contextlib import closing

import pytest
from contract import corpus_files, expectations, few_of_each_writer, name_of

from gpuprof.analyses import reports
from gpuprof.readers import read_profile
from gpuprof.show import RENDERERS, Page, renderer_named

TABLES = ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV")
EXPORTS = [path for path in few_of_each_writer(corpus_files(), 2) if path.suffix == ".sqlite"]
SQLITE, REPORT = "nsys-sqlite", {".nsys-rep", ".qdrep"}
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


def reports_with_exports():
    """Reports with GPU work, each with the export that was made of it: of the same metadata."""
    refused = {name for name, *_, refusal in expectations().values() if refusal != "-"}
    paths = [p for p in corpus_files() if p.suffix in REPORT and name_of(p) not in refused]
    exports = [path.parents[1] / SQLITE / f"{path.stem}.sqlite" for path in paths]
    return [(path, export) for path, export in zip(paths, exports, strict=True) if export.exists()]


WITH_SECRETS = [
    (path, export)
    for path, export in [*((path, path) for path in EXPORTS), *reports_with_exports()]
    if secrets(export)
]


def test_some_exports_and_reports_hold_names_of_hosts_and_an_environment():
    suffixes = [path.suffix for path, _ in WITH_SECRETS]

    assert suffixes.count(".sqlite") > 5
    assert len(suffixes) - suffixes.count(".sqlite") > 5


@pytest.mark.parametrize(
    ("path", "export"), WITH_SECRETS, ids=[path.name for path, _ in WITH_SECRETS]
)
def test_no_output_shows_the_secrets_of_a_recording(path, export):
    report = reports.report(read_profile(path))
    # The command that a person typed is shown; it may hold a folder of theirs.
    hidden = [secret for secret in secrets(export) if secret not in (report.origin.command or "")]

    for name in RENDERERS:
        text = renderer_named(name).report(report, Page(is_wide=True))
        assert not [secret for secret in hidden if secret in text], name
