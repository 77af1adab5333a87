import struct

import pytest
from xspaces import entry, field, number

from gpuprof.native import xspace
from gpuprof.native.xspace import WireError

STATS = field(5, entry(7, field(2, b"to"))) + field(5, entry(8, field(2, b"mul_8")))
METADATA = field(4, entry(3, field(1, 3) + field(2, b"a:_Send") + field(4, b"_Send")))
OTHER = field(4, entry(4, field(1, 4) + field(2, b"noise")))


def plane(*events):
    line = field(1, -5) + field(2, b"tf_Compute") + field(3, 1_000)
    line += b"".join(field(4, event) for event in events)
    return field(1, field(2, b"/host:CPU") + field(3, line) + METADATA + OTHER + STATS)


def event(metadata_id, *stats):
    head = field(1, metadata_id) + field(2, 2_000_999) + field(3, 3_000_000)
    return head + b"".join(field(4, field(1, 7) + stat) for stat in stats)


def test_an_empty_file_has_no_planes():
    assert xspace.space(b"").planes == ()


def test_an_event_has_its_name_its_times_and_its_thread():
    [host] = xspace.space(plane(event(3))).planes
    [line] = host.lines
    [found] = host.events(line)

    assert (host.name, line.line_id, line.name) == ("/host:CPU", -5, "tf_Compute")
    assert (found.metadata.name, found.metadata.display_name) == ("a:_Send", "_Send")
    # 1,000 ns of the line, 2,000.999 ns of the event, cut to whole nanoseconds.
    assert (found.start_ns, found.end_ns) == (3_000, 6_000)


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        pytest.param(field(3, 2**63 + 1), 2**63 + 1, id="uint64"),
        pytest.param(field(4, -7), -7, id="int64-below-zero"),
        pytest.param(field(5, "µ".encode()), "µ", id="text"),
        pytest.param(field(6, b"\xff"), b"\xff", id="bytes"),
        pytest.param(field(7, 8), "mul_8", id="reference-to-a-name"),
        pytest.param(number(2 << 3 | 1) + struct.pack("<d", 0.25), 0.25, id="double"),
    ],
)
def test_a_value_has_its_kind(stat, expected):
    [host] = xspace.space(plane(event(3, stat))).planes
    [found] = host.events(host.lines[0])

    assert host.stats_of(found) == {"to": expected}


def test_unwanted_events_are_skipped():
    [host] = xspace.space(plane(event(4), event(3), event(4))).planes

    assert [e.metadata.name for e in host.events(host.lines[0], {3})] == ["a:_Send"]


def test_an_unknown_kind_of_event_has_no_name():
    [host] = xspace.space(plane(event(99))).planes

    assert [e.metadata.name for e in host.events(host.lines[0])] == [""]


def test_a_file_cut_off_anywhere_is_an_error_or_shorter():
    whole = plane(event(3, field(7, 8)))
    for length in range(1, len(whole)):
        with pytest.raises(WireError, match=r"^byte \d+: "):
            xspace.space(whole[:length])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"\x80" * 11, "byte 0: a number breaks off", id="endless-number"),
        pytest.param(b"\x0b", "byte 1: 3 is an unknown kind of field", id="group"),
        pytest.param(b"\x0a\x05ab", "byte 2: a field of 5 bytes goes beyond the end", id="short"),
    ],
)
def test_bytes_that_are_no_xspace_are_an_error(data, message):
    with pytest.raises(WireError) as caught:
        xspace.space(data)

    assert str(caught.value) == message


def test_a_number_in_place_of_an_events_values_is_an_error():
    [host] = xspace.space(plane(event(3) + field(4, 7))).planes

    with pytest.raises(WireError, match="a number where bytes are expected"):
        list(host.events(host.lines[0]))
