"""What real files sum up to by kind, and printed shares against those computed from times.

The tables of expectations are written by ``pytest --update-expected`` with this file; their
difference is to be reviewed like code.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from contract import CORPUS, TOOL_NEEDED, corpus_files

from gpuprof.analyses.activity_summary import activity_summary
from gpuprof.base.errors import GpuprofError
from gpuprof.facts.activity_sums import TABLES
from gpuprof.model import schema
from gpuprof.readers import find_reader, read_profile

EXPECTATIONS = Path(__file__).parent / "expectations"
CATEGORIES = ("nsys-rep", "nsys-sqlite", "nvprof-csv", "nvprof-text")
# The file's name, then its figures, or dashes and the reason for which it is refused.
HEADINGS = (
    "file", "runs", "kernel_rows", "kernel_ns", "copies", "memset_ns", "api_rows", "api_ns",
    "notes_or_refusal",
)  # fmt: skip
FILES = [path for path in corpus_files() if path.parent.name in CATEGORIES]
PRINTED = [path for path in FILES if path.parent.name.startswith("nvprof-")]
# Which reports are too new depends on the nsys that opens them.
INSTALLED = "2023.4"

pytestmark = pytest.mark.skipif(not FILES, reason="the corpus of real files is not here")


def params(paths):
    return [
        pytest.param(
            path,
            id=str(path.relative_to(CORPUS)),
            marks=[pytest.mark.profilers] if path.suffix in TOOL_NEEDED else [],
        )
        for path in paths
    ]


@cache
def installed():
    if shutil.which("nsys") is None:
        return None
    return subprocess.run(["nsys", "--version"], capture_output=True, text=True, check=True).stdout


def told(path):
    """The totals of a recording, or the reason for which it is refused."""
    try:
        return figures(read_profile(path))
    except GpuprofError as error:
        return ["-"] * 7 + [error.message.replace(str(path), "FILE")]


def figures(profile):
    has_sums = any(profile.has(table) for table in TABLES)
    table = activity_summary(profile) if has_sums else schema.ACTIVITY_SUMMARY.empty()
    rows = {"kernel": [], "memcpy": [], "memset": [], "api": []}
    for row in table.to_pylist():
        rows[row["activity_kind"]].append(row)
    totals = {kind: sum(row["total_ns"] or 0 for row in some) for kind, some in rows.items()}
    copies = {}
    for row in rows["memcpy"]:
        calls, total_ns = copies.get(row["name"], (0, 0))
        copies[row["name"]] = calls + row["calls"], total_ns + (row["total_ns"] or 0)
    found = (
        profile.table("runs").num_rows if profile.has("runs") else 0,
        len(rows["kernel"]),
        totals["kernel"],
        " ".join(f"{kind}:{calls}:{ns}" for kind, (calls, ns) in sorted(copies.items())) or "-",
        totals["memset"],
        len(rows["api"]),
        totals["api"],
        len(profile.origin.warnings),
    )
    return [str(figure) for figure in found]


def expectations(category):
    lines = (EXPECTATIONS / f"{category}.tsv").read_text("utf-8").splitlines()
    return {name: row for name, *row in (line.split("\t") for line in lines[1:])}


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_real_file_has_an_expectation(category, update_expected):
    paths = [path for path in FILES if path.parent.name == category]
    if update_expected:
        rows = [HEADINGS, *([path.name, *told(path)] for path in paths)]
        text = "".join("\t".join(row) + "\n" for row in rows)
        (EXPECTATIONS / f"{category}.tsv").write_text(text, encoding="utf-8")

    assert sorted(expectations(category)) == sorted(path.name for path in paths)


@pytest.mark.parametrize("path", params(FILES))
def test_real_file_has_its_totals_or_its_refusal(path):
    if path.suffix in TOOL_NEEDED and f"version {INSTALLED}." not in str(installed()):
        pytest.skip(f"these refusals are those of nsys {INSTALLED}")

    assert told(path) == expectations(path.parent.name)[path.name]


# Nanoseconds of GPU work of each recording that a file holds, added up by hand from its tables.
SECTIONS = {
    "dlprof_article.md": (13_069_600_000, 10_097_800_000, 6_921_090_000),
    "sankar_history_multipid.txt": (1_043_030_118, 347_821_976),
    "nichitapavel_7runs.txt": (3_403_264, 222_848, 4_657_420, 1_106_631_983),
    "rauhul_readme_old.md": (20_365_700, 14_895_200_000),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_recordings_of_a_real_file_are_told_apart(name):
    path = CORPUS / "nvprof-text" / name
    found = []
    for number, _ in enumerate(SECTIONS[name], 1):
        rows = read_profile(path, section=number).table("activity_summary").to_pylist()
        found.append(sum(row["total_ns"] for row in rows if row["activity_kind"] != "api"))

    assert tuple(found) == SECTIONS[name]
    with pytest.raises(GpuprofError, match=f"holds {len(found)} recordings, which are not added"):
        read_profile(path)


@pytest.mark.parametrize("path", params(PRINTED))
def test_shares_recomputed_from_times_agree_with_the_printed_ones(path):
    first, *_, reason = expectations(path.parent.name)[path.name]
    if first == "-" and not reason.endswith("which are not added up"):
        pytest.skip("it is refused")
    sections = {}
    for row in find_reader(path).read(path).table("activity_summary").to_pylist():
        if row["printed_share"] is not None:
            section = sections.setdefault((row["run_id"], row["activity_kind"] == "api"), [])
            section.append((row["total_ns"], row["printed_share"]))

    for rows in sections.values():
        listed = sum(share for _, share in rows)
        # Rows that somebody left out are part of the printed shares' total.
        total = sum(ns for ns, _ in rows) / (listed if listed < 0.995 else 1)
        assert [ns / total for ns, _ in rows] == pytest.approx([s for _, s in rows], abs=1.2e-4)
