"""XSpace files made by hand: what a profiler of TensorFlow writes, byte by byte."""


def number(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(key, value):
    if isinstance(value, int):
        return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value


def entry(key, message):
    return field(1, key) + field(2, message)


def space(*threads):
    """A host plane; a thread is a list of (name, start_ns, end_ns, stats) events."""
    kinds, stats = {}, {}
    lines = [field(3, _line(thread, kinds, stats)) for thread in threads]
    names = [field(4, entry(i, _kind(i, name))) for name, i in kinds.items()]
    keys = [field(5, entry(i, field(2, name.encode()))) for name, i in stats.items()]
    return field(1, field(2, b"/host:CPU") + b"".join(lines + names + keys))


def _line(thread, kinds, stats):
    return b"".join(field(4, _event(event, kinds, stats)) for event in thread)


def _event(event, kinds, stats):
    name, start_ns, end_ns, values = event
    head = field(1, kinds.setdefault(name, len(kinds) + 1))
    times = field(2, start_ns * 1000) + field(3, (end_ns - start_ns) * 1000)
    return head + times + b"".join(field(4, _stat(k, v, stats)) for k, v in values.items())


def _stat(key, value, stats):
    head = field(1, stats.setdefault(key, len(stats) + 1))
    return head + (field(4, value) if isinstance(value, int) else field(5, value.encode()))


def _kind(number_of_it, name):
    operation = name.rpartition(":")
    shown = operation[2] if operation[1] and "::" not in name else ""
    is_operation = shown and " " not in name
    return (
        field(1, number_of_it)
        + field(2, name.encode())
        + (field(4, shown.encode()) if is_operation else b"")
    )
