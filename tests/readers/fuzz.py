"""Change recordings at random for a while, and say what came of it.

    python tests/readers/fuzz.py --seconds 300
    python tests/readers/fuzz_by_coverage.py --seconds 300

On Linux. Starts from the samples, and from the corpus of real files where it is here. An input that
makes a reader fail in any way but with a message, take too long, or take more than twice the
memory of the file that it was made of, is kept in ``fuzz-found/``.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

FOLDERS = (*Path(__file__).parents[:3], *Path(__file__).parent.glob("*/"))
sys.path[:0] = [str(folder) for folder in FOLDERS]

import pandas  # noqa: E402, F401, ICN001 - what it takes is no input's time
from contract import ROOT, TOOL_NEEDED, corpus_files, sample_recordings  # noqa: E402 - the path is set above
from nsys_export import KERNEL, MEMCPY, kernel, memcpy, write  # noqa: E402 - as above

import gpuprof  # noqa: E402 - as above
from gpuprof.base.errors import GpuprofError  # noqa: E402 - as above

LARGEST = 300_000
SECONDS_PER_INPUT = 20
# What the allocators of Arrow and DuckDB keep from one input to the next.
SPARE_BYTES = 64 * 2**20
FOUND = ROOT / "fuzz-found"
# Values at which formats and integers break.
ODD = (
    b"", b"\0", b"-1", b"0", b"1e309", b"NaN", b"99999999999999999999", b"9223372036854775807",
    b"null", b"[]", b"{}", b'"', b",", b"\t", b"\n", b"\r", b"\xff", b"\xef\xbb\xbf", b"%", b"ns",
)  # fmt: skip


def _flip(content, rng):
    """Other bits in a few bytes."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content, rng):
    return content[: rng.randint(0, len(content))]


def _remove(content, rng):
    start, end = _span(content, rng)
    return content[:start] + content[end:]


def _repeat(content, rng):
    start, end = _span(content, rng)
    return content[:end] + content[start:end] * rng.randint(1, 4) + content[end:]


def _move(content, rng):
    start, end = _span(content, rng)
    target = rng.randint(0, len(content))
    return content[:target] + content[start:end] + content[target:]


def _insert(content, rng):
    start, _ = _span(content, rng)
    return content[:start] + rng.choice(ODD) + content[start:]


def _replace(content, rng):
    """Something odd in place of a number or a word."""
    start, end = _span(content, rng)
    return content[:start] + rng.choice(ODD) + content[end:]


def _lines(content, rng):
    """Lines in another order, or left out."""
    lines = content.split(b"\n")
    for _ in range(rng.randint(1, 4)):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a] if rng.random() < 0.8 else b""
    return b"\n".join(lines)


def _span(content, rng):
    start = rng.randint(0, len(content))
    return start, min(len(content), start + rng.choice((1, 2, 4, 8, 16, 64, 512)))


MUTATIONS = (_flip, _cut, _remove, _repeat, _move, _insert, _replace, _lines)


def seeds():
    """Samples and files broken by hand, by name, small enough to be tried often."""
    broken = sorted((ROOT / "tests/readers/broken").iterdir())
    files = [path for path in [*sample_recordings(), *broken] if path.is_file()]
    return {
        path.name: path.read_bytes() for path in files if path.stat().st_size < LARGEST
    } | _made_by_hand()


def real_files():
    """The files of the corpus that gpuprof reads itself, by name; large ones in parts."""
    paths = [path for path in corpus_files() if path.suffix not in TOOL_NEEDED]
    return {path.name: path.read_bytes() for path in paths}


