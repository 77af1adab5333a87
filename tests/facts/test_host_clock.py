"""Recordings whose clocks of host and devices are apart by a known amount, and those that agree."""

from pathlib import Path

import pytest
from drawing import draw
from recordings import kernel, trace

from gpuprof.analyses.api_calls import launch_latency
from gpuprof.analyses.breakdown import utilisation
from gpuprof.analyses.pauses import gaps, pauses
from gpuprof.analyses.reports import report
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.findings.causes import UNKNOWN_WIN
from gpuprof.findings.findings import findings
from gpuprof.predict.predict import predict
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
US, MS, S = 1_000, 1_000_000, 1_000_000_000
HOST = {"process_id": 100, "thread_id": 1}
WAIT = {"name": "cudaDeviceSynchronize"}


def waiting(steps=40, *, apart=lambda _: 0, period=100 * MS, kernel_ns=20 * MS, waits=True):
    """A host that launches a kernel in each step, waits for it, and then loads data.

    Args:
        steps: How many.
        apart: How much later the devices' clock is, by the number of the step.
        period: From one step to the next.
        kernel_ns: How long each kernel runs.
        waits: Whether the host waits.
    """
    kernels, calls, ranges = [], [], []
    for number in range(steps):
        at, row = number * period, {"correlation_id": number}
        since = at + 8 * US
        calls.append((at, at + 6 * US, row))
        shift = apart(number)
        kernels.append((since + shift, since + shift + kernel_ns, row))
        if waits:
            calls.append((at + 9 * US, since + kernel_ns + 4 * US, WAIT))
        ranges.append((since + kernel_ns + 5 * US, at + period - US, {"text": "load"} | HOST))
    return draw(kernels=kernels, memcpys=[], api_calls=calls, nvtx_ranges=ranges)


def causes(profile):
    return {(row["cause"], row["detail"]): row["total_ns"] for row in pauses(profile).to_pylist()}


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "never-waiting"])
@pytest.mark.parametrize("apart", [132 * S, 185_760 * S, -3 * MS])
def test_a_constant_difference_changes_no_answer(apart, waits):
    right = waiting(waits=waits)
    profile = waiting(apart=lambda _: apart, waits=waits)

    # The launches of a drawn step take 8 µs, those of a usual one 5.
    assert host_clock(profile).shifts_ns == {100: apart + 3 * US}
    # Pieces differ by these 3 µs alone.
    for label, total_ns in causes(right).items():
        assert abs(causes(profile)[label] - total_ns) <= 39 * 3 * US
    assert causes(profile)["range", "load"] > 39 * 79 * MS
    assert launch_latency(profile).to_pylist()[0]["median_ns"] == 5 * US
    idle = ("idle_waiting_ns", "idle_host_ns")
    same, found = (utilisation(p).to_pylist()[0] for p in (right, profile))
    assert all(abs(found[name] - same[name]) <= 39 * 6 * US for name in idle)
    longest = gaps(profile).to_pylist()[0]
    assert longest["host_range"] == "load"
    assert longest["launch_latency_ns"] == 5 * US
    assert longest["launch_ns"] == longest["start_ns"] + longest["gap_ns"] - 5 * US


def test_the_amount_is_said_once_where_the_host_is_looked_at():
    profile = waiting(apart=lambda _: 132 * S)

    [note] = [note for note in report(profile, ["findings", "gaps"]).notes if "clocks" in note]
    assert note == (
        "The clocks of GPU and host disagree: +132 s was added to all host times, so that the"
        " fastest launch takes 5.00 µs."
    )
    assert not any("clocks" in note for note in report(profile, ["breakdown"]).notes)


def test_a_prediction_is_that_of_clocks_that_agree():
    right = predict(waiting(), ["scale=.:0.5"])
    shifted = predict(waiting(apart=lambda _: 132 * S), ["scale=.:0.5"])

    (row, same) = (p.tables["prediction"].to_pylist()[0] for p in (shifted, right))
    assert abs(row["change"] - same["change"]) < 0.01
    assert any(note.startswith("The clocks of GPU and host disagree") for note in shifted.notes)


