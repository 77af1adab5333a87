"""Figures of real recordings of several GPUs, each computed a second, plain way as well.

The second way reads the recording itself, by sqlite3, and walks over all borders in time
with counters, knowing nothing of readers, tables or intervals.
"""

import csv
import re
import shutil
import sqlite3
import subprocess
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from gpuprof.analyses.breakdown import breakdown
from gpuprof.analyses.collectives import collectives
from gpuprof.analyses.peer_matrix import peer_matrix
from gpuprof.analyses.ranges import ranges
from gpuprof.analyses.transfers import transfers
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
H100 = "nsys-sqlite/GindaChen__nsys-ai__h100_2gpu_1s.sqlite"
MFU = "nsys-sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite"
NVLINK = "nsys-rep/openhackathons__gpubootcamp__jacobi_memcpy_nvlink_report.qdrep"
STAGED = "nsys-rep/openhackathons__gpubootcamp__jacobi_memcpy_sys_report.qdrep"
NCCL = "nsys-rep/NERSC__sc21-dl-tutorial__4gpu_nobroadcast.qdrep"
DEVICES = {H100: 2, MFU: 2, NVLINK: 2, STAGED: 2, NCCL: 1}
PARTS = ("span_ns", "compute_ns", "exposed_communication_ns", "exposed_transfer_ns")
PARTS += ("exposed_local_copy_ns", "idle_ns")


def profilers(name):
    return pytest.param(name, marks=pytest.mark.profilers, id=Path(name).stem)


EXPORTED = [pytest.param(name, id=Path(name).stem) for name in (H100, MFU)]
REPORTS = [profilers(name) for name in (NVLINK, STAGED, NCCL)]


@pytest.fixture(name="exported", scope="session")
def _exported(tmp_path_factory):
    """The recording as SQLite: as it is, or exported by the real nsys."""
    folder = tmp_path_factory.mktemp("exports")

    def export(name):
        source = CORPUS / name
        if not source.exists():
            pytest.skip("the recordings are not on this machine")
        if source.suffix != ".qdrep":
            return source
        if shutil.which("nsys") is None:
            pytest.skip("nsys is not installed")
        target = folder / f"{source.stem}.sqlite"
        if not target.exists():
            command = ["nsys", "export", "--type", "sqlite", "-o", str(target), str(source)]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
        return target

    return export


def split(activities):
    """Device -> span and its parts, from (device, layer, start, end), walking over all borders."""
    borders = defaultdict(list)
    for device, layer, start, end in activities:
        borders[device] += [(start, 1, layer), (end, -1, layer)]
    found = {}
    for device, events in borders.items():
        events.sort()
        parts, running, before = Counter(), Counter(), events[0][0]
        for at, step, layer in events:
            parts[min((one for one in running if running[one]), default=5)] += at - before
            running[layer] += step
            before = at
        found[device] = (before - events[0][0], *(parts[layer] for layer in range(1, 6)))
    return found


def nsys_activities(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        yield from database.execute("""
            SELECT deviceId, CASE WHEN value LIKE '%nccl%kernel%' THEN 2 ELSE 1 END, start, end
            FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName""")
        copies = database.execute("""
            SELECT deviceId, copyKind, start, end, srcDeviceId, dstDeviceId
            FROM CUPTI_ACTIVITY_KIND_MEMCPY""")
        for device, kind, start, end, src, dst in copies:
            for place in {device, src, dst} - {None}:
                yield place, 3 if kind in {1, 2, 10} else 4, start, end
        if "CUPTI_ACTIVITY_KIND_MEMSET" in tables:
            yield from database.execute(
                "SELECT deviceId, 4, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET"
            )


def figures(profile):
    return {
        row["device_id"]: tuple(row[name] for name in PARTS)
        for row in breakdown(profile).to_pylist()
    }


@pytest.mark.parametrize("name", [*EXPORTED, *REPORTS])
def test_breakdown_is_that_of_a_walk_over_the_exports_rows(name, exported):
    path = exported(name)

    found = figures(read_profile(path))
    assert found == split(nsys_activities(path))
    assert len(found) == DEVICES[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(MFU, {(0, 33, 17_172_652), (1, 33, 8_229_100)}, id=Path(MFU).stem),
        pytest.param(NCCL, {(0, 214, 152_562_345)}, marks=pytest.mark.profilers, id="nccl"),
    ],
)
def test_collectives_are_the_kernels_of_nccl(name, expected, exported):
    path = exported(name)

    rows = collectives(read_profile(path)).to_pylist()
    found = {(row["device_id"], row["calls"], row["total_ns"]) for row in rows}
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        plain = database.execute("""
            SELECT deviceId, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL
            JOIN StringIds ON id = demangledName WHERE value LIKE '%nccl%kernel%'
            GROUP BY deviceId""").fetchall()
    assert found == set(plain)
    assert found == expected


