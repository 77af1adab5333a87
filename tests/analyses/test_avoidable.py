"""Copies that need not be, among the findings."""

import pytest
from drawing import copied, draw

from gpuprof.analyses.reports import report
from gpuprof.facts import needless_copies
from gpuprof.facts.needless_copies import avoidable
from gpuprof.findings.findings import findings

MB = 1_000_000
PEER = {"memcpy_kind": "PtoP", "path": "direct", "bytes": MB}
THERE = PEER | {"src_device_id": 0, "dst_device_id": 1}
BACK = PEER | {"src_device_id": 1, "dst_device_id": 0}
OUT = {"memcpy_kind": "DtoH", "src_device_id": 0, "bytes": MB}
IN = {"memcpy_kind": "HtoD", "dst_device_id": 0, "bytes": MB}


def found(profile):
    """What is said of copies that need not be, with what it costs."""
    tables = {"ping_pong", "alternation", "repeated_transfers"}
    return [
        (row["device_id"], row["cost_ns"], row["suggestion"], row["table"])
        for row in findings(profile).to_pylist()
        if row["table"] in tables
    ]


def test_what_goes_to_the_host_and_straight_back_costs_what_no_kernel_hides():
    profile = draw(
        kernels=[(0, 12), (40, 50), (90, 100)],
        memcpys=[(10, 20, OUT), (30, 45, IN), (60, 70, OUT), (72, 80, IN)],
    )
    assert found(profile) == [
        (
            0,
            36,
            (
                "keep it on device 0: do on the device what the host does with it (2 copies from"
                " device 0 to host that come straight back in the same size)"
            ),
            "ping_pong",
        )
    ]


def test_copies_that_are_the_smaller_part_of_a_wait_are_not_its_cause():
    profile = draw(
        kernels=[(0, 10), (190, 200)],
        memcpys=[
            *((at, at + 5, OUT) for at in (10, 30)),
            *((at, at + 5, IN) for at in (20, 40)),
            (100, 180, IN | {"bytes": 9 * MB}),
        ],
    )

    assert found(profile) == []


def test_input_and_result_of_the_same_size_are_as_they_should_be():
    copies = [(at, at + 5, kind) for at, kind in ((0, IN), (10, OUT), (20, IN), (30, OUT))]

    assert found(draw(kernels=[(6, 9), (26, 29)], memcpys=copies)) == []
    assert "keep the result" not in str(found(draw(kernels=[(6, 9)], memcpys=copies)))


def test_each_way_there_and_back_is_named_by_itself_with_its_copies():
    ways = (
        (OUT, IN),
        (OUT | {"src_device_id": 1, "device_id": 1}, IN | {"dst_device_id": 1, "device_id": 1}),
        (THERE, BACK),
    )
    copies, kernels = [], []
    for n, (there, back) in enumerate(way for way in ways for _ in range(3)):
        at = 100 * n
        copies += [(at, at + 5, there), (at + 20, at + 25, back)]
        kernels.append((at + 8, at + 12, {"device_id": 1}))

    rows = {row.phrase: row for row in avoidable(draw(kernels=kernels, memcpys=copies))}

    straight = "that come straight back in the same size"
    assert [*rows] == [
        f"3 copies from device 0 to host {straight}",
        f"3 copies from device 0 to device 1 {straight}",
        f"3 copies from device 1 to host {straight}",
    ]
    running = rows[f"3 copies from device 0 to device 1 {straight}"].running
    assert running.start.tolist() == [600, 620, 700, 720, 800, 820]


@pytest.mark.parametrize("works", [True, False])
def test_borders_that_two_devices_exchange_are_no_way_there_and_back(works):
    copies = [(at, at + 5, way) for at, way in ((0, THERE), (10, BACK), (30, THERE), (40, BACK))]
    on_the_other = [(6, 8, {"device_id": 1}), (36, 38, {"device_id": 1})]
    profile = draw(kernels=[(50, 60), *(on_the_other if works else ())], memcpys=copies)

    said = [row[2].partition(" (")[0] for row in found(profile)]
    advice = "run what works on it on device 1 where its input lives: device 0"
    assert said == ([advice] if works else [])


def test_borders_of_several_copies_are_exchanged_though_a_kernel_follows():
    """Each step sends two borders each way, and computes: nothing comes back."""
    ways = [(0, THERE), (6, THERE), (12, BACK), (18, BACK)]
    copies = [(at + 100 * n, at + 100 * n + 5, way) for n in range(4) for at, way in ways]
    kernels = [
        (100 * n + 30, 100 * n + 90, {"device_id": device}) for n in range(4) for device in (0, 1)
    ]

    assert avoidable(draw(kernels=kernels, memcpys=copies)) == []


