"""A trace that is read piece by piece gives what the decoder gives of the whole text."""

import copy
import gzip
import json
import random
import sys

import pytest
from commands import printed_by
from test_kineto import TRACES

from gpuprof import native
from gpuprof.base.errors import GpuprofError
from gpuprof.native import trace_events
from gpuprof.native.trace_events import scanned
from gpuprof.readers.kineto import trace_file as reader

pytestmark = pytest.mark.skipif(native.library() is None, reason="the core is not compiled")


def answer(path):
    try:
        profile = reader.read(path)
        return profile.origin, {name: profile.table(name).to_pylist() for name in profile.sources}
    except GpuprofError as error:
        return type(error), error.message, error.hint


def answers(path, monkeypatch):
    """What both ways give, and before it whether the text was read piece by piece."""
    is_scanned = []

    def watched(*arguments):
        result = scanned(*arguments)
        is_scanned.append(result is not None)
        return result

    monkeypatch.setattr(trace_events, "scanned", watched)
    in_pieces = answer(path)
    monkeypatch.setattr(trace_events, "scanned", lambda *_: None)
    at_once = answer(path)
    monkeypatch.undo()
    return is_scanned[0], in_pieces, at_once


@pytest.mark.skipif(not TRACES, reason="the corpus is not here")
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_real_traces_are_equal_both_ways(path, monkeypatch):
    is_scanned, in_pieces, at_once = answers(path, monkeypatch)

    assert in_pieces == at_once
    # The oldest is a bare list.
    assert is_scanned is not path.name.startswith("tb_resnet50_oldest")


EVENTS = [
    {"ph": "X", "cat": cat, "name": name, "pid": 3, "tid": 4, "ts": ts, "dur": 5, "args": args}
    for cat, name, ts, args in (
        ("kernel", "k", 10, {"device": 0, "stream": 7, "grid": [1, 2, 3], "correlation": 1}),
        ("kernel", "nccl", 30.25, {"device": 1, "Collective name": "allreduce", "dtype": "Int"}),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20, {"device": 0, "bytes": 64}),
        ("cuda_runtime", "cudaLaunchKernel", 5, {"correlation": 1}),
        ("cpu_op", "aten::add", 1, {"External id": 3}),
        ("python_function", "f.py(3): f", 2, {}),
        ("cuda_sync", "Stream Sync", 40, {"stream": 7}),
        ("ac2g", "ac2g", 3, {}),
    )
]
TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "A100", "computeMajor": 8, "computeMinor": 0}],
    "distributedInfo": {"rank": 1, "world_size": 2},
    "traceEvents": EVENTS,
    "baseTimeNanoseconds": 1_600_000_000_000_000_000,
}
ODD = (
    *(None, True, -1, 0, 1.5, 2**40, 2**70, "", "7", "0x7", "NaN", "X", "kernel", "\u00e9\n"),
    *("k" * 99, [], {}, [[1]], {"a": None}, "ac2g", "Runtime", float("nan"), "cpu_op"),
)  # fmt: skip


def changed(random_numbers):
    """The trace with some of its values, names of members and events changed."""
    trace = copy.deepcopy(TRACE)
    for _ in range(random_numbers.randint(1, 3)):
        parents = [trace]
        parents += [event for event in trace.get("traceEvents") or [] if isinstance(event, dict)]
        parents += [e["args"] for e in parents[1:] if isinstance(e.get("args"), dict)]
        parent = random_numbers.choice([parent for parent in parents if parent])
        name = random_numbers.choice([*parent])
        match random_numbers.randint(0, 3):
            case 0:
                del parent[name]
            case 1:
                parent[random_numbers.choice(["ts", "cat", "args", "x"])] = parent.pop(name)
            case _:
                parent[name] = random_numbers.choice(ODD)
        if not isinstance(trace.get("traceEvents"), list):
            break
    return json.dumps(trace, indent=random_numbers.choice([None, 1]))