def part_of(content, rng, largest=LARGEST):
    """A large text's head with some later part of it; databases and archives stay whole."""
    if len(content) <= largest or b"\0" in content[:100] or content.startswith(b"\x1f\x8b"):
        return content
    start = rng.randrange(len(content))
    return content[: largest // 4] + content[start : start + largest * 3 // 4]


def try_one(name, content):
    """Read some bytes as a file of this name whole; the reader's name, or None if refused.

    Raises:
        Exception: Whatever else than a `GpuprofError` a reader raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            profile = gpuprof.read_profile(path)
            for table in profile.sources:
                profile.table(table)
        except GpuprofError as error:
            if "\n" in error.message:
                raise AssertionError(error.message) from error
            return None
        return profile.origin.reader


def _made_by_hand():
    """Texts and databases that other tests make, one or more for each reader of files."""
    import rocm  # noqa: PLC0415 - only to borrow what they make
    import test_kineto  # noqa: PLC0415 - as above
    import test_nsys_stats as stats  # noqa: PLC0415 - as above
    import test_nvprof_csv  # noqa: PLC0415 - as above
    import test_nvprof_text  # noqa: PLC0415 - as above
    import test_xplane  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export = write(
            folder / "nsys.sqlite",
            {KERNEL: [kernel(10, 20)], MEMCPY: [memcpy(5, 9, 1), memcpy(30, 34, 2)]},
        )
        events = [test_kineto.KERNEL, test_kineto.event("kernel", "other", 20, 5.5)]
        trace = test_kineto.written(folder, events)
        profile = test_xplane.written(folder, test_xplane.gpu(test_xplane.KERNEL))
        made = {path.name: path.read_bytes() for path in (export, trace, profile)}
        made["rocm.pt.trace.json"] = rocm.written(folder).read_bytes()
    texts = {
        "2019.txt": stats.YEAR_2019,
        "2021.txt": stats.YEAR_2021,
        "2022.txt": stats.YEAR_2022,
        "2024.txt": stats.YEAR_2024,
        "stats.csv": stats.CSV,
        "stats.json": stats.JSON,
        "stats.html": stats.HTML,
        "boxes.txt": stats.BOXES,
        "window.csv": stats.GUI,
        "trace.csv": stats.TRACE,
        "nvprof.txt": test_nvprof_text.LOG,
        "nvprof.csv": test_nvprof_csv.LOG,
    }
    return made | {name: text.encode() for name, text in texts.items()}


@contextmanager
def _time_limit():
    def stop(*_):
        message = f"not read within {SECONDS_PER_INPUT} s"
        raise TimeoutError(message)

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS_PER_INPUT)
    try:
        yield
    finally:
        signal.alarm(0)


def _memory(key):
    """Bytes of this process by the kernel's name for them: ``VmRSS`` now, ``VmHWM`` at most."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def _save(content, path):
    """Keep an input; one of several files as an archive of them."""
    if not isinstance(content, dict):
        path.write_bytes(content)
        return
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in content.items():
            archive.writestr(name, member)


class Trials:
    """Inputs that were tried, and the faults that they found, each kept once."""

    def __init__(self, read=try_one):
        """Trials of a function of an input's name and content: a word for what it did, or None."""
        self.tried, self.found = Counter(), {}
        self.read, self.usual_bytes = read, {}
        FOUND.mkdir(exist_ok=True)
        # Left behind where the interpreter itself dies.
        self.current = FOUND / f"current-{sys.argv[0].rpartition('/')[2]}"

    def learn(self, name, content):
        """Read a file as it is, for what memory it takes."""
        self.usual_bytes[name] = self._read(name, content)

    def add(self, name, content):
        """Read a changed file."""
        _save(content, self.current)
        try:
            taken = self._read(name, content)
            if taken > 2 * self.usual_bytes.get(name, taken) + SPARE_BYTES:
                message = f"{taken:,} bytes of memory, {self.usual_bytes[name]:,} before"
                raise MemoryError(message)  # noqa: TRY301 - kept as any other fault
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            self._keep(name, content, error)

    def _read(self, name, content):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        before = _memory("VmRSS")
        with _time_limit():
            self.tried[self.read(name, content) or "refused"] += 1
        return _memory("VmHWM") - before

    def _keep(self, name, content, error):
        place = traceback.extract_tb(error.__traceback__)[-1]
        key = f"{type(error).__name__} {Path(place.filename).name}:{place.lineno}"
        self.tried["failed"] += 1
        if key not in self.found:
            self.found[key] = error
            _save(content, FOUND / f"{len(self.found)}-{name}")
            print(f"{key}: {str(error)[:200]} ({len(self.found)}-{name})", flush=True)  # noqa: T201 - it talks to a person

    def end(self):
        """Say what came of it; the exit status."""
        self.current.unlink(missing_ok=True)
        total = f"{sum(self.tried.values()):,} inputs"
        print(f"{total}: {dict(self.tried)}; {len(self.found)} faults", flush=True)  # noqa: T201 - it talks to a person
        return 1 if self.found else 0


def fuzz(seconds, seed, names):
    """Try inputs until the time is up; the exit status."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    inputs = [*seeds().items(), *real_files().items()]
    inputs = [pair for pair in inputs if not names or any(name in pair[0] for name in names)]
    trials, end = Trials(), time.monotonic() + seconds
    while time.monotonic() < end:
        name, whole = rng.choice(inputs)
        if name not in trials.usual_bytes:
            trials.learn(name, whole)
        content = part_of(whole, rng)
        for _ in range(rng.randint(1, 4)):
            content = rng.choice(MUTATIONS)(content, rng)
        trials.add(name, content)
    return trials.end()


def arguments(description):
    """What both ways of trying are told on the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", help="only files with one of these in their names")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments(__doc__.splitlines()[0])
    sys.exit(fuzz(given.seconds, given.seed, given.names))
