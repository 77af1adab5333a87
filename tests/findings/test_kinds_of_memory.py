"""Pageable memory of asynchronous copies, and managed memory."""

import pytest
from drawing import draw
from measured import scope_of

from gpuprof.findings.exposed_copies import migration_pauses, of_memory

STEPS = [(0, 100), (100, 200), (200, 300)]
PAGEABLE = {"memcpy_kind": "HtoD", "src_memory_kind": "pageable", "dst_memory_kind": "device"}
UVM = {"memcpy_kind": "UVM_HtoD", "path": "uvm", "bytes": 1 << 16}


def recorded(columns, call="cudaMemcpyAsync"):
    copies, calls = [], []
    for number, (begin, _) in enumerate(STEPS, start=1):
        copies.append((begin + 10, begin + 40, columns | {"correlation_id": number}))
        calls.append((begin, begin + 5, {"correlation_id": number, "name": call}))
    kernels = [(begin + 30, begin + 100) for begin, _ in STEPS]
    return draw(kernels=kernels, memcpys=copies, api_calls=calls)


def test_asynchronous_copies_of_pageable_memory_cost_what_no_kernel_hides():
    [one] = of_memory(scope_of(recorded(PAGEABLE), STEPS))

    assert (one.cause, one.where, one.cost_ns, one.win_ns) == ("pageable_memory", "HtoD", 20, 20)
    assert "pin_memory=True" in one.suggestion


@pytest.mark.parametrize(
    ("columns", "call"),
    [
        pytest.param(PAGEABLE | {"src_memory_kind": "pinned"}, "cudaMemcpyAsync", id="pinned"),
        pytest.param(PAGEABLE, "cudaMemcpy", id="meant-to-wait"),
    ],
)
def test_other_copies_are_no_matter_of_pageable_memory(columns, call):
    assert [*of_memory(scope_of(recorded(columns, call), STEPS))] == []


def test_another_device_does_not_wait_for_them():
    profile = recorded(PAGEABLE | {"device_id": 1})

    assert [*of_memory(scope_of(profile, STEPS))] == []
    assert [one.cost_ns for one in of_memory(scope_of(profile, STEPS, device=1))] == [30]


def migrated(pages, *more, **tables):
    """Steps of a kernel, in the middle of which pages migrate for a fifth of the step."""
    copies = [(begin + 40, begin + 60, pages) for begin, _ in STEPS]
    kernels = [(begin, begin + 99) for begin, _ in STEPS]
    return draw(kernels=kernels, memcpys=[*copies, *more], **tables)


def test_pages_that_migrate_cost_their_time_since_kernels_wait_for_them():
    profile = migrated(UVM, (60, 65, UVM | {"memcpy_kind": "UVM_DtoH"}))

    [one] = of_memory(scope_of(profile, STEPS))

    assert (one.cause, one.cost_ns, one.win_ns) == ("unified_memory", 20, 20)
    assert one.where == "from the host"
    assert "cudaMemPrefetchAsync" in one.suggestion


FAULT = {"processor": "gpu", "device_id": 0}


@pytest.mark.parametrize(
    ("faults", "phrase"),
    [
        pytest.param([20, 23, 26], ", with 23 GPU page faults", id="counted"),
        pytest.param([1, 1, 1], ", with 1 GPU page fault", id="one"),
        pytest.param([0, 0, 0], "", id="none"),
        pytest.param([20, None, 26], "", id="not-all-known"),
    ],
)
def test_pages_that_migrate_are_told_with_their_bytes_and_faults(faults, phrase):
    records = [
        (begin + 40, begin + 41, FAULT | {"faults": count})
        for (begin, _), count in zip(STEPS, faults, strict=True)
    ]
    of_others = [(45, 46, FAULT | {"device_id": 1, "faults": 99})]
    of_others += [(46, 46, {"processor": "cpu", "device_id": None, "faults": 1})]
    profile = migrated(UVM, page_faults=records + of_others)

    [one] = of_memory(scope_of(profile, STEPS))

    moved = "65.5 KB of managed memory a step migrate, most from the host"
    assert one.phrase == f"has {moved}{phrase}"


def test_kernels_wait_while_their_faults_are_handled_before_pages_migrate():
    """From 30 to 60, of which pages migrate from 40 on; what is handled after a kernel is not."""
    records = [(begin + 30, begin + 60, FAULT | {"faults": 1}) for begin, _ in STEPS]
    after = [(begin + 99, begin + 100, FAULT | {"faults": 1}) for begin, _ in STEPS]

    [one] = of_memory(scope_of(migrated(UVM, page_faults=records + after), STEPS))

    assert one.cost_ns == one.win_ns == 30
    assert one.phrase.endswith("page faults, with 10 ns of kernels that fault between them")


def test_most_that_migrates_is_most_of_its_bytes():
    """Pages from the host take longer than more of them back to it."""
    back = UVM | {"memcpy_kind": "UVM_DtoH", "bytes": 1 << 17}
    profile = migrated(UVM, *((begin + 70, begin + 75, back) for begin, _ in STEPS))

    [one] = of_memory(scope_of(profile, STEPS))

    assert one.phrase.startswith("has 197 KB of managed memory a step migrate, most to the host")
    assert one.where == "to the host"


def test_migrations_of_unknown_size_are_told_without_bytes():
    [one] = of_memory(scope_of(migrated(UVM | {"bytes": None}), STEPS))

    assert one.phrase == "has pages of managed memory migrate, most from the host"


@pytest.mark.parametrize(
    ("kernels", "faulting_ns"),
    [
        pytest.param([(0, 400_000)], 40_000 + 199_999, id="in-one-kernel"),
        pytest.param([(0, 45_000), (46_000, 400_000)], 199_999, id="in-the-second-kernel"),
    ],
)
def test_a_kernel_that_has_faulted_waits_for_the_next_pages(kernels, faulting_ns):
    """Pages come for 10 µs each: 40 µs, 0.199999 ms and 0.2 ms after those before."""
    starts = [5_000, 55_000, 264_999, 474_999]
    profile = draw(kernels=kernels, memcpys=[(at, at + 10_000, UVM) for at in starts])

    [one] = of_memory(scope_of(profile))

    assert f"{faulting_ns / 1000:.0f} µs of kernels that fault between them" in one.phrase


def test_pauses_in_which_a_processor_touches_one_page_after_another_are_of_the_migrations():
    """The device idles for 5 ns before each of two pages; what precedes the kernel is its own."""
    pages = [(55, 60, UVM), (65, 70, UVM | {"memcpy_kind": "UVM_DtoH"})]
    profile = draw(kernels=[(0, 10), (40, 50)], memcpys=pages)

    [one] = of_memory(scope_of(profile))

    assert one.cost_ns == 5 + 5 + 5 + 5
    assert "with pauses of 10 ns between them" in one.phrase
    assert migration_pauses(scope_of(profile)).length == 10


def test_a_long_pause_before_a_migration_has_another_reason():
    pages = [(2_000_000, 2_000_010, UVM)]
    profile = draw(kernels=[(0, 10)], memcpys=pages)

    assert migration_pauses(scope_of(profile)).length == 0
