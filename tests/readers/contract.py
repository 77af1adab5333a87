"""Recordings that every reader is tried on, and the figures that a recording comes to."""

from pathlib import Path

from gpuprof.analyses.activity_summary import activity_summary
from gpuprof.facts.activity_sums import TABLES
from gpuprof.readers import find_reader

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_logs"
CORPUS = ROOT.parent / "shared" / "corpus"
# Only the installed nsys can open streams.
TOOL_NEEDED = {".qdstrm"}

HEADINGS = (
    "path", "reader", "kernels", "kernel_ns", "memcpys", "memcpy_ns", "memcpy_bytes", "memsets",
    "api_calls", "api_ns", "warnings", "refusal",
)  # fmt: skip


def sample_recordings():
    """Every sample: a file, or a folder that a recorder made."""
    return sorted(_recordings(SAMPLES)) if SAMPLES.is_dir() else []


def _recordings(folder):
    for path in folder.iterdir():
        if path.is_file() and path.name != "README.md":
            yield path
        elif path.is_dir():
            yield from [path] if _is_recording(path) else _recordings(path)


def _is_recording(folder):
    try:
        return bool(find_reader(folder))
    except Exception:  # noqa: BLE001 - whatever a reader does wrong is a file's test to say
        return False


def corpus_files():
    """Every real file that other people recorded; none where the corpus is not here."""
    return sorted(p for p in CORPUS.rglob("*") if p.is_file() and p.name != "INDEX.tsv")


def figures(profile):
    """Calls, times and bytes of a recording by kind, as words; ``-`` where nothing says."""
    if not any(profile.has(table) for table in TABLES):
        return ["-"] * 8
    rows = activity_summary(profile).to_pylist()

    def total(kind, column):
        values = [row[column] for row in rows if row["activity_kind"] == kind]
        known = [value for value in values if value is not None]
        return str(sum(known)) if known else "-"

    wanted = (
        ("kernel", "calls"), ("kernel", "total_ns"), ("memcpy", "calls"), ("memcpy", "total_ns"),
        ("memcpy", "bytes"), ("memset", "calls"), ("api", "calls"), ("api", "total_ns"),
    )  # fmt: skip
    return [total(*pair) for pair in wanted]
