"""Kernels of communication and what is told of them, as a walk over the rows has it."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from recordings import trace

from gpuprof.facts.communication import communication_kernels
from gpuprof.facts.last_ranks import kernel_sums
from gpuprof.model.derived import UNKNOWN

NUMBERS = st.none() | st.integers(0, 1)
NAMES = st.sampled_from(["gemm", "relu", "ncclDevKernel_AllReduce", "ncclDevKernel_SendRecv"])
PLACES = st.tuples(st.integers(0, 2), st.integers(3, 4), NUMBERS, NUMBERS)
PLACE = ("start_ns", "end_ns", "device_id", "process_id")


def rows(places, **columns):
    return [
        dict(zip(PLACE, place, strict=True)) | {name: values[i] for name, values in columns.items()}
        for i, place in enumerate(places)
    ]


@given(st.lists(st.tuples(PLACES, NAMES), max_size=12), st.lists(PLACES, unique=True, max_size=12))
def test_a_kernel_has_the_message_that_was_told_of_its_time_and_place(kernels, told):
    profile = trace(
        kernels=rows([place for place, _ in kernels], name=[name for _, name in kernels]),
        collectives=rows(
            told,
            kernel=["nccl"] * len(told),
            collective=["allreduce"] * len(told),
            bytes_in=[*range(len(told))],
        ),
    )

    communication = communication_kernels(profile)

    messages_of = {place: number for number, place in enumerate(told)}
    expected = [
        (*place[:2], UNKNOWN if place[2] is None else place[2], messages_of.get(place))
        for place, name in kernels
        if name.startswith("nccl")
    ]
    columns = (communication.start_ns, communication.end_ns, communication.device)
    messages = [communication.collectives[k].message_bytes for k in communication.kind.tolist()]
    shown = zip(*(column.tolist() for column in columns), messages, strict=True)
    assert sorted(shown, key=str) == sorted(expected, key=str)


@given(st.lists(st.tuples(PLACES, NAMES), max_size=12))
def test_the_sums_of_kernels_that_compute_are_those_of_a_walk(kernels):
    profile = trace(kernels=rows([at for at, _ in kernels], name=[name for _, name in kernels]))

    sums = defaultdict(lambda: [0, 0])
    for (start, end, device, _), name in kernels:
        if not name.startswith("nccl"):
            sums[device, name][0] += 1
            sums[device, name][1] += end - start
    found = {(r["device_id"], r["name"]): [r["calls"], r["total_ns"]] for r in kernel_sums(profile)}
    assert found == sums
