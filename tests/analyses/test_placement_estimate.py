"""What cheaper peer copies could win."""

from drawing import draw
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import MOVES, ends_of, instants, is_transfer
from strategies import rows as rows_of

from gpuprof.analyses.placement_estimate import placement_estimate
from gpuprof.facts.phases import steps_by_phase
from gpuprof.model.table import Selection

PUSHED = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "path": "direct"}
ON_1 = {"device_id": 1}
NAMES = ("measured_ns", "peer_busy_ns", "peer_exposed_ns", "if_free_ns", "if_hidden_ns")


def rows(profile, *names):
    return [tuple(row[name] for name in names) for row in placement_estimate(profile).to_pylist()]


def test_estimates_of_a_whole_recording_are_for_the_device_that_waits_longest():
    # Device 0 computes from 0 to 60, device 1 from 0 to 40; the copy runs from 50 to 80.
    profile = draw(kernels=[(0, 60), (0, 40, ON_1), (80, 100, ON_1)], memcpys=[(50, 80, PUSHED)])

    assert rows(profile, "device_id", *NAMES) == [(1, 100, 30, 30, 70, 70)]
    assert rows(profile, "source", "step", "if_none_hidden_ns") == [("recording", None, 100)]


def test_the_estimates_of_one_device_are_its_own():
    # As above: of device 0, whose kernel hides the copy until 60.
    profile = draw(kernels=[(0, 60), (0, 40, ON_1), (80, 100, ON_1)], memcpys=[(50, 80, PUSHED)])

    assert rows(profile.restricted(Selection(device_id=0)), "device_id", *NAMES) == [
        (0, 80, 30, 20, 60, 60)
    ]


def test_each_step_has_its_own_estimate():
    profile = draw(
        nvtx_ranges=[(0, 50, {"text": "step 0"}), (50, 100, {"text": "step 1"})],
        api_calls=[(n, n + 1, {"correlation_id": n}) for n in (1, 2, 51, 52)],
        kernels=[(5, 20, {"correlation_id": 1}), (55, 60, {"correlation_id": 51})],
        memcpys=[
            (10, 25, PUSHED | {"correlation_id": 2}),
            (60, 90, PUSHED | {"correlation_id": 52, "device_id": 0}),
        ],
    )

    assert rows(profile, "step", "measured_ns", "peer_exposed_ns", "if_free_ns") == [
        (0, 50, 5, 45),
        (1, 35, 30, 5),
    ]


DEVICES = st.sampled_from([0, 1])


def waits(device, kernels, memcpys):
    """The instants at which peer copies run on a device, and those at which nothing else does."""
    mine = [row for row in memcpys if device in ends_of(row[2]) and is_transfer(row[2])]
    is_peer = [None not in (row[2]["src_device_id"], row[2]["dst_device_id"]) for row in mine]
    peer = instants([row for row, flag in zip(mine, is_peer, strict=True) if flag])
    others = instants([row for row, flag in zip(mine, is_peer, strict=True) if not flag])
    running = instants([row for row in kernels if row[2]["device_id"] == device])
    return peer, peer - running - others


def check(row, peer, exposed):
    """The estimates of a row follow from the two sets of instants."""
    measured, busy, alone = row["measured_ns"], len(peer), len(exposed)
    assert (row["peer_busy_ns"], row["peer_exposed_ns"]) == (busy, alone)
    assert row["if_free_ns"] == measured - alone
    assert row["if_hidden_ns"] == max(measured - alone, busy)
    assert row["if_none_hidden_ns"] == measured - alone + busy
    assert row["gain_if_free_share"] == (alone / measured if measured else None)


