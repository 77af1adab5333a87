"""Recordings of steps that each do the same work."""

from itertools import accumulate

from drawing import draw

US = 1_000
PEER = {"memcpy_kind": "PtoP", "path": "direct", "src_device_id": 0, "dst_device_id": 1}
HTOD = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pinned", "bytes": 8}
DTOH = {"memcpy_kind": "DtoH", "src_device_id": 0, "dst_memory_kind": "pinned", "bytes": 8}
DTOD = {"memcpy_kind": "DtoD", "bytes": 8}


def kernel(**row):
    return {"name": "matmul", "stream_id": 7} | row


LAYOUT = kernel(name="nchwToNhwcKernel")
REDUCE = kernel(name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")


def launched(*works, name="matmul", call_us=1, calls=()):
    """Kernels with the calls that launch them.

    Args:
        works: Launch, start and end of each kernel in us, and perhaps more of its row.
        name: That of the kernels, perhaps with a place for the number of each.
        call_us: How long each call takes.
        calls: Further calls.
    """
    rows, launches = [], []
    for number, (launch, start, end, *row) in enumerate(works):
        call = {"correlation_id": number}
        named = {"name": name.format(number)} | (row[0] if row else {})
        rows.append((start * US, end * US, call | named))
        launches.append((launch * US, (launch + call_us) * US, call))
    return draw(kernels=rows, api_calls=[*launches, *calls])


def table_of(what):
    return "memcpys" if "memcpy_kind" in what else "kernels"


def steps(count, step_us, *events, **others):
    """A recording of steps, each with the same events at the same times within it.

    Args:
        count: How many steps.
        step_us: Length of a step.
        events: ``(launched, start, end, kernel or copy)`` in us within the step.
        others: Further tables: functions of a step's number that give its rows.
    """
    tables = {"kernels": [], "memcpys": [], "api_calls": [], "nvtx_ranges": []}
    number = 0
    for step in range(count):
        at = 1_000_000 + step * step_us * US
        marks = (at, at + (step_us - 1) * US, {"text": f"step {step}"})
        tables["nvtx_ranges"].append(marks)
        for launched, start, end, what in events:
            number += 1
            table, call = table_of(what), {"correlation_id": number}
            tables[table].append((at + start * US, at + end * US, what | call))
            call["name"] = "cudaMemcpyAsync" if table == "memcpys" else "cudaLaunchKernel"
            tables["api_calls"].append((at + launched * US, at + (launched + 1) * US, call))
    for name, more in others.items():
        tables[name] = tables.get(name, []) + [row for n in range(count) for row in more(n)]
    return draw(**tables)


def launched_ahead(*events, count=20, step_us=100, mark="step {}", **tables):
    """Steps that the host launches all at once before it waits for the device.

    Args:
        events: Start and end within a step in us, or a function of its number that gives them, and
            the kernel or copy.
        count: How many steps.
        step_us: Length of a step.
        mark: Text of the range that launches a step, with a place for its number; empty for none.
        tables: Further tables.
    """
    rows = {"kernels": [], "memcpys": [], "nvtx_ranges": [], "api_calls": []}
    for number in range(count):
        at, called = (10 + number * step_us) * US, number * len(events) * US
        if mark:
            text = {"text": mark.format(number)}
            rows["nvtx_ranges"].append((called, called + len(events) * US - 1, text))
        for place, (times, what) in enumerate(events):
            start, end = times(number) if callable(times) else times
            call = {"correlation_id": number * len(events) + place}
            rows[table_of(what)].append((at + start * US, at + end * US, what | call))
            rows["api_calls"].append((called + place * US, called + place * US + 100, call))
    end = {"name": "cudaDeviceSynchronize"}
    rows["api_calls"].append((called + len(events) * US, at + step_us * US, end))
    return draw(**rows, **tables)


def queued(*events, count=8, **tables):
    """The same where events, given by their durations in us, follow one another."""
    ends = [*accumulate(took for took, _ in events)]
    timed = [((end - took, end), what) for end, (took, what) in zip(ends, events, strict=True)]
    return launched_ahead(*timed, count=count, step_us=ends[-1], **tables)
