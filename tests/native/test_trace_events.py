"""Pieces of JSON give what Python's decoder gives of the whole text, or are refused."""

import json
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof import native
from gpuprof.native.trace_events import Detail, scanned

pytestmark = pytest.mark.skipif(native.library() is None, reason="the core is not compiled")

KINDS = {"kernel": "kernels", "Kernel": "kernels", "cpu_op": "operations", "python_function": "py"}
ARGUMENTS = ("device", "grid", "registers per thread", "correlation")
DETAILS = {"operations": Detail.TIMES, "py": Detail.PRESENCE}


def scan(text, size=1 << 20):
    data = text if isinstance(text, bytes) else text.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return scanned(pieces, KINDS, ARGUMENTS, DETAILS)


def listed(result):
    """The events of each kind with their attributes decoded."""
    kinds, members = result
    return json.loads(members), {
        kind: [
            (json.loads(rows.events[code]), start, duration, number)
            for code, start, duration, number in zip(
                rows.codes.tolist(),
                rows.start_ns.tolist(),
                rows.duration_ns.tolist(),
                rows.correlation_id.tolist(),
                strict=True,
            )
        ]
        for kind, rows in kinds.items()
    }


KERNEL = (
    '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.25, "dur": 2, "args": '
    '{"device": 0, "grid": [1, 2, 3], "x": {"y": []}, "correlation": 9}}'
)
ATTRIBUTES = {"name": "k", "pid": 0, "tid": 7, "args": {"device": 0, "grid": [1, 2, 3]}}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_event_keeps_its_times_its_correlation_and_what_is_asked_for(size):
    text = f'{{"schemaVersion": 1, "traceEvents": [{KERNEL}, {KERNEL}], "host": "a"}}\n'

    members, kinds = listed(scan(text, size))

    assert members == {"schemaVersion": 1, "host": "a", "traceEvents": []}
    assert kinds == {"kernels": [(ATTRIBUTES, 5250, 2000, 9)] * 2}


def test_events_alike_but_for_their_times_are_one():
    later = KERNEL.replace("5.25", "700").replace("9}", "10}")

    ((rows,), _) = (r.values() if isinstance(r, dict) else r for r in scan(trace(KERNEL, later)))

    assert (len(rows.events), rows.codes.tolist()) == (1, [0, 0])
    assert rows.has_fractions


def trace(*events):
    # Near its end a text is read with more care.
    return f'{{"traceEvents": [{", ".join(events)}{" " * 64}]}}'


@pytest.mark.parametrize(
    ("printed", "ns"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("-1.5", -1500, id="negative"),
        pytest.param("1663735848136753.123", 1663735848136753123, id="since-1970"),
        pytest.param("12345678", 12345678000, id="8-digits"),
        pytest.param("123456789012.05", 123456789012050, id="12-digits"),
        pytest.param("1.0005", 1000, id="half-goes-to-even"),
        pytest.param("1.0015", 1002, id="half-goes-up-to-even"),
        pytest.param("1.00050000001", 1001, id="above-the-half"),
        pytest.param("1.0004999", 1000, id="below-the-half"),
    ],
)
def test_times_are_exact(printed, ns):
    later = KERNEL.replace("5.25", printed)

    rows = listed(scan(trace(later, KERNEL, KERNEL, later)))[1]["kernels"]

    assert rows[0][1] == rows[-1][1] == ns
    assert ns == int((Decimal(printed) * 1000).to_integral_value(ROUND_HALF_EVEN))


def test_what_is_not_asked_for_may_differ_between_events_alike():
    others = ('{"y": []}', "[1]", '"t"', "-1.5e3", "0", "12345678", "null")
    events = [KERNEL.replace('{"y": []}', other) for other in others]

    assert listed(scan(trace(*events)))[1] == {"kernels": [(ATTRIBUTES, 5250, 2000, 9)] * 7}


def test_events_of_any_number_of_names_are_told_apart():
    names = [f"k{number}" for number in range(20_000)] * 2

    rows = scan(trace(*(KERNEL.replace('"k"', f'"{name}"') for name in names)))[0]["kernels"]

    assert [json.loads(rows.events[code])["name"] for code in rows.codes.tolist()] == names


def test_instants_of_the_memory_are_told_from_others_like_them():
    event = '{"ph": "i", "name": "x", "ts": 1, "args": {}}'
    texts = [event, event, event, event.replace('"x"', '"[memory]"')]

    kinds, _ = scanned([trace(*texts).encode()], {"[memory]": "memory"}, ARGUMENTS, {})

    assert kinds["memory"].start_ns.tolist() == [1000]


def test_events_of_which_only_the_presence_is_asked_for_take_no_room():
    python = '{"ph": "X", "cat": "python_function", "name": "f", "ts": "none"}'

    assert listed(scan(trace(python)))[1] == {"py": []}


