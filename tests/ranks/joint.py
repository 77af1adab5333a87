"""The same recordings as one joined recording and as a job whose files workers reduce."""

from dataclasses import replace
from pathlib import Path

from gpuprof.analyses import ANALYSES
from gpuprof.analyses.reports import report
from gpuprof.model.data_model import BY_NAME
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.ranks.partial import analyses_of, is_mergeable, job_profile, merged, reduced


def mergeable():
    """The analyses that answer for a job whose files are read one by one."""
    return [*filter(is_mergeable, ANALYSES), "ranks_over_time", "ranks_in_step"]


def partial_of(profiles, names=None, order=None):
    """What the job is reduced to, merged two by two.

    Args:
        profiles: The files of the job.
        names: The analyses that are asked for; all that can be by default.
        order: The places of the files in the order in which they are merged.
    """
    analyses = analyses_of(mergeable() if names is None else names)
    files = [replace(profile, file_count=len(profiles)) for profile in profiles]
    partials = [reduced(profile, place, analyses) for place, profile in enumerate(files)]
    partials = [partials[place] for place in order or range(len(partials))]
    while len(partials) > 1:
        pairs = [partials[place : place + 2] for place in range(0, len(partials), 2)]
        partials = [merged(pair, analyses) if len(pair) > 1 else pair[0] for pair in pairs]
    return partials[0]


def job_report(profiles, names=None, order=None):
    """The report of workers."""
    chosen = mergeable() if names is None else names
    return report(job_profile(partial_of(profiles, chosen, order), Path("job")), chosen)


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
