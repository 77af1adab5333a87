"""Each copy on the timelines of its devices, as the table of them in SQL has it."""

from hypothesis import given
from hypothesis import strategies as st
from recordings import trace

from gpuprof.analyses.facts.copy_rows import copy_rows

DEVICES = st.sampled_from([None, 0, 1, 2])
KINDS = st.sampled_from(["HtoD", "DtoH", "DtoD", "PtoP"])


@given(copies=st.lists(st.tuples(DEVICES, DEVICES, DEVICES, KINDS, st.booleans()), max_size=8))
def test_a_copy_takes_time_on_the_devices_that_a_query_names(copies):
    profile = trace(
        memcpys=[
            {
                "start_ns": 10 * i,
                "end_ns": 10 * i + 5,
                "device_id": device,
                "src_device_id": src,
                "dst_device_id": dst,
                "memcpy_kind": kind,
                "path": "staged" if is_staged else None,
            }
            for i, (device, src, dst, kind, is_staged) in enumerate(copies)
        ]
    )

    rows = [
        row
        for part in copy_rows(profile).by_device()
        for row in zip(
            part.start_ns.tolist(), part.device.tolist(), part.is_transfer.tolist(), strict=True
        )
    ]

    asked = profile.query(
        "SELECT start_ns, busy_device_id, is_transfer::INTEGER AS is_transfer FROM copies_by_device"
    )
    assert sorted(rows) == sorted(tuple(row.values()) for row in asked.to_pylist())
