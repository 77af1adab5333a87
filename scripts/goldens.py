"""Keep the answers to many recordings, and show which cells a change of the code changes.

``goldens.py write FOLDER RECORDING...`` before the change, ``goldens.py compare FOLDER`` after it.
Of each recording it keeps all tables as JSON and the text for a terminal, of neighbours in a folder
the comparison, of each job the tables as one process and as workers make them.
"""

import argparse
import contextlib
import gzip
import hashlib
import io
import itertools
import json
import math
import multiprocessing
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent.parent / "sample_logs"
COMPARISONS = 60
WIDTH = "100"  # columns of the terminal
SHOWN = 8  # differences of one command
JSON = ("--format", "json")
_LAST_DIGITS = 1e-12
_SIDES = ("kept", "now")


def commands(recordings: list[Path], jobs: list[Path]) -> list[tuple[str, ...]]:
    """The arguments of gpuprof, one command after the other, the longest first."""
    reports = [("report", str(path)) for path in recordings]
    pairs = [(str(a), str(b)) for a, b in itertools.pairwise(recordings) if a.parent == b.parent]
    spread = pairs[:: max(1, len(pairs) // COMPARISONS)][:COMPARISONS]
    ways = ((), ("--workers=2",))
    return [
        *(("report", str(job), *JSON, *way) for job in jobs for way in ways),
        *((*report, "--all", *JSON) for report in reports),
        *reports,
        *(("compare", *pair, *JSON) for pair in spread),
        *(("compare", *pair) for pair in spread[::4]),
        *(("predict", str(path), "--what", "hide=HtoD", *JSON) for path in recordings[::4]),
    ]


def recordings_in(paths: list[Path]) -> list[Path]:
    """Files by name, those in folders too; what no reader knows is an answer, too."""
    files = [
        file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file() and file.suffix not in {".md", ".tsv"}
    ]
    return [file.resolve() for file in files]


def answer(arguments: tuple[str, ...]) -> str:
    """What a command prints: its exit status, results and notes."""
    from gpuprof.cli import main  # noqa: PLC0415 - in each process, after its environment is set

    output, notes = io.StringIO(), io.StringIO()
    status: object = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(notes):
        try:
            main(arguments)
        except SystemExit as ending:
            status = ending.code
        except Exception:  # noqa: BLE001 - a bug is an answer, too
            status = traceback.format_exc()
    return json.dumps({"status": status, "output": output.getvalue(), "notes": notes.getvalue()})


def place(folder: Path, arguments: tuple[str, ...]) -> Path:
    """The file that keeps an answer."""
    digest = hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]
    return folder / f"{arguments[0]}-{digest}.json.gz"


def differences(kept: Any, now: Any, at: str = "") -> Iterator[str]:
    """Where two JSON values differ: the path of each cell and both values."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in [*kept, *(key for key in now if key not in kept)]:
            yield from differences(kept.get(key), now.get(key), f"{at}.{key}")
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for number, pair in enumerate(zip(kept, now, strict=True)):
            yield from differences(*pair, f"{at}[{number}]")
    elif not are_equal(kept, now):
        yield f"{at or '.'}\n" + "".join(
            f"      {side} {json.dumps(value)[:300]}\n"
            for side, value in zip(_SIDES, (kept, now), strict=True)
        )


def are_equal(kept: object, now: object) -> bool:
    """Whether two values are the same; the last digits of a float depend on the order of a sum."""
    if isinstance(kept, float) and isinstance(now, float):
        return math.isclose(kept, now, rel_tol=_LAST_DIGITS)
    return type(kept) is type(now) and kept == now


def parsed(text: str) -> dict[str, Any]:
    """An answer with its JSON or its lines as values that can be compared cell by cell."""
    values: dict[str, Any] = json.loads(text)
    try:
        values["output"] = json.loads(values["output"])
    except json.JSONDecodeError:
        values["output"] = values["output"].splitlines()
    return values


def answers(cases: list[tuple[str, ...]], processes: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each command with its answer."""
    os.environ |= {"COLUMNS": WIDTH, "NO_COLOR": "1"}
    context = multiprocessing.get_context("spawn")
    # Fresh ones now and then, so that no answer depends on hundreds before it.
    with context.Pool(processes, maxtasksperchild=100) as pool:
        yield from zip(cases, pool.imap(answer, cases, chunksize=1), strict=True)


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("folder", type=Path, help="where the answers are kept")
    parser.add_argument("recordings", type=Path, nargs="*", help="beside sample_logs/")
    parser.add_argument("--job", type=Path, action="append", default=[], help="folder of a job")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def main() -> None:
    """Write or compare; exit status 1 where answers differ."""
    chosen = options()
    cases_file = chosen.folder / "commands.json"
    if chosen.action == "write":
        chosen.folder.mkdir(parents=True, exist_ok=True)
        jobs = [job.resolve() for job in chosen.job]
        cases = commands(recordings_in([SAMPLES, *chosen.recordings]), jobs)
        for arguments, text in answers(cases, chosen.processes):
            place(chosen.folder, arguments).write_bytes(gzip.compress(text.encode(), mtime=0))
        cases_file.write_text(json.dumps(cases))
        print(f"Kept {len(cases)} answers in {chosen.folder}.")
        return
    cases = [tuple(arguments) for arguments in json.loads(cases_file.read_text())]
    changed = 0
    for arguments, text in answers(cases, chosen.processes):
        kept = gzip.decompress(place(chosen.folder, arguments).read_bytes()).decode()
        if kept == text:
            continue
        cells = [*differences(parsed(kept), parsed(text))]
        changed += bool(cells)
        for cell in cells[:SHOWN]:
            print(f"gpuprof {' '.join(arguments)}\n    {cell}", end="")
        if len(cells) > SHOWN:
            print(f"    and {len(cells) - SHOWN} more")
    print(f"{changed} of {len(cases)} answers differ.")
    sys.exit(changed > 0)


if __name__ == "__main__":
    main()
