"""A pause of a device while another one of its program only exchanges data belongs to that."""

import pytest
from drawn_steps import HTOD, PEER, REDUCE, US, kernel, steps

from gpuprof.findings.findings import findings

NCCL = REDUCE | {"stream_id": 9}
FIRST = [(0, 2, 50, kernel()), (1, 2, 50, kernel(device_id=2))]
LAST = [(2, 80, 99, kernel(name="end")), (3, 80, 99, kernel(name="end", device_id=2))]
COPY = PEER | {"bytes": 8}


def program(*between, last=LAST):
    """Devices 0 and 2 compute, with something on device 0 in the 30 µs between."""
    return steps(12, 100, *FIRST, *between, *last)


def rows(profile):
    return {row["cause"]: row for row in findings(profile).to_pylist()}


def test_a_pause_beside_a_copy_of_another_device_is_a_part_of_the_copy():
    found = rows(program((4, 50, 80, COPY)))

    assert "waits_for_device" not in found
    copies = found["exposed_peer_copies"]
    assert (copies["cost_ns"], copies["change"]) == (30 * US, r"drop=^(PtoP|DtoD_peer)\b")
    assert "device 2 30.0 %" in copies["finding"]


def test_a_device_that_only_pauses_says_for_whom():
    """Device 2 pauses for 10 µs longer than device 0 copies."""
    late = [(2, 80, 99, kernel(name="end")), (3, 90, 99, kernel(name="end", device_id=2))]
    found = rows(program((4, 50, 80, COPY), last=late))

    wins = {cause: (row["cost_ns"], row["win_ns"]) for cause, row in found.items()}
    assert wins["waits_for_device"] == (10 * US, 10 * US)
    assert wins["exposed_peer_copies"] == (30 * US, 30 * US)


def test_a_pause_beside_a_collective_of_another_device_is_a_part_of_the_collective():
    found = rows(program((4, 50, 80, NCCL)))

    assert "waits_for_device" not in found
    assert found["collective_transfer"]["cost_ns"] == 30 * US


@pytest.mark.parametrize(
    ("between", "last", "cause"),
    [
        pytest.param((4, 50, 80, kernel(name="more")), LAST, "waits_for_device", id="computes"),
        pytest.param((4, 50, 80, HTOD), LAST, "waits_for_device", id="copies-from-the-host"),
        pytest.param(
            (4, 50, 80, COPY),
            [LAST[0], (70, 80, 99, kernel(name="end", device_id=2))],
            "host_late",
            id="host-is-late",
        ),
    ],
)
def test_other_pauses_keep_their_cause(between, last, cause):
    found = rows(program(between, last=last))

    assert found[cause]["device_id"] == 2
    assert found[cause]["cost_ns"] == 30 * US


def test_a_copy_that_compute_hides_is_no_reason_for_a_pause_elsewhere():
    found = rows(program((4, 50, 80, kernel(name="more")), (5, 50, 80, COPY)))

    assert "exposed_peer_copies" not in found
    assert found["waits_for_device"]["cost_ns"] == 30 * US


def test_a_device_that_sets_the_pace_says_for_whose_exchange_it_pauses():
    """Device 0 computes for 9 µs less than device 2, for which it would wait without its copy."""
    short = [(2, 80, 90, kernel(name="end")), LAST[1]]
    found = rows(program((4, 50, 80, COPY), last=short))

    copies = found["exposed_peer_copies"]
    assert (copies["device_id"], copies["cost_ns"], copies["win_ns"]) == (2, 30 * US, 30 * US)
    assert copies["finding"].startswith(
        "device 2 is idle while device 0 waits for copies between devices (device 0 to device 1):"
        " 30.0 µs of a step (30.0 %); device 0 30.0 %"
    )