def test_the_last_of_members_that_repeat_counts():
    text = KERNEL[:-1] + ', "args": {"device": 1, "device": 2}, "ts": 1}'

    ((event, start, _, number),) = listed(scan(trace(text)))[1]["kernels"]

    assert (event["args"], start, number) == ({"device": 2}, 1000, -1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(f"[{KERNEL}]", id="bare-list"),
        pytest.param('{"schemaVersion": 1}', id="no-events"),
        pytest.param(trace(KERNEL)[:-1], id="cut-short"),
        pytest.param(trace(KERNEL) + "x", id="more-behind-it"),
        pytest.param(trace(KERNEL + ","), id="comma-at-the-end"),
        pytest.param(trace(KERNEL, "1"), id="no-object"),
        pytest.param('{"traceEvents": [], "traceEvents": []}', id="events-twice"),
        pytest.param(trace(KERNEL.replace("5.25", "5e3")), id="exponent"),
        pytest.param(trace(KERNEL.replace("5.25", '"5.25"')), id="time-as-text"),
        pytest.param(trace(KERNEL.replace("5.25", "05")), id="leading-zero"),
        pytest.param(trace(KERNEL.replace("5.25", "5.")), id="no-digit-behind-the-point"),
        pytest.param(trace(KERNEL.replace('{"y": []}', "01")), id="leading-zero-of-no-use"),
        pytest.param(trace(KERNEL.replace("5.25", "9" * 16)), id="time-beyond-64-bits"),
        pytest.param(trace(KERNEL.replace('"ts"', '"tz"')), id="no-time"),
        pytest.param(trace(KERNEL.replace("9}", "1.5}")), id="odd-correlation"),
        pytest.param(trace(KERNEL.replace("9}", "1" * 19 + "}")), id="large-correlation"),
        pytest.param(trace(KERNEL.replace('"kernel"', r'"k\u0065rnel"')), id="escaped-category"),
        pytest.param(trace(KERNEL.replace('"cat"', r'"c\u0061t"')), id="escaped-key"),
        pytest.param(trace(KERNEL.replace('"k"', r'"\x"')), id="escape-of-no-kind"),
        pytest.param(trace(KERNEL.replace('"k"', '"\n"')), id="line-end-in-a-text"),
        pytest.param(trace(KERNEL.replace('"k"', "[]")), id="name-that-is-a-list"),
        pytest.param(trace(KERNEL.replace('"X"', "1")), id="phase-that-is-a-number"),
        pytest.param(trace(KERNEL.replace("[1, 2, 3]", "NaN")), id="no-number"),
        pytest.param(trace(KERNEL.replace("[1, 2, 3]", "[" * 64 + "]" * 64)), id="deep"),
        pytest.param(trace(KERNEL.replace('{"device"', '[{"device"')), id="arguments-in-a-list"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("before", [0, 3], ids=["first", "behind-events-alike"])
def test_what_is_not_known_for_certain_is_refused(text, size, before):
    assert scan(text.replace("[{", f"[{f'{KERNEL}, ' * before}{{", 1), size) is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
SCALARS = st.none() | st.integers(0, 10**9) | st.text(max_size=5)
EVENTS = st.fixed_dictionaries(
    {"ts": st.decimals(-(10**12), 10**12, places=3), "ph": st.sampled_from("Xi")},
    optional={
        "cat": st.sampled_from([*KINDS, "other"]),
        "name": SCALARS,
        "pid": SCALARS,
        "dur": st.integers(0, 10**6),
        "args": st.dictionaries(st.sampled_from(ARGUMENTS[:-1]) | st.text(), VALUES, max_size=4),
    },
)


@settings(max_examples=100)
@given(
    st.lists(EVENTS, max_size=6),
    st.integers(1, 4),
    st.integers(1, 400),
    st.dictionaries(st.text(), VALUES),
)
def test_drawn_traces_give_what_a_decoder_gives(drawn, turns, size, members):
    events = [e | {"ts": e["ts"] + i, "id": i * 77} for i in range(turns) for e in drawn]
    members = {name: value for name, value in members.items() if name.isalnum()}
    members.pop("traceEvents", None)
    texts = [json.dumps(e | {"ts": 0}).replace('"ts": 0', f'"ts": {e["ts"]:f}') for e in events]
    head = json.dumps(members)[:-1] + (", " if members else "")
    result = scan(f'{head}"traceEvents": [{", ".join(texts)}]}}', size)

    is_plain = not any("\\" in json.dumps(name) for e in events for name in names_of(e))
    is_plain &= not any("\\" in json.dumps(name) for name in names_of(members))
    if not is_plain:
        return
    rest, kinds = listed(result)
    assert rest == members | {"traceEvents": []}
    expected = {}
    for event in events:
        kind = KINDS.get(event.get("cat"))
        if kind is not None:
            expected.setdefault(kind, [])
        if kind in ("kernels", "operations") and event["ph"] == "X":
            args = {n: v for n, v in event.get("args", {}).items() if n in ARGUMENTS}
            kept = {n: event[n] for n in ("name", "pid") if n in event}
            attributes = kept | {"args": args if kind == "kernels" else {}}
            times = int(event["ts"] * 1000), event.get("dur", 0) * 1000
            expected[kind].append((attributes, *times, -1))
    assert kinds == expected


def names_of(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from names_of(inner)
    if isinstance(value, list):
        for inner in value:
            yield from names_of(inner)
