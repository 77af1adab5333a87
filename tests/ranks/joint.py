"""The same recordings as one joined recording and as a job whose files are reduced one by one."""

import math
from dataclasses import replace
from pathlib import Path

from gpuprof.analyses import ANALYSES, analysis_named
from gpuprof.model.profile import Origin, Profile
from gpuprof.model.schema import BY_NAME
from gpuprof.ranks.merged import report_of
from gpuprof.ranks.partial import analyses_of, is_mergeable, merged, reduced


def mergeable():
    """The analyses that answer for a job whose files are read one by one."""
    return [*filter(is_mergeable, ANALYSES)]


def partial_of(profiles, names=None):
    """What the job is reduced to, merged two by two."""
    analyses = analyses_of(mergeable() if names is None else names)
    partials = [reduced(profile, place, analyses) for place, profile in enumerate(profiles)]
    while len(partials) > 1:
        pairs = [partials[place : place + 2] for place in range(0, len(partials), 2)]
        partials = [merged(pair, analyses) if len(pair) > 1 else pair[0] for pair in pairs]
    return partials[0]


def job_report(profiles, names=None):
    chosen = mergeable() if names is None else names
    return report_of(partial_of(profiles, chosen), chosen, Path("job"))


def exact():
    """The tables that are equal on both ways, whatever the job."""
    return [name for name in mergeable() if not analysis_named(name).merge.accuracy]


def alike(first, second):
    """Whether two tables hold the same values: floats up to rounding."""
    rows = first.to_pylist(), second.to_pylist()
    return len(rows[0]) == len(rows[1]) and all(map(_same, *rows))


def _same(first, second):
    return first.keys() == second.keys() and all(_equal(first[n], second[n]) for n in first)


def _equal(first, second):
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-9)
    return first == second


def ranks_of(profile, epochs_ns=None, hosts_devices=None):
    """A drawn job as one file per rank: each has the rows of a device, which it calls 0.

    Args:
        profile: The job; its devices are its ranks.
        epochs_ns: When the clock of each file began; what lies before would be negative.
        hosts_devices: The number of each rank's device; 0 for all.
    """
    rows = {name: profile.table(name).to_pylist() for name in profile.sources}
    devices = sorted({row["device_id"] for row in rows["kernels"]})
    epochs_ns = epochs_ns or [0] * len(devices)
    numbers = hosts_devices or [0] * len(devices)
    return [
        _file(rows, device, epoch_ns, number)
        for device, epoch_ns, number in zip(devices, epochs_ns, numbers, strict=True)
    ]


def _file(rows, device, epoch_ns, number):
    on_device = {
        name: [row for row in table if row["device_id"] == device]
        for name, table in rows.items()
        if name in ("kernels", "memcpys", "memsets")
    }
    launched = {row["correlation_id"] for table in on_device.values() for row in table}
    on_host = {
        name: [row for row in table if name != "api_calls" or row["correlation_id"] in launched]
        for name, table in rows.items()
        if name not in on_device
    }
    place = {"device_id": number, "process_id": 100 + device}
    tables = {
        name: BY_NAME[name].table([_placed(row, place, epoch_ns) for row in table])
        for name, table in (on_device | on_host).items()
    }
    origin = Origin(Path(f"rank{device}.sqlite"), "drawn", "by hand", epoch_ns=epoch_ns)
    return Profile(origin, tables)


def _placed(row, place, epoch_ns):
    times = {name: row[name] - epoch_ns for name in ("start_ns", "end_ns") if name in row}
    return row | {name: value for name, value in place.items() if name in row} | times


def of_rank(profile, rank):
    """A drawn recording as that of a rank."""
    runs = BY_NAME["runs"].table([{"run_id": 0, "process_id": 100 + rank, "rank": rank}])
    origin = replace(profile.origin, source=profile.origin.source.with_name(f"rank{rank}.sqlite"))
    return replace(profile.with_table("runs", runs), origin=origin)
