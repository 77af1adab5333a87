"""Execution traces, read by protobuf's own classes and run as a simulator would."""

from io import BytesIO

import pytest
from commands import DUAL, gpuprof
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.readers.gpuprof.write_gpuprof_file import write as write_gpuprof_file
from gpuprof.show.exporters import EXPORTERS

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="needs protobuf")

US = 1_000
LAUNCH, HOST = 4 * US, 3 * US
LOAD, STORE, COMP, SEND, RECEIVE, COLLECTIVE = range(2, 8)
TO_1 = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "bytes": 4096}
# Fields of et_def.proto: number, type and whether there are several.
_UINT64, _INT64, _INT32, _BOOL, _STRING, _MESSAGE = 4, 3, 5, 8, 9, 11
_SCHEMA = {
    "Attribute": {
        "name": (1, _STRING), "int32_val": (7, _INT32), "int64_val": (9, _INT64),
        "uint64_val": (13, _UINT64), "bool_val": (27, _BOOL), "string_val": (29, _STRING),
    },
    "Info": {"values": (1, _STRING)},
    "GlobalMetadata": {"version": (1, _STRING), "attr": (2, "Attribute", 3)},
    "Node": {
        "id": (1, _UINT64), "name": (2, _STRING), "type": (3, _INT32),
        "data_deps": (5, _UINT64, 3), "start_time_micros": (6, _UINT64),
        "duration_micros": (7, _UINT64), "inputs": (8, "Info"), "attr": (10, "Attribute", 3),
    },
}  # fmt: skip


def _classes():
    from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415 - optional

    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "Attribute":
            message.oneof_decl.add(name="value")
        for field, (number, kind, *label) in fields.items():
            its = message.field.add(name=field, number=number, label=(label or [1])[0])
            if isinstance(kind, str):
                its.type, its.type_name = _MESSAGE, f".et.{kind}"
            else:
                its.type = kind
            if name == "Attribute" and field != "name":
                its.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et.{name}"))
        for name in ("GlobalMetadata", "Node")
    ]


METADATA_CLASS, NODE_CLASS = _classes()


def _messages(octets):
    """The messages of a file: each after its length."""
    from google.protobuf.internal.decoder import _DecodeVarint  # noqa: PLC0415

    position = 0
    while position < len(octets):
        size, position = _DecodeVarint(octets, position)
        yield octets[position : position + size]
        position += size
    assert position == len(octets)


def exported(profile):
    """The nodes of each rank, and the notes."""
    writers, notes = EXPORTERS["chakra"].parts(profile)
    ranks = []
    for number, writer in enumerate(writers):
        file = BytesIO()
        writer(file)
        head, *nodes = _messages(file.getvalue())
        assert attributes(METADATA_CLASS.FromString(head))["rank"] == number
        ranks.append([NODE_CLASS.FromString(node) for node in nodes])
        seen = set()
        for node in ranks[-1]:
            assert node.id not in seen
            assert seen.issuperset(node.data_deps)
            seen.add(node.id)
    return ranks, notes


def attributes(node):
    return {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}


def on_device(nodes):
    return [node for node in nodes if not attributes(node).get("is_cpu_op", True)]


def simulated_us(ranks):
    """From the first start to the last end on each device, where messages arrive when sent."""
    sent, spans = {}, []
    for nodes in ranks:
        ends, times = {}, []
        for node in nodes:
            start = max((ends[number] for number in node.data_deps), default=0)
            ends[node.id] = start + node.duration_micros
            tag = attributes(node).get("comm_tag")
            if node.type == SEND:
                sent[tag] = ends[node.id]
            elif node.type == RECEIVE:
                ends[node.id] = max(start, sent[tag])
            if not attributes(node)["is_cpu_op"]:
                times += [start, ends[node.id]]
        spans.append(max(times) - min(times))
    return spans