@pytest.mark.parametrize("seed", range(2))
def test_changed_traces_are_equal_both_ways(seed, tmp_path, monkeypatch):
    random_numbers, in_pieces_count = random.Random(seed), 0  # noqa: S311 - no secret
    path = tmp_path / "trace.json"
    for _ in range(60):
        text = changed(random_numbers)
        path.write_text(text[: len(text) - random_numbers.choice([0] * 9 + [1])])
        is_scanned, in_pieces, at_once = answers(path, monkeypatch)
        assert in_pieces == at_once, text
        in_pieces_count += is_scanned

    assert in_pieces_count > 10


def test_a_trace_of_many_pieces_is_equal_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "PIECE_BYTES", 17)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE))

    is_scanned, in_pieces, at_once = answers(path, monkeypatch)

    assert is_scanned
    assert in_pieces == at_once


def drawn(*events, tail="]}"):
    return f'{{"schemaVersion":1,"traceEvents":[{",".join(events)}{tail}'


LAUNCHED = json.dumps(EVENTS[0])
AGAIN = (
    '"ph":"X","cat":"cpu_op","cat":"kernel","name":"a","name":"k","pid":0,"tid":7,"ts":3,"dur":5'
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(drawn(LAUNCHED, LAUNCHED)[:-30], id="cut"),
        pytest.param(drawn(*map(json.dumps, EVENTS[::-1])), id="out-of-order"),
        pytest.param(drawn(f"{{{AGAIN}}}"), id="keys-of-an-event-twice"),
        pytest.param(drawn(LAUNCHED, tail=f'],"traceEvents":[{LAUNCHED}]}}'), id="events-twice"),
        pytest.param(drawn(LAUNCHED.replace('"ts": 10', f'"ts": {1 << 70}')), id="huge-time"),
        pytest.param(drawn(LAUNCHED.replace('on": 1', f'on": {1 << 65}')), id="huge-id"),
        pytest.param(drawn(LAUNCHED.replace('"dur": 5', '"dur": NaN')), id="no-duration"),
        pytest.param(drawn(LAUNCHED, tail='],"x":NaN}'), id="no-number-beside"),
        pytest.param(drawn(LAUNCHED, f'{{"x":{"[" * 10**6}{"]" * 10**6}}}'), id="deep"),
        pytest.param(drawn('{"ph":"X","cat":"mtia_runtime","ts":1,"dur":1}'), id="mtia"),
        pytest.param(drawn('{"ph":"X","cat":"cpu_op","ts":1,"dur":1}'), id="of-no-gpu"),
    ],
)
def test_odd_traces_are_equal_both_ways(tmp_path, monkeypatch, text):
    path = tmp_path / "trace.json"
    path.write_text(text)

    _, in_pieces, at_once = answers(path, monkeypatch)

    assert in_pieces == at_once


MIB = 1 << 20
NAMED = '{"ph":"X","cat":"kernel","name":"%s","ts":9,"dur":5}'


@pytest.mark.skipif(sys.platform != "linux", reason="tells no peak of a process")
@pytest.mark.parametrize(
    ("text", "said", "most_mib"),
    [
        pytest.param(lambda: drawn(" " * 300 * MIB), "has no GPU activity", 256, id="blanks"),
        pytest.param(
            lambda: drawn(LAUNCHED, NAMED % ("a" * 100 * MIB)), "has a name of", 512, id="name"
        ),
    ],
)
def test_what_is_refused_takes_little_memory(tmp_path, text, said, most_mib):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text().encode(), 1))
    code = (
        "import sys\n"
        "from gpuprof.base.errors import GpuprofError\n"
        "from gpuprof.readers import read_profile\n"
        "try: read_profile(sys.argv[1])\n"
        "except GpuprofError as error: print(error.message)\n"
        "print(*(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )

    message, peak = printed_by(code, path).splitlines()[:2]
    assert said in message
    assert int(peak.split()[1]) << 10 < most_mib * MIB