@pytest.mark.parametrize(
    ("name", "path", "total_ns"),
    [
        pytest.param(NVLINK, "direct", 16_018_963, id="nvlink"),
        pytest.param(STAGED, "staged", 58_865_973, id="staged"),
    ],
)
@pytest.mark.profilers
def test_peer_copies_count_once_whether_direct_or_staged(name, path, total_ns, exported):
    calls, bytes_moved = 4004, 262_406_144
    source = exported(name)
    profile = read_profile(source)

    (row,) = [r for r in transfers(profile).to_pylist() if r["memcpy_kind"] == "PtoP"]
    assert (row["path"], row["calls"], row["bytes"], row["total_ns"]) == (
        path,
        calls,
        bytes_moved,
        total_ns,
    )
    with closing(sqlite3.connect(source)) as database:
        plain = database.execute("""
            SELECT sum(end - start), sum(CASE WHEN copyKind <> 1 THEN bytes END)
            FROM CUPTI_ACTIVITY_KIND_MEMCPY
            WHERE copyKind = 10 OR (copyKind <> 8 AND srcKind = 2 AND dstKind = 2)""").fetchone()
    assert plain == (total_ns, bytes_moved)
    pairs = [r for r in peer_matrix(profile).to_pylist() if "host" not in {r["src"], r["dst"]}]
    assert sum(r["bytes"] for r in pairs) == bytes_moved
    assert all(r["src_exposed_ns"] == r["src_busy_ns"] for r in pairs)


def nsys_report(report, path):
    """Rows of a report of the real nsys, which says what it does on lines of its own."""
    command = ["nsys", "stats", "-q", "-r", report, "--format", "csv", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return list(csv.DictReader(done.stdout.strip().splitlines()))


def by_name(path):
    return {
        (f"{row['domain']}:" if row["domain"] else "") + row["text"]: row
        for row in ranges(read_profile(path)).to_pylist()
    }


@pytest.mark.profilers
@pytest.mark.parametrize("name", [NVLINK, STAGED, NCCL], ids=["nvlink", "staged", "nccl"])
@pytest.mark.parametrize(
    ("report", "theirs", "ours"),
    [
        pytest.param(
            "nvtx_gpu_proj_sum", ("Range", "Range Instances", "Total Proj Time (ns)"),
            ("active_instances", "projected_ns"), id="projections",
        ),
        pytest.param(
            "nvtx_kern_sum", ("NVTX Range", "Kern Inst", "Total Time (ns)"),
            ("kernel_calls", "kernel_ns"), id="kernels",
        ),
    ],
)  # fmt: skip
def test_work_of_ranges_is_that_of_nsys(name, report, theirs, ours, exported):
    path = exported(name)
    text_column, *columns = theirs
    expected = Counter()
    for row in nsys_report(report, path):
        # gpuprof adds steps up in one row.
        text = re.sub(r"^step \d+$", "step *", row[text_column])
        for place, column in enumerate(columns):
            expected[text, place] += int(row[column])

    assert {
        (text, place): row[name]
        for text, row in by_name(path).items()
        for place, name in enumerate(ours)
        if row[ours[0]]
    } == {key: number for key, number in expected.items() if key[0]}