@settings(max_examples=40)
@given(rows_of({"device_id": DEVICES}), rows_of(MOVES), st.sampled_from([None, (20, 60)]))
def test_estimates_of_a_recording_are_those_of_its_instants(kernels, memcpys, window):
    # No name occurs often enough to be taken for a step.
    named = [(s, e, k | {"name": f"kernel {n}"}) for n, (s, e, k) in enumerate(kernels)]
    profile = draw(kernels=named, memcpys=memcpys)
    seen = profile if window is None else profile.restricted(Selection((window,)))
    within = set(range(100)) if window is None else set(range(*window))
    spans = {}
    for device in (0, 1):
        mine = [row for row in kernels if row[2]["device_id"] == device]
        mine += [row for row in memcpys if device in ends_of(row[2])]
        if mine:
            spans[device] = within & set(range(min(r[0] for r in mine), max(r[1] for r in mine)))
    # Of a part, devices that did nothing in it are not asked.
    asked = {device: span for device, span in spans.items() if window is None or span}
    found = placement_estimate(seen).to_pylist()

    assert len(found) == bool(asked)
    for row in found:
        each = {
            device: tuple(part & asked[device] for part in waits(device, kernels, memcpys))
            for device in asked
        }
        peer, exposed = each[row["device_id"]]
        assert row["measured_ns"] == len(asked[row["device_id"]])
        assert len(exposed) == max(len(alone) for _, alone in each.values())
        check(row, peer, exposed)


STEP = 40


TO_ZERO = {"memcpy_kind": "DtoD", "src_device_id": 1, "dst_device_id": 0, "path": None}


@settings(max_examples=40)
@example(
    [
        [(0, 2, {"device_id": 0})],
        [(0, 2, ON_1), (0, 0, {"device_id": 0})],
        [(20, 21, ON_1)],
    ],
    [(81, 101, TO_ZERO | ON_1)],
)
@example([[(19, 39, {"device_id": 0})], [(0, 0, {"device_id": 0})]], [])
@given(
    # At its last instant a step would begin with the next one, of which it would then be a part.
    st.lists(
        rows_of({"device_id": DEVICES}, STEP - 1, min_size=1, max_size=3), min_size=2, max_size=4
    ),
    rows_of(MOVES, 4 * STEP),
)
def test_estimates_of_steps_are_those_of_the_instants_in_them(steps, memcpys):
    # Each step's kernels, launched in its range, start in its own forty ns.
    shifted = [
        [(s + n * STEP, e + n * STEP, kernel) for s, e, kernel in kernels]
        for n, kernels in enumerate(steps)
    ]
    kernels = [
        (s, e, kernel | {"name": f"kernel {n}.{i}", "correlation_id": n})
        for n, some in enumerate(shifted)
        for i, (s, e, kernel) in enumerate(some)
    ]
    profile = draw(
        kernels=kernels,
        memcpys=memcpys,
        api_calls=[(n * STEP, n * STEP, {"correlation_id": n}) for n in range(len(steps))],
        nvtx_ranges=[(n * STEP, n * STEP + 10, {"text": f"step {n}"}) for n in range(len(steps))],
    )
    # Where they are is what other tests show: up to the next step, where marks are apart.
    windows = dict(
        window
        for of_phase in steps_by_phase(profile)
        for window in zip(
            of_phase.number.tolist(),
            zip(of_phase.start_ns.tolist(), of_phase.end_ns.tolist(), strict=True),
            strict=True,
        )
    )
    found = placement_estimate(profile).to_pylist()
    # A device that only copies in a phase waits for nothing there.
    devices = {
        step: of_phase.phase.devices
        for of_phase in steps_by_phase(profile)
        for step in of_phase.number.tolist()
    }

    # A step of its own kind that takes no time is no step.
    assert [row["step"] for row in found] == sorted(windows)
    for row in found:
        start, end = windows[row["step"]]
        inside = set(range(start, end))
        each = {
            device: tuple(part & inside for part in waits(device, kernels, memcpys))
            for device in devices[row["step"]]
        }
        peer, exposed = each[row["device_id"]]
        assert row["measured_ns"] == end - start
        assert len(exposed) == max(len(alone) for _, alone in each.values())
        check(row, peer, exposed)
