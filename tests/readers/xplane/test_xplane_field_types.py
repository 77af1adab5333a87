"""Each value of an XPlane profile, written as every other type: only times are needed."""

from collections import Counter
from struct import pack

import pytest
import xspaces
from recording_checks import contents, differing
from test_xplane import Plane, written

from gpuprof.base.errors import CorruptFileError
from gpuprof.readers import read_profile

COPY = "kind_src:pinned kind_dst:device size:64 dest:1 async:1"
EVENTS = (
    ("gemm", {"correlation_id": 3, "context_id": "$$5", "cuda_graph_node_id": 9}
     | {"kernel_details": "regs:38 grid:160,2,3 block:64,1,1"}),
    ("MemcpyP2P", {"correlation_id": 4, "memcpy_details": COPY}),
    ("Memset", {"correlation_id": 5, "memset_details": "kind:device num_bytes:8"}),
    ("CudaGraph", {"correlation_id": 6, "cuda_graph_id": 7}),
)  # fmt: skip
OWN = {
    "memory_size": 8, "memory_bandwidth": 9, "compute_cap_major": 7, "compute_cap_minor": 5,
    "device_vendor": "Nvidia",
}  # fmt: skip
# As the wire has a value: numbers of fields 3 and 4, a double, a text, bytes, a reference.
TYPES = {
    "uint64": xspaces.field(3, 7),
    "huge": xspaces.field(3, (1 << 64) - 1),
    "int64": xspaces.field(4, -7),
    "double": bytes([2 << 3 | 1]) + pack("<d", 2.5),
    "not-a-number": bytes([2 << 3 | 1]) + pack("<d", float("nan")),
    "float": bytes([2 << 3 | 5]) + pack("<f", 2.5),
    "text": xspaces.field(5, b"text"),
    "bytes": xspaces.field(6, b"\xff\x00"),
    "text-as-number": xspaces.field(5, 7),
    "number-as-text": xspaces.field(3, b"7"),
    "reference": xspaces.field(7, 999),
    "reference-as-text": xspaces.field(7, b"text"),
    "nothing": b"",
}
EVERY_TYPE = pytest.mark.parametrize("value", TYPES.values(), ids=TYPES)


def gpu(changed=None, value=b"", own=None):
    """Each activity twice; of the last of a kind one value is written as another type."""
    kinds = [(name, dict(values)) for name, values in EVENTS for _ in range(2)]
    if changed is not None:
        kinds[changed[0]][1][changed[1]] = value
    events = [(name, n * 1000, 500, values) for n, (name, values) in enumerate(kinds)]
    plane = Plane("/device:GPU:0").line("Stream #7(Compute)", *events)
    for name, stat in (OWN | (own or {})).items():
        plane.stat(name, stat)
    return plane


def host(step=5, call=3):
    return Plane("/host:CPU").line(
        "python",
        ("train", 3_000, 9_000, {"step_num": step}),
        ("cuLaunchKernel", 3_000, 1_000, {"correlation_id": call}),
        line_id=77,
    )


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """What the profile holds where every value has its own type."""
    return contents(written(tmp_path_factory.mktemp("before"), host(), gpu()))


VALUES = [(2 * n + 1, name) for n, (_, values) in enumerate(EVENTS) for name in values]


@EVERY_TYPE
@pytest.mark.parametrize("changed", VALUES, ids=[f"{EVENTS[n // 2][0]}-{v}" for n, v in VALUES])
def test_a_value_of_an_event_as_another_type_changes_that_event_alone(
    tmp_path, before, changed, value
):
    after = contents(written(tmp_path, host(), gpu(changed, value)))

    assert sum(differing(before, after).values()) <= 1
    assert sum(map(Counter.total, after.values())) == sum(map(Counter.total, before.values()))


NUMBERS = {"uint64": 7, "huge": -1, "int64": -7}


@EVERY_TYPE
def test_a_number_of_an_event_is_read_of_numbers_alone(tmp_path, value):
    path = written(tmp_path, host(), gpu((0, "correlation_id"), value))
    names = {written_as: name for name, written_as in TYPES.items()}

    kernels = read_profile(path).table("kernels").column("correlation_id").to_pylist()
    assert kernels == [NUMBERS.get(names[value]), 3]


@EVERY_TYPE
@pytest.mark.parametrize("name", OWN)
def test_a_value_of_a_device_as_another_type_is_unknown(tmp_path, before, name, value):
    after = contents(written(tmp_path, host(), gpu(own={name: value})))

    assert differing(before, after).keys() <= {"devices"}
    [(device, _)] = after["devices"].items()
    assert all(amount is None or amount >= 0 for name, amount in device if "_bytes" in name)


@EVERY_TYPE
@pytest.mark.parametrize("name", ["step", "call"])
def test_a_value_of_the_host_as_another_type_changes_nothing_of_the_gpu(
    tmp_path, before, name, value
):
    after = contents(written(tmp_path, host(**{name: value}), gpu()))

    assert differing(before, after).keys() <= {"nvtx_ranges", "api_calls"}


@EVERY_TYPE
def test_a_start_of_the_profile_as_another_type_leaves_it_unknown(tmp_path, value):
    environment = Plane("Task Environment").stat("profile_start_time", value)
    epoch_ns = read_profile(written(tmp_path, environment, gpu())).origin.epoch_ns

    assert epoch_ns == (7 if value in (TYPES["uint64"], TYPES["text-as-number"]) else None)


@pytest.mark.parametrize("number", [2, 3], ids=["start", "duration"])
@pytest.mark.parametrize(
    "value", [lambda n: xspaces.field(n, b"7"), lambda n: bytes([n << 3 | 1]) + bytes(8)]
)
def test_a_time_that_is_no_number_refuses_the_profile(tmp_path, number, value):
    plane = gpu()
    event = xspaces.field(1, 150) + value(number)
    plane.lines[0] += xspaces.field(4, event)

    with pytest.raises(CorruptFileError, match="a time of an event is not a number"):
        read_profile(written(tmp_path, plane))


def test_a_step_at_an_impossible_time_refuses_the_profile(tmp_path):
    late = Plane("/host:CPU").line("python", ("train", 9_000, 1, {"step_num": 5}))
    late.lines[0] += xspaces.field(3, (1 << 63) - 1)

    with pytest.raises(CorruptFileError, match="the time of a step is too large"):
        read_profile(written(tmp_path, late, gpu()))


def test_a_device_of_an_impossible_number_is_no_device(tmp_path):
    far = Plane("/device:GPU:99999").line("Stream #7", ("gemm", 0, 5_000, {}))
    profile = read_profile(written(tmp_path, gpu(), far))

    assert set(profile.table("kernels").column("device_id").to_pylist()) == {0}
