"""Kernels of communication and what is told of them, as queries of the same tables have it."""

from hypothesis import given
from hypothesis import strategies as st
from recordings import trace

from gpuprof.facts.communication import communication_kernels
from gpuprof.facts.last_ranks import kernel_sums

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

    asked = profile.query("""
        SELECT k.start_ns, k.end_ns, coalesce(k.device_id, -2) AS device, m.bytes_in AS message
        FROM kernels k LEFT JOIN recorded.collectives m
            ON m.start_ns = k.start_ns AND m.end_ns = k.end_ns
            AND m.device_id IS NOT DISTINCT FROM k.device_id
            AND m.process_id IS NOT DISTINCT FROM k.process_id
        WHERE k.is_communication""")
    columns = (communication.start_ns, communication.end_ns, communication.device)
    messages = [communication.collectives[k].message_bytes for k in communication.kind.tolist()]
    shown = zip(*(column.tolist() for column in columns), messages, strict=True)
    assert sorted(shown, key=str) == sorted((tuple(r.values()) for r in asked.to_pylist()), key=str)


@given(st.lists(st.tuples(PLACES, NAMES), max_size=12))
def test_the_sums_of_kernels_that_compute_are_those_of_a_query(kernels):
    profile = trace(kernels=rows([at for at, _ in kernels], name=[name for _, name in kernels]))

    asked = profile.query("""
        SELECT device_id, name, count(*) AS calls, sum(end_ns - start_ns)::BIGINT AS total_ns
        FROM kernels WHERE NOT is_communication GROUP BY ALL""")
    assert sorted(kernel_sums(profile), key=str) == sorted(asked.to_pylist(), key=str)
