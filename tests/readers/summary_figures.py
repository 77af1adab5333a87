"""What a summary says in one line, and the lines that real files are expected to give."""

from pathlib import Path


def expectations(category):
    """Rows of a table of expectations: file name, then figures or the refusal."""
    path = Path(__file__).parent / f"expectations/{category}.tsv"
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]


def figures(profile):
    rows = {"kernel": [], "memcpy": [], "memset": [], "api": []}
    for row in profile.table("activity_summary").to_pylist():
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
