"""Recordings of calls of one thread and of what they launch, with times in µs."""

from recordings import copy, kernel, trace

US = 1_000
PLACE = {"process_id": 1, "device_id": 0, "context_id": 1}
SPAN = {"range_kind": "push_pop", "process_id": 1, "thread_id": 1}
PAGEABLE = {"src_memory_kind": "pageable", "dst_memory_kind": "device", "bytes": 1000}


def call(name, start, end, number, thread=1):
    return {
        "name": name, "start_ns": start, "end_ns": end, "process_id": 1, "thread_id": thread,
        "correlation_id": number,
    }  # fmt: skip


def launched(*events, **tables):
    """A recording of calls, and of the kernels and copies from pageable memory that they launch.

    Args:
        events: Name of a call, its start and end in us, and None or name (or kind of a copy),
            start and end of what it launches, and its stream if it is not 7.
        tables: Rows of other tables.
    """
    rows = {"kernels": [], "memcpys": [], "api_calls": []}
    for number, (name, start, end, work) in enumerate(events, 1):
        rows["api_calls"].append(call(name, round(start * US), round(end * US), number))
        if work is None:
            continue
        label, begin, finish, *stream = work
        its = {"correlation_id": number, "stream_id": (*stream, 7)[0]} | PLACE
        if label in {"HtoD", "DtoH"}:
            made = copy(label, round(begin * US), round(finish * US), **its, **PAGEABLE)
            rows["memcpys"].append(made)
        else:
            rows["kernels"].append(kernel(label, round(begin * US), round(finish * US), **its))
    return trace(**rows | tables)
