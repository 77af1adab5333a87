"""Change recordings in search of lines of the readers that no input has reached yet.

    python tests/readers/fuzz_by_coverage.py --seconds 300

Runs atheris over the formats that Python itself parses: texts, CSV, JSON, protobuf. Databases
and Parquet are read by libraries whose lines it does not see: ``fuzz.py`` changes those.
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import atheris

FOLDERS = (*Path(__file__).parents[:3], *Path(__file__).parent.glob("*/"))
sys.path[:0] = [str(folder) for folder in FOLDERS]

with atheris.instrument_imports(include=["gpuprof"]):
    import fuzz

    import gpuprof.readers  # noqa: F401 - to be instrumented

LARGEST = 65_536
PARSED_ELSEWHERE = (b"SQLite format 3", b"PAR1", b"PK")


def _seeds(folder, names):
    """A folder of files to begin with; of larger ones a head with a later part."""
    rng = random.Random(0)  # noqa: S311 - no secret
    for name, content in (fuzz.seeds() | fuzz.real_files()).items():
        is_wanted = not names or any(wanted in name for wanted in names)
        if is_wanted and not content.startswith(PARSED_ELSEWHERE):
            (folder / name).write_bytes(fuzz.part_of(content, rng, LARGEST)[:LARGEST])


def _changed(content, largest, seed):
    """Half of the changes are those of bytes, the others know lines and odd numbers."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    if rng.random() < 0.5:
        return atheris.Mutate(content, largest)
    return rng.choice(fuzz.MUTATIONS)(content, rng)[:largest]


def main():
    """Try inputs until the time is up; the exit status says whether a fault was found."""
    given = fuzz.arguments(__doc__.splitlines()[0])
    trials = fuzz.Trials()
    for name, content in fuzz.seeds().items():
        trials.learn(name, content)  # loads what is imported where it is first used
    trials.usual_bytes["input"] = 0
    end = time.monotonic() + given.seconds

    def try_input(content):
        trials.add("input", content)
        if time.monotonic() > end:
            status = trials.end()
            os._exit(status)  # the search itself never ends

    with tempfile.TemporaryDirectory() as name:
        _seeds(Path(name), given.names)
        options = ["-verbosity=0", "-timeout=60", "-rss_limit_mb=4096", f"-max_len={LARGEST}"]
        words = [sys.argv[0], *options, f"-seed={given.seed + 1}", name]
        atheris.Setup(words, try_input, custom_mutator=_changed)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
