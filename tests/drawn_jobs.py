"""Jobs of several devices, drawn: steps of known lengths that end in a collective."""

from drawing import draw

ALL_REDUCE = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "stream_id": 9}
STEP_NS = 1_000


def job(compute_ns, steps=8, ends_ns=600, **devices):
    """Steps in which each device computes for its time, then waits for all in a collective."""
    tables = {"nvtx_ranges": [], "api_calls": [], "kernels": []}
    for step in range(steps):
        at = STEP_NS * step
        tables["nvtx_ranges"].append((at, at + STEP_NS, {"text": f"step {step}"}))
        for device, duration_ns in enumerate(compute_ns):
            for place, kernel in enumerate(
                (
                    (at + 50, at + 50 + duration_ns, {}),
                    (at + 50 + duration_ns, at + ends_ns, ALL_REDUCE),
                )
            ):
                call = {"correlation_id": len(tables["api_calls"])}
                tables["api_calls"].append((at + 2 * device + place, at + 2 * device + 1, call))
                start, end, extra = kernel
                tables["kernels"].append((start, end, extra | call | {"device_id": device}))
    return draw(**tables, **devices)