def test_what_two_devices_exchange_excuses_nothing_that_starts_at_the_same_time():
    """Devices 0 and 1 exchange; device 0 sends something to device 2 besides, which comes back."""
    way, other = {"src_device_id": 0, "dst_device_id": 2}, {"src_device_id": 2, "dst_device_id": 0}
    copies, kernels = [], []
    for at in range(0, 400, 100):
        copies += [(at, at + 5, THERE), (at, at + 5, PEER | way), (at + 6, at + 9, BACK)]
        copies += [(at + 30, at + 35, PEER | other)]
        kernels += [(at + 40, at + 90, {"device_id": device}) for device in (0, 1)]
        kernels += [(at + 10, at + 25, {"device_id": 2})]

    rows = avoidable(draw(kernels=kernels, memcpys=copies))

    assert [row.phrase.partition(" that")[0] for row in rows] == [
        "4 copies from device 0 to device 2"
    ]


def test_what_is_sent_on_an_answer_is_no_exchange_though_both_devices_work():
    """Device 0 sends what it made of the answer of device 1, and works while that does."""
    copies, kernels = [], []
    for at in range(0, 400, 100):
        copies += [(at, at + 5, THERE), (at + 40, at + 45, BACK)]
        kernels += [(at + 10, at + 35, {"device_id": device}) for device in (0, 1)]
        kernels.append((at + 50, at + 90, {"device_id": 0}))

    rows = avoidable(draw(kernels=kernels, memcpys=copies))

    assert [row.phrase.partition(" that")[0] for row in rows] == [
        "4 copies from device 0 to device 1"
    ]


def step(number, *, size=MB):
    """A step of 100 ns with a copy for which its device waits, launched in a range."""
    at, same = 100 * number, {"correlation_id": number, "bytes": size, "dst_device_id": 0}
    return (
        (at, at + 60, {"correlation_id": 50 + number}),
        (at + 70, at + 90, same),
        [(at, at + 1, {"correlation_id": 50 + number}), (at + 2, at + 3, same)],
        [(at, at + 9, {"text": f"step {number}"}), (at + 2, at + 5, {"text": "mask {}"})],
    )


def test_what_every_step_copies_again_is_named_with_its_size():
    kernels, copies, calls, ranges = zip(*map(step, range(4)), strict=True)
    profile = draw(
        kernels=kernels,
        memcpys=copies,
        api_calls=[
            (start, end, {"correlation_id": row["correlation_id"]})
            for pair in calls
            for start, end, row in pair
        ],
        nvtx_ranges=[one for pair in ranges for one in pair],
    )

    assert found(profile) == [
        (
            0,
            20,
            (
                "copy the next batch while this one computes (pinned memory, non_blocking, a stream"
                " of its own); if it is the same data in every step, copy it from host to device 0"
                " once and keep it (copies of 1.00 MB from host to device 0 that every step makes"
                " again)"
            ),
            "repeated_transfers",
        )
    ]


def turns():
    """Two layers that take turns on two devices, with copies of other sizes back."""
    moves = [(0, THERE), (20, BACK | {"bytes": 3}), (50, THERE), (70, BACK | {"bytes": 5})]
    copies = [
        (at, at + 10, row, "embed" if number % 2 else "lstm {")
        for number, (at, row) in enumerate(moves)
    ]
    kernels = [(10, 15, {"device_id": 1}), (30, 40), (60, 65, {"device_id": 1}), (80, 90)]
    return copied(*copies, kernels=kernels)


def test_layers_that_take_turns_are_named_for_both_devices():
    advice = 'place "lstm {" and "embed" on one device'
    turns_there = '(turns from device 0 to device 1 in "lstm {" and back in "embed")'

    assert [row[1:] for row in found(turns())] == [(40, f"{advice} {turns_there}", "alternation")]


def test_of_a_large_recording_ranges_are_not_looked_for_and_a_note_says_so(monkeypatch):
    assert not report(turns(), ["findings"]).notes
    monkeypatch.setattr(needless_copies, "_MOST_EVENTS", 16)
    assert not report(turns(), ["findings"]).notes
    monkeypatch.setattr(needless_copies, "_MOST_EVENTS", 15)

    assert found(turns()) == []
    assert report(turns(), ["findings"]).notes == (
        (
            "The recording has more than 15 events, so findings leave out repeated copies,"
            " alternation and the occupancy of kernels; see --table repeated_transfers,"
            " --table alternation and --table kernel_occupancy."
        ),
    )
    assert not report(turns(), ["breakdown"]).notes


def test_what_comes_straight_back_is_named_in_a_large_recording_too(monkeypatch):
    copies = [(at, at + 5, way) for n in range(3) for at, way in ((40 * n, OUT), (40 * n + 20, IN))]
    monkeypatch.setattr(needless_copies, "_MOST_EVENTS", 1)

    (row,) = avoidable(draw(kernels=[(200, 210)], memcpys=copies))

    assert row.table == "ping_pong"
