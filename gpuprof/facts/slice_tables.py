"""What is found in a whole recording, as tables that a file of a part of it keeps.

A part tells neither which steps its border cuts, nor how far the clocks of hosts and devices are
apart: there the device may have had work all the time.
"""

import numpy as np
import pyarrow as pa

from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import launches
from gpuprof.facts.phases import steps_by_phase
from gpuprof.facts.step_times import SAMPLE, STATUS, WARM_UP
from gpuprof.model.data_model import HOST_CLOCKS, RECORDED_STEPS
from gpuprof.model.derived import if_known
from gpuprof.model.profile import Profile


def with_slice_tables(profile: Profile) -> Profile:
    """A recording with tables of its steps, `RECORDED_STEPS`, and of its clocks, `HOST_CLOCKS`.

    One that is a part itself has them.
    """
    if profile.has(RECORDED_STEPS.name) or not profile.has("kernels"):
        return profile
    steps = _steps(profile)
    if profile.has("api_calls"):
        profile = profile.with_table(HOST_CLOCKS.name, _clocks(profile))
    return profile.with_table(RECORDED_STEPS.name, steps)


def _clocks(profile: Profile) -> pa.Table:
    shifts = host_clock(profile).shifts_ns
    return HOST_CLOCKS.table(
        [
            {
                "process_id": if_known(process),
                "is_steady": shifts.get(process, 0) is not None,
                "shift_ns": shifts.get(process, 0),
            }
            for process in sorted({process for process, _ in launches(profile).bounds})
        ]
    )


def _steps(profile: Profile) -> pa.Table:
    rows = []
    for number, steps in enumerate(steps_by_phase(profile)):
        of_phase = {
            "phase": number,
            "name": steps.phase.name,
            "text": steps.text,
            "source": steps.phase.source,
            "process_id": steps.phase.process_id,
            "is_period": bool(len(steps.phase.between)),
        }
        is_whole = np.isin(steps.status, (SAMPLE, WARM_UP))
        times = steps.number, steps.start_ns, steps.end_ns
        columns = *times, steps.status, np.cumsum(is_whole) - is_whole
        per_step = zip(*(column.tolist() for column in columns), strict=True)
        for step, start, end, status, place in per_step:
            row = of_phase | {"step": step, "start_ns": start, "end_ns": end, "place": place}
            row["status"] = STATUS[status]
            rows += [row | {"device_id": if_known(device)} for device in steps.phase.devices]
    rows.sort(key=lambda row: (row["start_ns"], row["end_ns"]))
    return RECORDED_STEPS.table(rows)
