"""Jobs of several devices, drawn: steps of known lengths that end in a collective."""

from drawing import draw

ALL_REDUCE = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "stream_id": 9}
STEP_NS = 1_000


def job(compute_ns, steps=8, ends_ns=600, late_from=None, late_to=None, **devices):
    """Steps in which each device computes for its time, then waits for all in a collective.

    Args:
        compute_ns: How long each device computes in a step.
        steps: How many steps there are.
        ends_ns: When the collective of a step ends, after its start.
        late_from: By device the step from which on it computes so many times as long.
        late_to: The last step in which it does; None for all.
        devices: More tables of the recording.
    """
    tables = {"nvtx_ranges": [], "api_calls": [], "kernels": []}
    now = 0
    for step in range(steps):
        at = now
        took = [*compute_ns]
        for device, (first, factor) in (late_from or {}).items():
            if first <= step <= (steps if late_to is None else late_to):
                took[device] = round(took[device] * factor)
        late_ns = max(max(took) - max(compute_ns), 0)
        now += STEP_NS + late_ns
        tables["nvtx_ranges"].append((at, now, {"text": f"step {step}"}))
        for device, duration_ns in enumerate(took):
            for place, kernel in enumerate(
                (
                    (at + 50, at + 50 + duration_ns, {}),
                    (at + 50 + duration_ns, at + ends_ns + late_ns, ALL_REDUCE),
                )
            ):
                call = {"correlation_id": len(tables["api_calls"])}
                tables["api_calls"].append((at + 2 * device + place, at + 2 * device + 1, call))
                start, end, extra = kernel
                tables["kernels"].append((start, end, extra | call | {"device_id": device}))
    return draw(**tables, **devices)
