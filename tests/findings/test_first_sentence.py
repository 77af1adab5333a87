"""The first sentence of a report: at most 30 words, one base for its shares, three digits."""

import pytest
from drawing import draw
from drawn_steps import HTOD, LAYOUT, PEER, US, kernel, queued, steps

from gpuprof.findings.bottom_line import bottom_line
from gpuprof.findings.causes import CAUSES, first_sentence
from gpuprof.findings.findings import findings

WORST = {
    "cause": "exposed_peer_copies",
    "phase": "step #",
    "cost_ns": 1_380_456,
    "cost_share": 0.302,
    "win_ns": 1_380_456,
    "win_share": 0.302,
}


def predicted(won_ns):
    return WORST | {"predicted_win_ns": won_ns, "predicted_win_share": won_ns / 4_567_000}


WON = {
    "bound": (WORST, "at most all of that can be won"),
    "less": (WORST | {"win_ns": 700_000, "win_share": 0.153}, "at most 700 µs (15.3 %) can be won"),
    "nothing": (WORST | {"win_ns": 0}, "nothing can be won by itself"),
    "replay": (predicted(708_321), "708 µs (15.5 %) can be won"),
    "all": (predicted(1_380_456), "all of that can be won"),
    "next-to-nothing": (predicted(100), "next to nothing can be won by itself"),
}


@pytest.mark.parametrize(("worst", "won"), WON.values(), ids=WON)
def test_a_cost_is_said_with_what_can_be_won_of_it(worst, won):
    assert first_sentence("A step takes 4.57 ms", 0.6, worst) == (
        f"A step takes 4.57 ms, of it 1.38 ms (30.2 %) in exposed copies between devices; {won}"
    )


def test_where_a_step_computes_that_is_said_first():
    worst = WORST | {"cost_share": 0.02, "win_ns": 45_600, "win_share": 0.01}

    assert first_sentence("A step takes 4.57 ms", 0.9, worst) == (
        "A step takes 4.57 ms, 90.0 % of it compute; at most 45.6 µs (1.0 %) can be won from"
        " exposed copies between devices"
    )
    assert "of it compute" not in first_sentence("A step takes 4.57 ms", 0.899, worst)
    # What is a part of compute is said with what it costs of the step.
    layout = worst | {"cause": "layout_conversions"}
    assert "compute" not in first_sentence("A step takes 4.57 ms", 0.9, layout)


@pytest.mark.parametrize(("share", "compute"), [(0.5, ", 50.0 % of it compute"), (0.49, "")])
def test_where_there_is_no_finding_nothing_is_promised(share, compute):
    sentence = first_sentence("A step takes 4.57 ms", share, None)

    assert sentence == f"A step takes 4.57 ms{compute}; nothing was found to win"


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("compute_share", [0.5, 0.95])
def test_no_first_sentence_has_more_than_30_words(cause, compute_share):
    longest = WORST | {"cause": cause, "win_ns": 700_000, "win_share": 0.153}
    subject = 'A step of "Jacobi solve" takes 2.41 ms'

    assert len(first_sentence(subject, compute_share, longest).split()) <= 30


def test_the_largest_cause_of_a_step_is_that_of_the_first_finding():
    profile = queued((70, kernel()), (10, LAYOUT), (20, HTOD))
    first = findings(profile).to_pylist()[0]
    line = bottom_line(profile)["bottom_line"][0].as_py()

    assert (first["cause"], first["cost_ns"]) == ("exposed_host_copies", 20 * US)
    assert line.startswith(
        "A step takes 100 µs, of it 20.0 µs (20.0 %) in exposed copies with the host; all of that"
        " can be won. The step on device 0 (median 100 µs of 7 steps"
    )


def test_what_is_outside_of_steps_is_a_share_of_the_recording():
    kernels = [
        (step * 100 * US + at * US, step * 100 * US + (at + 25) * US, {"name": name})
        for step in range(10, 22)
        for at, name in ((0, "first"), (25, "second"), (50, "second"), (75, "third"))
    ]
    copy = (0, 400 * US, {"dst_device_id": 0, "bytes": 8})
    (line, *_) = bottom_line(draw(kernels=kernels, memcpys=[copy]))["bottom_line"].to_pylist()

    assert line.startswith(
        "A step takes 100 µs, of the recording 600 µs (27.3 %) in set-up; "
        "at most all of that can be won"
    )


def test_each_device_says_what_costs_it_most_where_there_are_no_steps():
    """Device 1 waits for a copy for half of its 100 µs, while device 0 computes for 200 µs."""
    kernels = [(0, 200 * US), (0, 50 * US, {"device_id": 1})]
    copies = [(50 * US, 100 * US, {"dst_device_id": 1, "bytes": 8, "device_id": 1})]
    lines = bottom_line(draw(kernels=kernels, memcpys=copies)).to_pylist()

    assert {row["device_id"]: row["bottom_line"].partition(". ")[0] for row in lines} == {
        0: "The recording of device 0 spans 200 µs, 100 % of it compute; nothing was found to win",
        1: "The recording of device 1 spans 100 µs, of it 50.0 µs (50.0 %) in exposed copies with"
        " the host; next to nothing can be won by itself",
    }


def test_copies_between_devices_that_no_step_waits_for_are_not_what_costs_most():
    copied = PEER | {"bytes": 8}
    profile = steps(6, 100, (0, 2, 99, kernel()), (1, 40, 60, copied))
    line = bottom_line(profile)["bottom_line"][0].as_py()

    assert line.startswith("A step takes 100 µs, 97.")
    assert "copies between devices" not in line.partition(". ")[0]
