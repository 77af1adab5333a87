"""A job whose files are reduced one by one answers as one recording of all of them does."""

import random
import statistics
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pytest
from collective_jobs import Job
from drawing import draw
from drawn_jobs import job as stepping_job
from ranks.joint import job_report, mergeable, of_rank, partial_of, ranks_of

from gpuprof.analyses.reports import report
from gpuprof.base.errors import InputError, UsageError
from gpuprof.ranks.partial import analyses_of
from gpuprof.readers.job_files import file_of
from gpuprof.readers.merged_ranks import joined

# What the drawn jobs have no rows for.
_NO_ROWS = {
    "slow_links", "synchronising_calls", "operator_rates", "step_flops", "memory",
    "gpu_metric_means",
}  # fmt: skip
JOBS = {
    "collectives": lambda ranks: Job(ranks, 6, late="host").drawn(),
    "steps": lambda ranks: stepping_job([100, 120, 110, 300] * (ranks // 4) + [90] * (ranks % 4)),
}


@cache
def _reports(drawn, ranks, *, is_one_host=False):
    """The reports of a joined recording and of workers, whose results merge in two orders."""
    devices = range(ranks) if is_one_host else None
    epochs_ns = [-1_000 * rank for rank in range(ranks)]
    files = ranks_of(JOBS[drawn](ranks), epochs_ns, devices)
    shuffled = [*range(ranks)]
    random.Random(ranks).shuffle(shuffled)  # noqa: S311 - not for secrets
    by_one = report(joined(files), mergeable())
    return by_one, job_report(files), job_report(files, order=shuffled)


@pytest.mark.parametrize("name", mergeable())
@pytest.mark.parametrize("ranks", [2, 17])
@pytest.mark.parametrize("drawn", JOBS)
def test_one_process_and_workers_give_the_same_figures_in_any_order(name, ranks, drawn):
    by_one, by_workers, in_other_order = _reports(drawn, ranks)

    table = by_one.tables[name]
    assert by_workers.tables[name] == table
    assert in_other_order.tables[name] == table


def test_the_drawn_jobs_have_rows_in_nearly_all_tables():
    reports = [_reports(drawn, 17)[0] for drawn in JOBS]

    assert {name for name in mergeable() if not any(of.rows(name) for of in reports)} == _NO_ROWS


@pytest.mark.parametrize("name", mergeable())
@pytest.mark.parametrize("drawn", JOBS)
def test_ranks_of_one_host_keep_the_numbers_of_their_devices(name, drawn):
    by_one, by_workers, _ = _reports(drawn, 4, is_one_host=True)

    assert by_workers.tables[name] == by_one.tables[name]
    assert by_workers.notes == by_one.notes
    assert {row["device_id"] for row in by_one.rows("breakdown")} == {*range(4)}


def test_steps_of_files_are_those_that_were_drawn_on_one_clock():
    drawn = report(JOBS["steps"](17), ["steps", "breakdown"])
    by_one, *_ = _reports("steps", 17)

    # The clock of the first file began 16,000 ns before that of the drawing.
    began = {(row["device_id"], row["start_ns"] + 16_000) for row in drawn.rows("steps")}
    assert {(row["device_id"], row["start_ns"]) for row in by_one.rows("steps")} == began
    assert by_one.rows("breakdown") == drawn.rows("breakdown")
    assert {row["rank"] for row in by_one.rows("ranks")} == {*range(17)}


def test_standard_deviations_of_a_job_are_exact():
    dice = random.Random(1)  # noqa: S311 - not for secrets
    lengths = [[dice.randrange(10**4, 9 * 10**5) for _ in range(900)] for _ in range(3)]
    files = [
        draw(kernels=[(10**6 * n, 10**6 * n + ns) for n, ns in enumerate(of_file)])
        for of_file in lengths
    ]
    files = [of_rank(profile, rank) for rank, profile in enumerate(files)]
    everything = [ns for of_file in lengths for ns in of_file]

    (row,) = job_report(files, ["kernel_summary"]).rows("kernel_summary")

    assert (row["calls"], row["total_ns"]) == (len(everything), sum(everything))
    assert (row["min_ns"], row["max_ns"]) == (min(everything), max(everything))
    assert row["stddev_ns"] == pytest.approx(statistics.stdev(everything), rel=1e-15)
    assert row["median_ns"] == pytest.approx(statistics.median(everything), rel=2e-3)


def test_unknown_bytes_of_one_file_make_the_sum_unknown():
    known = draw(memcpys=[(0, 10, {"bytes": 100})])
    unknown = draw(memcpys=[(0, 10, {"bytes": None})])

    tables = job_report([of_rank(known, 0), of_rank(unknown, 1)]).tables

    (row,) = tables["transfers"].to_pylist()
    assert (row["calls"], row["bytes"], row["bytes_per_s"]) == (2, None, None)
    totals = {row["activity_group"]: row for row in tables["totals"].to_pylist()}
    assert totals["HtoD"]["bytes"] is None


def test_what_shows_single_activities_asks_for_a_rank():
    with pytest.raises(UsageError, match="lanes") as raised:
        analyses_of(["lanes"])

    assert "--rank" in raised.value.hint


def test_no_activity_of_a_file_is_kept():
    kernels = [(100 * n, 100 * n + 50) for n in range(5_000)]
    few, many = (draw(kernels=kernels[:number]) for number in (50, 5_000))

    assert _rows(many) <= _rows(few) + 10


def _rows(profile):
    # Kernels as regular as these are taken for steps, of each of which a row stays.
    of_steps = {"steps", "ranks", "rank_quantiles", "rank_groups", "findings", "bottom_line"}
    names = [name for name in mergeable() if name not in of_steps]
    return sum(table.num_rows for table in partial_of([profile], names).values())


def test_a_job_of_which_no_file_has_a_table_says_so():
    report = job_report([of_rank(draw(), 0), of_rank(draw(), 1)], ["kernel_summary", "pauses"])

    assert report.tables["pauses"] is None
    assert any("pauses is n/a" in note and "api_calls" in note for note in report.notes)


def test_notes_of_files_that_differ_in_numbers_alone_are_one():
    origins = [replace(draw().origin, warnings=(f"{n} events were lost",)) for n in (3, 4, 5)]
    files = [
        replace(of_rank(draw(), n), origin=replace(o, source=o.source.with_name(f"rank{n}")))
        for n, o in enumerate(origins)
    ]

    notes = [note for note in job_report(files, ["totals"]).notes if "lost" in note]

    assert notes == [
        "3 events were lost (in 3 of 3 files, with other numbers: rank0, rank1, rank2)."
    ]


def test_partial_results_are_arrow_tables_alone():
    partial = partial_of(ranks_of(Job(4, 6).drawn()))

    assert {type(table) for table in partial.values()} == {pa.Table}


def test_the_same_recording_twice_is_refused():
    files = ranks_of(Job(2, 6).drawn())

    with pytest.raises(InputError, match="same recording"):
        job_report([*files, files[0]], ["totals"])


def test_files_of_one_rank_and_missing_ranks_are_said():
    first, second, third = ranks_of(Job(3, 6).drawn(), [0, -1_000, -2_000])
    files = [of_rank(first, 0), of_rank(second, 0), of_rank(third, 2)]

    notes = job_report(files, ["totals"]).notes

    assert any(note.startswith("Rank 0 has 2 files of different processes") for note in notes)
    assert any(note.startswith("No file has rank 1") for note in notes)


def test_nulls_among_the_values_of_a_dictionary_are_no_devices():
    profile = draw(memcpys=[(0, 10), (20, 30)])
    ends = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array([3, None]))
    table = profile.sources["memcpys"]
    place = table.column_names.index("src_device_id")

    profile = profile.with_table("memcpys", table.set_column(place, "src_device_id", ends))

    _, used, _ = file_of(profile).extent()
    assert used == {0, 3}
