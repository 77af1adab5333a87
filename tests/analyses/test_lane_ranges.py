import pytest
from drawing import draw
from drawn_jobs import job

from gpuprof.analyses import lane_details as lane_ranges_module
from gpuprof.analyses.lane_details import lane_ranges
from gpuprof.model.table import Selection


def _rows(profile, level=None):
    rows = [tuple(row.values()) for row in lane_ranges(profile).to_pylist()]
    return rows if level is None else [row for row in rows if row[1] == level]


def _launched(ranges, kernels):
    """Ranges of the host, and kernels with the time of the call that launched each."""
    return draw(
        nvtx_ranges=[(start, end, {"text": text}) for start, end, text in ranges],
        api_calls=[(at, at + 1, {"correlation_id": n}) for n, (at, *_) in enumerate(kernels)],
        kernels=[
            (start, end, {"correlation_id": n, "device_id": device})
            for n, (_, device, start, end) in enumerate(kernels)
        ],
    )


def test_ranges_last_as_long_as_what_they_launched_on_each_device():
    profile = _launched(
        [
            (0, 100, "forward, op_id = 7"),
            (10, 40, "attention"),
            (100, 200, "backward"),
            (200, 300, "empty"),
        ],
        [
            (15, 0, 1_000, 1_100),
            (50, 0, 1_200, 1_300),
            (20, 1, 1_050, 1_080),
            (110, 0, 1_300, 1_400),
        ],
    )

    assert _rows(profile) == [
        (0, 1, 1_000, 1_300, "forward"),
        (0, 1, 1_300, 1_400, "backward"),
        (0, 2, 1_000, 1_100, "attention"),
        (1, 1, 1_050, 1_080, "forward"),
        (1, 2, 1_050, 1_080, "attention"),
    ]


def test_steps_stand_apart_from_other_ranges_and_are_not_shown_twice():
    rows = _rows(job([300, 300], steps=4))

    assert [row for row in rows if row[0] == 1] == [
        (1, 0, 50, 1_050, "step 0"),
        (1, 0, 1_050, 2_050, "step 1"),
        (1, 0, 2_050, 3_050, "step 2"),
        (1, 0, 3_050, 3_600, "step 3"),
    ]
    assert {row[1] for row in rows} == {0}


@pytest.fixture
def few_rows(monkeypatch):
    """A hundredth of the rows that a page has."""
    for name in ("_MOST_STEPS", "_MOST_RANGES"):
        monkeypatch.setattr(lane_ranges_module, name, vars(lane_ranges_module)[name] // 100)


@pytest.mark.usefixtures("few_rows")
def test_many_steps_share_rows():
    rows = _rows(job([300], steps=90), level=0)

    assert len(rows) <= 40
    assert rows[0][4] == "step 0 to 2"
    assert rows[-1][4].endswith("89")


@pytest.mark.usefixtures("few_rows")
def test_of_many_ranges_the_longest_are_shown():
    count = 80
    profile = _launched(
        [(10 * n, 10 * n + 9, f"layer {n}" if n % 2 else "long") for n in range(count)],
        [(10 * n + 1, 0, 10 * n + 5, 10 * n + (7 if n % 2 else 9)) for n in range(count)],
    )

    rows = _rows(profile, level=1)

    assert len(rows) <= 60
    assert sum(row[4] == "long" for row in rows) == count // 2


@pytest.mark.usefixtures("few_rows")
def test_of_many_ranges_of_one_length_the_first_are_shown():
    count = 61
    profile = _launched(
        [(10 * n, 10 * n + 9, f"layer {n}") for n in range(count)],
        [(10 * n + 1, 0, 10 * n, 10 * n + 5 + n % 2) for n in range(count)],
    )

    starts = [row[2] for row in _rows(profile, level=1)]
    assert starts == [10 * n for n in range(count) if n % 2 or n < 2 * 60 - count]


def test_a_part_of_a_recording_has_its_ranges_alone():
    profile = _launched(
        [(0, 10, "first"), (10, 20, "second")], [(1, 0, 100, 200), (11, 0, 300, 400)]
    )

    part = profile.restricted(Selection(windows=((150, 250),)))

    assert _rows(part) == [(0, 1, 150, 200, "first")]
