"""Drawn reports of Nsight Systems: messages as protocol buffers, packed as LZ4 without matches."""

from xspaces import field
from xspaces import number as varint

HEAD = b"NVIDIA Tegra Profiler Report \x01"
END = b"U3w[END]"
PROCESS = 7
GLOBAL_PID = PROCESS << 24
KERNEL, COPY, MEMSET, SYNCHRONIZATION, CUDA_EVENT, GRAPH = 101, 102, 103, 105, 106, 107
TYPES = {KERNEL: 79, COPY: 80, MEMSET: 80, SYNCHRONIZATION: 106, CUDA_EVENT: 127, GRAPH: 130}
STRINGS = ("[Unknown]", "void work(int)", "work", "cudaLaunchKernel_v7000", "read")


def message(*fields):
    """A message of (number, value) fields: integers, texts, bytes, and messages as tuples."""
    parts = []
    for number, value in fields:
        data = value.encode() if isinstance(value, str) else value
        parts.append(field(number, message(*data) if isinstance(data, tuple) else data))
    return b"".join(parts)


def lz4(data):
    """An LZ4 block of literals alone."""
    size = len(data)
    if size < 15:
        return bytes([size << 4]) + data
    rest = size - 15
    return b"\xf0" + b"\xff" * (rest // 255) + bytes([rest % 255]) + data


def block(*fields):
    """A block with its sizes; of no fields, an empty one."""
    inner = message(*fields)
    data = varint(len(inner)) + inner
    packed = lz4(data)
    return varint(len(packed)) + varint(len(data)) + packed


def activity(kind, start, end, *fields, **place):
    """A kernel, copy, or what else CUDA did; ``place`` says where and by whom."""
    usual = {"stream": 7, "device": 0, "correlation": 1, "process": PROCESS} | place
    stream, device, correlation, process = usual.values()
    times = ((1, start), (2, end), (3, correlation))
    where = ((4, device), (5, 1), (6, stream), (7, 3), (8, process << 24))
    return (1, TYPES[kind]), (107, (*times, *where, (kind, fields)))


def kernel(start, end, **place):
    """A kernel."""
    launch = ((10, 4), (11, 1), (12, 1), (13, 128), (14, 1), (15, 1), (16, 0), (17, 64), (21, 32))
    return activity(KERNEL, start, end, (1, 1), (2, 2), *launch, **place)


def call(start, end, name=3, event_class=0, correlation=1):
    """A call of CUDA's runtime, or of another class."""
    fields = ((1, start), (2, end), (3, correlation), (6, event_class), (7, name), (8, 0))
    return (1, 48), (108, (*fields, (13, GLOBAL_PID | 9)))


def nvtx(start, end, *text, event_type=59, domain=0):
    """An NVTX range."""
    times = ((1, event_type), (2, start), *(((10, end),) if end is not None else ()))
    return (1, event_type), (102, (*times, *text, (9, GLOBAL_PID | 9), (13, domain), (14, 1)))


def diagnostic(text, level=2):
    """A message of nsys on the recording."""
    return (1, 49), (110, ((2, 1), (3, level), (4, text)))


def process(name):
    """A process by its name."""
    return (1, 27), (113, ((1, 0), (2, GLOBAL_PID), (6, name)))


EVENTS = (process("train"), call(1, 5), kernel(10, 30), nvtx(0, 40, (7, "step")))
DEVICE = (
    (1, 0), (2, "Drawn GPU"), (3, "0000:01:00.0"), (11, 1 << 30), (12, 10**11), (13, 10**9),
    (14, 8), (41, 8), (42, 6),
)  # fmt: skip


def report(
    events=EVENTS,
    strings=STRINGS,
    *,
    declared=(None, None, None),
    version="2023.4.1.1-drawn",
    **parts,
):
    """A report as bytes.

    Args:
        events: What it holds, each as fields.
        strings: Its texts.
        declared: How many events, texts and threads the index declares; None for all.
        version: Of the nsys that recorded.
        parts: ``blocks`` in place of those of the events and ``end`` in place of where they end,
            more fields of ``head`` and ``tail``, ``codec``, and whether CUDA was ``traced``.
    """
    halves = [events[: len(events) // 2], events[len(events) // 2 :]]
    packed = b"".join(block(*((1, e) for e in half)) for half in halves if half)
    packed = parts.get("blocks", packed)
    counts = [
        have if said is None else said
        for said, have in zip(declared, (len(events), len(strings), 1), strict=True)
    ]
    index = ((1, counts[0]), (3, counts[1]), (5, counts[2]), (9, parts.get("codec", "lz4")))
    program = ((1, 4), (10, "./train"), (11, "--fast"), (20, 1), (21, parts.get("traced", 1)))
    clocks = [((1, a), (2, b), (5, str(v)), (6, "Offset")) for a, b, v in OFFSETS]
    first = message(
        (2, ((26, program),)), (16, tuple((1, clock) for clock in clocks)), (17, 0), (18, 10**9),
        *parts.get("head", ()),
    )  # fmt: skip
    threads = message((1, ((2, 2), (3, 20), (4, GLOBAL_PID | 9))))
    gpus = message((1, ((1, 0), (2, ((7, DEVICE),)))), (14, CONTEXT), *parts.get("tail", ()))
    start = b"QDTEXT00" + b"".join(varint(len(m)) + m for m in (first, message(*index)))
    texts = block(*((1, text) for text in strings)) if strings else b""
    rest = b"".join(varint(len(m)) + m for m in ([threads] if counts[2] else []) + [gpus])
    offset = parts.get("end", len(start) + len(packed) - 8)
    about = message((4, "2026-01-01T00:00:00"), (5, "drawn"), (6, version), (7, version))
    named = (
        ("Raw Sampling Data", start + packed + texts + rest),
        ("Sampling Data Offsets", message((1, 2), (2, offset))),
        ("UI Data", about),
    )
    return container(named)


OFFSETS = ((3, 9, -10), (1, 3, -10), (7, 1, -1_700_000_000_000_000_000))
CONTEXT = ((1, 7), (2, 0), (3, 1), (4, PROCESS), (5, 0), (6, 1))


def container(sections, moved=None):
    """Sections with their footer; ``moved`` gives the footer other places, by name."""
    data, entries = HEAD, []
    for name, content in sections:
        place = (moved or {}).get(name, (len(data), len(content)))
        entries.append((1, ((1, name), (2, place[0]), (3, place[1]))))
        data += content
    return data + message(*entries) + len(data).to_bytes(8, "little") + END