KERNELS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["gemm", "relu"]), st.integers(0, 90)),
    min_size=1, max_size=5,
)  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(st.lists(KERNELS, min_size=1, max_size=4))
def test_a_simulator_gets_the_time_of_a_program_without_latencies(iterations):
    kernels, calls, waits, number, host = [], [], [], 0, 0
    free = {0: 0, 1: 0}
    for iteration in iterations:
        for stream, name, took in iteration:
            number += 1
            calls.append((host, host + LAUNCH, {"correlation_id": number}))
            start = max(host + LAUNCH, free[stream])
            free[stream] = start + took * US
            its = {"name": name, "stream_id": stream, "correlation_id": number}
            kernels.append((start, free[stream], its))
            host += LAUNCH + HOST
        number += 1
        end = max(host, *free.values()) + 1
        its = {"correlation_id": number, "name": "cudaDeviceSynchronize"}
        calls.append((host, end, its))
        waits.append(
            (host, end, {"sync_kind": "context", "correlation_id": number, "stream_id": None})
        )
        host = end + HOST
    span = max(end for _, end, _ in kernels) - min(start for start, _, _ in kernels)

    (nodes,), notes = exported(draw(kernels=kernels, api_calls=calls, synchronizations=waits))

    assert notes == ()
    assert len(on_device(nodes)) == len(kernels)
    # Execution traces have whole microseconds.
    assert abs(simulated_us([nodes])[0] - span / US) < 2


def two_devices(path=None):
    """A kernel on device 0, a copy of its result to device 1, and a kernel there."""
    on_1, its = {"device_id": 1, "stream_id": 8}, TO_1 | {"path": path}
    copies = [(62 * US, 72 * US, its | {"correlation_id": 2})]
    if path == "staged":
        copies = [
            (62 * US, 67 * US, its | {"correlation_id": 2, "memcpy_kind": "DtoH"}),
            (67 * US, 72 * US, its | on_1 | {"correlation_id": 2, "memcpy_kind": "HtoD"}),
        ]
    return draw(
        kernels=[
            (10 * US, 62 * US, {"name": "a", "correlation_id": 1}),
            (72 * US, 95 * US, {"name": "c", "correlation_id": 3} | on_1),
        ],
        memcpys=copies,
        api_calls=[(n * 2 * US, (n * 2 + 1) * US, {"correlation_id": n}) for n in (1, 2, 3)],
    )


@pytest.mark.parametrize("path", ["direct", "staged"])
def test_a_copy_between_devices_is_a_message(path):
    ranks, notes = exported(two_devices(path))
    ends = {"comm_src": 0, "comm_dst": 1, "comm_size": 4096}

    assert notes == ()
    (kernel, sent), (received, after) = map(on_device, ranks)
    assert (kernel.type, sent.type, received.type, after.type) == (COMP, SEND, RECEIVE, COMP)
    for node in (sent, received):
        assert ends.items() <= attributes(node).items()
    assert attributes(sent)["comm_tag"] == attributes(received)["comm_tag"]
    assert kernel.id in sent.data_deps
    assert received.id in after.data_deps
    assert (kernel.start_time_micros, kernel.duration_micros, kernel.name) == (8, 52, "a")


def test_host_copies_load_and_store_and_what_is_unknown_is_left_out():
    profile = draw(
        kernels=[(0, 10, {"stream_id": None})],
        memcpys=[
            (20, 30, {"memcpy_kind": "HtoD", "bytes": 64}),
            (40, 50, {"memcpy_kind": "DtoH", "bytes": None}),
            (60, 70, {"memcpy_kind": "DtoD", "bytes": 16}),
        ],
        memsets=[(80, 90)],
    )
    (nodes,), _ = exported(profile)

    assert [(node.type, attributes(node).get("tensor_size")) for node in nodes] == [
        (COMP, None), (LOAD, 64), (STORE, None), (COMP, 16), (COMP, None),
    ]  # fmt: skip
    assert "stream" not in attributes(nodes[0])


def collectives(ranks_of_group, messages=()):
    """Five all-reduces of the first ranks of three; each comes later, and all end together."""
    kernels, devices = [(0, US, {"name": "x", "device_id": n}) for n in range(3)], ranks_of_group
    for step in range(5):
        at = (step + 1) * 100 * US
        for device in range(devices):
            its = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "device_id": device}
            kernels.append((at + device * 10 * US, at + 50 * US, its | {"stream_id": 20}))
    tables = {"collectives": messages} if messages else {}
    return draw(kernels=kernels, **tables)


def test_collectives_take_their_transfer_and_have_a_group():
    ranks, notes = exported(collectives(2))

    for nodes in ranks[:2]:
        group, *_ = nodes
        assert (group.type, group.inputs.values) == (1, '[\'[{"pg_name": "1", "ranks": [0, 1]}]\']')
        reduces = [node for node in nodes if node.type == COLLECTIVE]
        assert [node.duration_micros for node in reduces] == [40] * 5
        assert all(attributes(node)["pg_name"] == "1" for node in reduces)
        assert all(attributes(node)["comm_type"] == 0 for node in reduces)
        assert not any("comm_size" in attributes(node) for node in reduces)
    assert any(note.startswith("10 of 10 communication kernels have no bytes") for note in notes)