@pytest.mark.parametrize(
    "apart",
    [
        pytest.param(lambda number: 132 * S + (number >= 20) * 2 * MS, id="a-step-forward"),
        pytest.param(lambda number: 132 * S - (number >= 20) * 2 * MS, id="a-step-back"),
        pytest.param(lambda number: -5 * MS + number * MS // 10, id="drifting"),
    ],
)
def test_a_difference_that_changes_by_more_than_a_millisecond_makes_causes_unknown(apart):
    profile = waiting(apart=apart)

    assert {cause for cause, _ in causes(profile)} == {"unknown"}
    (row,) = findings(profile).to_pylist()
    assert (row["cause"], row["win"]) == ("idle", UNKNOWN_WIN)
    assert "the clocks of GPU and host disagree" in row["finding"]
    assert utilisation(profile).to_pylist()[0]["idle_waiting_ns"] is None
    assert gaps(profile).to_pylist()[0]["host_range"] is None
    assert predict(profile, []).headline == (
        "No prediction: the clocks of GPU and host disagree, and no constant sets them right."
    )
    [note] = report(profile, ["gaps"]).notes
    assert note.endswith(
        "the clocks of GPU and host disagree in this recording. Host activity is n/a in gaps; all"
        " other figures are valid."
    )


def test_a_slow_drift_within_a_millisecond_is_set_right():
    profile = waiting(apart=lambda number: 132 * S + number * MS // 50)

    assert host_clock(profile).shifts_ns == {100: 132 * S + 3 * US}


def queued(apart=0, *, late_waits=0):
    """Launches far ahead of a queue of ten kernels of 3 ms, in seconds that begin idle or queued.

    In each second the host launches ten kernels, and waits for the first, then for all.

    Args:
        apart: How much later the devices' clock is.
        late_waits: By how much later the calls of the second second return.
    """
    kernels, calls = [], []
    for second in range(3):
        # The queue of the second second is behind work that was not recorded.
        start = second * S + 8 * US + (second == 1) * 50 * MS
        for number in range(10):
            row = {"correlation_id": 10 * second + number}
            at = second * S + number * 10 * US
            calls.append((at, at + 6 * US, row))
            kernels.append((start + apart, start + apart + 3 * MS, row))
            start += 3 * MS
        end = start + 4 * US - (second == 1) * late_waits
        calls.append((second * S + 200 * US, end, WAIT))
    return draw(kernels=kernels, memcpys=[], api_calls=calls)


def test_a_second_that_begins_with_a_queue_is_no_drift():
    assert host_clock(queued(132 * S)).shifts_ns == {100: 132 * S + 3 * US}
    assert host_clock(queued(132 * S, late_waits=50 * MS)).shifts_ns == {100: None}


def ahead(steps=50):
    """A part of a program that is always 9 ms ahead of its device, and waits for older kernels."""
    kernels, calls = [], []
    for number in range(steps):
        at, row = number * 10 * MS, {"correlation_id": number}
        calls += [(at, at + 6 * US, row), (at + 6 * US, at + 9 * MS + 6 * MS, WAIT)]
        kernels.append((at + 9 * MS, at + 14 * MS, row))
    return draw(kernels=kernels, memcpys=[], api_calls=calls)


def test_work_that_always_waits_behind_other_work_is_no_other_clock():
    """Each call returns after the kernel launched before it has ended, not the next one."""
    assert host_clock(ahead()).shifts_ns == {}
    assert causes(ahead())["waits_for_unknown", None] > 0


def test_a_late_start_without_calls_that_wait_is_no_other_clock():
    profile = waiting(apart=lambda _: 500 * MS, waits=False)

    assert host_clock(profile).shifts_ns == {}


@pytest.mark.parametrize(("steps", "shift"), [(9, None), (10, -3 * MS + 3 * US)])
def test_of_few_launches_none_need_have_started_at_once(steps, shift):
    assert host_clock(waiting(steps, apart=lambda _: -3 * MS)).shifts_ns == {100: shift}


def test_each_process_has_its_clock():
    one, other = waiting(apart=lambda _: -MS), waiting(apart=lambda _: 7 * S)
    tables = {}
    for name in ("kernels", "api_calls"):
        rows = other.table(name).to_pylist()
        rows = [row | {"process_id": 200, "device_id": row.get("device_id")} for row in rows]
        tables[name] = [*one.table(name).to_pylist(), *rows]
    profile = draw(
        **{
            name: [
                (row.pop("start_ns"), row.pop("end_ns"), row)
                for row in sorted(rows, key=lambda row: row["start_ns"])
            ]
            for name, rows in tables.items()
        }
    )

    clock = host_clock(profile)
    assert clock.shifts_ns == {100: -MS + 3 * US, 200: 7 * S + 3 * US}
    assert "up to +7.00 s was added to all host times of 2 processes" in clock.note()


def test_without_calls_there_is_no_clock_to_compare():
    assert host_clock(draw(kernels=[(0, 10)])).shifts_ns == {}
    assert host_clock(draw(kernels=[(0, 10)], api_calls=[(0, 5, {})])).shifts_ns == {}


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize(
    ("name", "shift_ns"),
    [("baseline", 324_717_054), ("bucketcap100mb", 823_081_098), ("nobroadcast", -156_297_255)],
)
def test_real_recordings_whose_devices_are_early_or_late(name, shift_ns):
    """The first of their kernels start 5 µs after their launch, where most calls then wait."""
    profile = read_profile(CORPUS / f"nsys-rep/NERSC__sc21-dl-tutorial__4gpu_{name}.qdrep")

    assert [*host_clock(profile).shifts_ns.values()] == [shift_ns]


def test_the_launch_latency_of_a_part_is_that_of_its_own_launches():
    calls = [(0, 1), (100, 2), (200, 3)]
    profile = trace(
        kernels=[
            kernel("first", 90 * US, 95 * US, device_id=0, correlation_id=1),
            kernel("second", 105 * US, 110 * US, device_id=0, correlation_id=2),
            kernel("third", 230 * US, 240 * US, device_id=0, correlation_id=3),
        ],
        api_calls=[
            {
                "name": "cudaLaunchKernel",
                "correlation_id": n,
                "start_ns": at * US,
                "end_ns": at * US,
            }
            for at, n in calls
        ],
    )

    part = part_of(profile, RecordingPart(from_ns=100 * US))
    (row,) = launch_latency(part).to_pylist()
    assert (row["calls"], row["median_ns"], row["max_ns"]) == (2, 17_500, 30_000)
