"""Small random recordings for hypothesis: rows as `drawing.draw` takes them."""

from hypothesis import strategies as st

PROCESSES = st.sampled_from([100, 100, None])
# Kind, source and destination, and the device it runs on; of staged copies, one half each.
_MOVES = (
    ("HtoD", None, None, 0, None),
    ("HtoD", None, None, 1, None),
    ("DtoH", None, None, 0, None),
    ("UVM_DtoH", None, None, 1, None),
    ("HtoH", None, None, 0, None),
    ("DtoD", 0, 0, 0, None),
    ("DtoD", 1, 0, 1, None),
    ("PtoP", 0, 1, 0, "direct"),
    ("PtoP", 0, 1, 1, "direct"),
    ("PtoP", 1, 0, 1, None),
    ("DtoH", 0, 1, 0, "staged"),
    ("HtoD", 0, 1, 1, "staged"),
)
_NAMES = ("memcpy_kind", "src_device_id", "dst_device_id", "device_id", "path")
MOVES = st.sampled_from([dict(zip(_NAMES, move, strict=True)) for move in _MOVES])


def rows(columns, latest=60, longest=20, **lists):
    """Lists of rows with a strategy per column, or one for all columns."""
    if isinstance(columns, dict):
        columns = st.fixed_dictionaries(columns)
    return st.lists(
        st.builds(
            lambda start, length, row: (start, start + length, row),
            st.integers(0, latest),
            st.integers(0, longest),
            columns,
        ),
        **{"max_size": 8} | lists,
    )


def instants(found):
    """All instants at which one of the rows runs."""
    return {at for start, end, _ in found for at in range(start, end)}


def ends_of(copy):
    """The devices whose time a copy takes: a staged half's own, or all that it names."""
    if copy["path"] == "staged":
        return {copy["device_id"]}
    return {copy["device_id"], copy["src_device_id"], copy["dst_device_id"]} - {None}


def is_transfer(copy):
    """Whether it goes between the memories of two devices, the host being one."""
    return (
        copy["memcpy_kind"] not in {"HtoH", "DtoD"}
        or copy["src_device_id"] != copy["dst_device_id"]
    )


def painted(kernels, memcpys, memsets=()):
    """By device: its span, and its instants of each kind that nothing of the kinds before hides.

    The kinds are compute, communication, transfers, local copies with memsets, and idle time.
    """
    found = {}
    for device in (0, 1):
        mine = [row for row in kernels if row[2]["device_id"] == device]
        copies = [row for row in memcpys if device in ends_of(row[2])]
        sets = [row for row in memsets if row[2]["device_id"] == device]
        if every := [*mine, *copies, *sets]:
            left = span = set(range(min(s for s, _, _ in every), max(e for _, e, _ in every)))
            found[device] = [span]
            for kind in (
                [row for row in mine if not row[2].get("name", "").startswith("nccl")],
                mine,
                [row for row in copies if is_transfer(row[2])],
                [*copies, *sets],
            ):
                found[device].append(instants(kind) & left)
                left = left - instants(kind)
            found[device].append(left)
    return found
