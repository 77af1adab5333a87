"""What devices do in slices of the time of all of them, against sums that are known."""

import pytest
from collective_jobs import REDUCE, US, Job
from drawing import draw
from ranks.joint import job_report, of_rank, ranks_of

from gpuprof.analyses.breakdown import breakdown
from gpuprof.analyses.ranks_over_time import ranks_over_time
from gpuprof.readers.merged_ranks import joined

TABLE = "ranks_over_time"
EPOCH_NS = 1_700_000_000 * 10**9
PARTS = {
    "recorded_ns": "span_ns",
    "compute_ns": "compute_ns",
    "communication_ns": "exposed_communication_ns",
    "idle_ns": "idle_ns",
}


def job_files(epochs_ns=None, late_ns=()):
    job = Job(6, 40, seed=3, names=(REDUCE,), late="host")
    return ranks_of(job.drawn(late_ns=[*enumerate(late_ns)]), epochs_ns)


def rows_of(files):
    """The rows of the joined recording, which are those of the job read in parts."""
    table = ranks_over_time(joined(files))
    assert job_report(files, [TABLE]).tables[TABLE].equals(table)
    return table.to_pylist()


def starts(rows):
    """Where the slices of each device with any activity begin."""
    first = {}
    for row in rows:
        first.setdefault(row["rank"], row["start_ns"])
    return first


@pytest.mark.parametrize(
    "epochs_ns",
    [
        pytest.param(None, id="since-0"),
        pytest.param([EPOCH_NS - 7_919 * rank for rank in range(6)], id="since-1970"),
    ],
)
def test_slices_add_up_to_the_breakdown_to_the_nanosecond(epochs_ns):
    files = job_files(epochs_ns)
    rows = rows_of(files)

    for device in breakdown(joined(files)).to_pylist():
        of_device = [row for row in rows if row["device_id"] == device["device_id"]]
        sums = {name: sum(row[name] for row in of_device) for name in PARTS}
        assert sums == {name: device[column] for name, column in PARTS.items()}


def test_slices_are_of_one_length_and_as_many_as_can_be_drawn():
    rows = rows_of(job_files())

    (length,) = {row["end_ns"] - row["start_ns"] for row in rows}
    slices = {row["start_ns"] // length for row in rows}
    assert length.bit_count() == 1
    assert (min(slices), max(slices) + 1) == (0, len(slices))
    assert 200 < len(slices) <= 400
    for row in rows:
        assert 0 < row["recorded_ns"] <= length
        assert row["recorded_ns"] == sum(
            row[name] for name in ("compute_ns", "communication_ns", "copies_ns", "idle_ns")
        )


def test_slices_begin_where_a_part_is_chosen_by():
    files = job_files([EPOCH_NS - 7_919 * rank for rank in range(6)])
    joint = joined(files)
    (first_ns,) = joint.query("SELECT min(start_ns) AS ns FROM kernels").column(0).to_pylist()

    begun, ended = min((row["start_ns"], row["end_ns"]) for row in rows_of(files))

    assert begun <= first_ns < ended


def test_clocks_that_are_apart_are_set_right():
    late_ns = 5_000 * US
    kernels = [[], []]
    for step in range(12):
        at = 1_000 * US * step
        kernels[0] += [(at, at + 300 * US, {}), (at + 300 * US, at + 900 * US, {"name": REDUCE})]
        kernels[1] += [(at, at + 500 * US, {}), (at + 500 * US, at + 900 * US, {"name": REDUCE})]
    late = [(start + late_ns, end + late_ns, row) for start, end, row in kernels[1]]

    agreeing, apart = (
        starts(rows_of([of_rank(draw(kernels=of_rank_), n) for n, of_rank_ in enumerate(pair)]))
        for pair in (kernels, (kernels[0], late))
    )

    assert agreeing == apart == {0: 0, 1: 0}


def test_a_rank_that_starts_later_is_empty_until_then():
    late = [(90_000, 100_000)]
    rows = rows_of(
        [of_rank(draw(kernels=kernels), n) for n, kernels in enumerate([[(0, 100)], late])]
    )

    first = starts(rows)
    assert first[0] == 0
    assert 80_000 < first[1] <= 90_000


def test_files_without_a_common_clock_begin_together():
    files = job_files([EPOCH_NS] * 6)
    files[3] = job_files()[3]

    table = job_report(files, [TABLE]).tables[TABLE]

    assert max(starts(table.to_pylist()).values()) <= table["end_ns"][0].as_py()


def test_an_unknown_device_is_left_out():
    kernels = [(0, 100, {"device_id": None}), (0, 100, {"device_id": 1})]
    rows = rows_of([of_rank(draw(kernels=kernels), rank) for rank in range(2)])

    assert {row["device_id"] for row in rows} == {0, 1}
    assert sum(row["recorded_ns"] for row in rows) == 200
