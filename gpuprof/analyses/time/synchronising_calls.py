"""API calls in which the host waits for a device."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema, process_column

SYNCHRONISING_CALLS: Final = Schema(
    "synchronising_calls",
    "all calls of one function of the API that returns when work on a device has ended",
    {
        "name": Column(TEXT, "", "cudaStreamSynchronize, cudaMemcpy, ...", required=True),
        "process_id": process_column("Operating-system process; null where unknown."),
        "calls": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(INT, "ns", "Host time spent in it.", required=True),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "max_ns": Column(INT, "ns", "Longest."),
    },
)


def synchronising_calls(profile: Profile) -> pa.Table:
    """Sum up the calls that wait: synchronisations, synchronous copies and frees.

    Args:
        profile: Needs ``api_calls``.

    Returns:
        One row per function and process, the longest total first, columns as in
        `SYNCHRONISING_CALLS`. It is host time, not to be added to the time of devices.
    """
    return SYNCHRONISING_CALLS.conform(
        profile.query("""
        SELECT name, process_id, count(*) AS calls,
            CAST(sum(end_ns - start_ns) AS BIGINT) AS total_ns,
            avg(end_ns - start_ns) AS mean_ns, max(end_ns - start_ns) AS max_ns
        FROM api_calls WHERE is_waiting GROUP BY name, process_id
        ORDER BY total_ns DESC, name, process_id""")
    )


ANALYSIS: Final = Analysis(
    "Calls that wait for a device",
    SYNCHRONISING_CALLS,
    ("api_calls",),
    synchronising_calls,
    reads(api_calls="start_ns end_ns name process_id is_waiting"),
)
