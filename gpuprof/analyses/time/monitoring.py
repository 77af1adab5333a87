"""What GPUs and host were doing by the samples of the monitor, in all and in each epoch."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, Column, Schema

MONITORING: Final = Schema(
    "monitoring",
    "one device, or the host, in one epoch or the whole run",
    {
        "epoch": Column(INT, "1", "Null for the whole run."),
        "device_id": Column(INT, "", "As NVML numbers GPUs; null for the host."),
        "samples": Column(INT, "1", "How many.", required=True),
        "gpu_utilisation": Column(
            FLOAT, "1", "Mean share of time in which a kernel ran.", label="GPU utilisation"
        ),
        "cpu_utilisation": Column(
            FLOAT, "1", "Mean over all cores of the host.", label="CPU utilisation"
        ),
        "memory_used_bytes": Column(INT, "B", "Most that was in use at a sample."),
        "power_w": Column(FLOAT, "W", "Mean."),
        "temperature_c": Column(FLOAT, "C", "Highest."),
        "sm_clock_hz": Column(FLOAT, "Hz", "Mean.", label="SM clock"),
        "pcie_received_bytes_per_s": Column(FLOAT, "B/s", "Mean.", label="PCIe received"),
        "pcie_sent_bytes_per_s": Column(FLOAT, "B/s", "Mean.", label="PCIe sent"),
        "nvlink_received_bytes": Column(
            INT, "B", "From the first sample to the last.", label="NVLink received"
        ),
        "nvlink_sent_bytes": Column(
            INT, "B", "From the first sample to the last.", label="NVLink sent"
        ),
    },
)

_QUERY: Final = """
    SELECT
        {epoch} AS epoch, device_id, count(*) AS samples,
        avg(gpu_utilisation) AS gpu_utilisation, avg(cpu_utilisation) AS cpu_utilisation,
        max(memory_used_bytes) AS memory_used_bytes, avg(power_w) AS power_w,
        max(temperature_c) AS temperature_c, avg(sm_clock_hz) AS sm_clock_hz,
        avg(pcie_received_bytes_per_s) AS pcie_received_bytes_per_s,
        avg(pcie_sent_bytes_per_s) AS pcie_sent_bytes_per_s,
        max(nvlink_received_bytes) - min(nvlink_received_bytes) AS nvlink_received_bytes,
        max(nvlink_sent_bytes) - min(nvlink_sent_bytes) AS nvlink_sent_bytes
    FROM monitor {where} GROUP BY ALL
"""


def monitoring(profile: Profile) -> pa.Table:
    """Sum up the samples of each device.

    Args:
        profile: Needs ``monitor``.

    Returns:
        The whole run first, then each epoch that has samples; the host before the GPUs. Means
        are of samples, a second apart unless asked for otherwise; what a device does not tell is
        null. Columns as in `MONITORING`.
    """
    run_sql = _QUERY.format(epoch="CAST(NULL AS BIGINT)", where="")
    epoch_sql = _QUERY.format(epoch="epoch", where="WHERE epoch IS NOT NULL")
    rows = profile.query(
        f"SELECT * FROM ({run_sql} UNION ALL {epoch_sql}) "
        "ORDER BY epoch NULLS FIRST, device_id NULLS FIRST"
    )
    return MONITORING.conform(rows)


ANALYSIS: Final = Analysis("Monitor", MONITORING, ("monitor",), monitoring, reads())