def test_a_collective_of_all_ranks_needs_no_group():
    ranks, _ = exported(collectives(3))

    names = {attributes(node).get("pg_name") for nodes in ranks for node in nodes}
    assert names == {None, "0"}
    assert {node.type for nodes in ranks for node in nodes} == {COMP, COLLECTIVE}


@pytest.mark.parametrize(
    ("collective", "node_type", "comm_type"),
    [
        ("allreduce", COLLECTIVE, 0),
        ("_allgather_base", COLLECTIVE, 2),
        ("_reduce_scatter_base", COLLECTIVE, 7),
        ("all_to_allv", COLLECTIVE, 6),
        ("broadcast", COLLECTIVE, 5),
        ("send", SEND, None),
        ("zebra", COLLECTIVE, None),
    ],
)
def test_a_message_that_the_framework_recorded_is_kept(collective, node_type, comm_type):
    place = {"name": "ncclKernel", "device_id": 0, "stream_id": 20}
    its = {"kernel": "ncclKernel", "collective": collective, "bytes_in": 256, "bytes_out": 1024}
    group = {"group_size": 4, "process_group": "tp"}
    profile = draw(kernels=[(0, 10, place)], collectives=[(0, 10, {"device_id": 0} | its | group)])
    ((node,),), _ = exported(profile)

    assert node.type == node_type
    kept = attributes(node)
    assert kept.pop("comm_type", None) == comm_type
    assert kept == {
        "is_cpu_op": False, "stream": 20, "comm_size": 256, "group_size": 4, "process_group": "tp",
    }  # fmt: skip


def test_what_waits_for_another_device_keeps_its_time_and_is_counted():
    wait = {"name": "cudaStreamSynchronize", "correlation_id": 3, "thread_id": 2}
    on_1 = {"device_id": 1, "stream_id": 8, "process_id": 100}
    profile = draw(
        kernels=[
            (10 * US, 90 * US, {"correlation_id": 1}),
            (9 * US, 12 * US, {"correlation_id": 2} | on_1),
        ],
        api_calls=[
            (0, US, {"correlation_id": 1}),
            (US, 2 * US, {"correlation_id": 2, "thread_id": 2}),
            (3 * US, 92 * US, wait),
        ],
        synchronizations=[(3 * US, 92 * US, {"sync_kind": "stream", "correlation_id": 3})],
    )
    ranks, notes = exported(profile)

    (call,) = [node for node in ranks[1] if node.name == "cudaStreamSynchronize"]
    assert call.duration_micros == 89
    assert any(note.startswith("2 dependencies between devices are left out") for note in notes)


def test_each_rank_gets_a_file(tmp_path):
    write_gpuprof_file(two_devices(), tmp_path / "drawn.gpuprof")
    command = ("export", "drawn.gpuprof", "--to", "chakra", "-o", "trace.et")

    done = gpuprof(*command, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    written = {"drawn.gpuprof", "trace.0.et", "trace.1.et"}
    assert {path.name for path in tmp_path.iterdir()} == written
    again = gpuprof(*command, cwd=tmp_path)
    assert (again.returncode, "trace.0.et exists already" in again.stderr) == (1, True)


def test_all_files_are_written_or_none(tmp_path):
    write_gpuprof_file(two_devices(), tmp_path / "drawn.gpuprof")
    (tmp_path / "trace.1.et").write_text("mine")

    done = gpuprof("export", "drawn.gpuprof", "--to", "chakra", "-o", "trace", cwd=tmp_path)

    assert (done.returncode, "trace.1.et exists already" in done.stderr) == (1, True)
    assert {path.name for path in tmp_path.iterdir()} == {"drawn.gpuprof", "trace.1.et"}


@pytest.mark.parametrize(
    ("file", "output", "message"),
    [
        (DUAL, "trace.et", "has no times of kernels and copies"),
        (DUAL, "-", "a chakra trace cannot go to standard output"),
    ],
)
def test_what_cannot_be_exported_says_why_in_a_line(file, output, message, tmp_path):
    done = gpuprof("export", file, "--to", "chakra", "-o", output, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr.splitlines()[0]
    assert not list(tmp_path.iterdir())
