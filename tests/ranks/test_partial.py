"""A job whose files are reduced one by one answers as one recording of all of them does."""

import random
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pytest
from collective_jobs import Job
from drawing import draw
from drawn_jobs import job as stepping_job
from ranks.joint import alike, exact, job_report, mergeable, of_rank, partial_of, ranks_of

from gpuprof.analyses import analysis_named
from gpuprof.base.errors import InputError, UsageError
from gpuprof.ranks.partial import analyses_of, merged, reduced
from gpuprof.readers.merged_ranks import file_of, joined

JOBS = {
    "collectives": lambda: Job(4, 6, late="host").drawn(),
    "steps": lambda: stepping_job([100, 120, 110, 300]),
}
EPOCHS_NS = {
    "no offset": None,
    "every rank begins at another time": [-5_000, -4_000, -3_000, -9_000],
}


def _answer(name, profile):
    analysis = analysis_named(name)
    return None if analysis.missing(profile) else analysis.run(profile)


@cache
def _both(drawn, epochs, devices):
    """The report of a job, and the joined recording of the same files."""
    files = ranks_of(JOBS[drawn](), EPOCHS_NS[epochs], devices)
    return job_report(files), joined(files)


@pytest.mark.parametrize("name", [*exact(), "activity_summary", "transfers"])
@pytest.mark.parametrize("epochs", EPOCHS_NS)
@pytest.mark.parametrize("drawn", JOBS)
@pytest.mark.parametrize("devices", [(0, 0, 0, 0), (0, 1, 2, 3)], ids=["hosts", "one host"])
def test_a_job_answers_as_the_joined_recording(name, drawn, epochs, devices):
    report, recording = _both(drawn, epochs, devices)

    of_job, of_joined = report.tables[name], _answer(name, recording)

    assert (of_job is None) == (of_joined is None)
    assert of_job is None or alike(of_job, of_joined)


@pytest.mark.parametrize("name", ["steps", "ranks", "ranges"])
@pytest.mark.parametrize("epochs", EPOCHS_NS)
def test_steps_that_ranges_mark_are_those_of_the_joined_recording(name, epochs):
    report, recording = _both("steps", epochs, (0, 0, 0, 0))

    assert alike(report.tables[name], _answer(name, recording))


def test_it_does_not_matter_how_partial_results_were_merged():
    files = ranks_of(Job(4, 6, late="work").drawn())
    analyses = analyses_of(mergeable())
    partials = [reduced(profile, place, analyses) for place, profile in enumerate(files)]

    at_once = merged(partials, analyses)
    one_by_one = partials[0]
    for partial in partials[1:]:
        one_by_one = merged([one_by_one, partial], analyses)

    for name, table in at_once.items():
        assert sorted(map(str, table.to_pylist())) == sorted(map(str, one_by_one[name].to_pylist()))


def test_medians_of_many_different_durations_are_close():
    dice = random.Random(1)  # noqa: S311 - not for secrets
    files = [
        draw(
            kernels=[(10**6 * n, 10**6 * n + dice.randrange(10**4, 9 * 10**5)) for n in range(900)]
        )
        for _ in range(3)
    ]
    files = [of_rank(profile, rank) for rank, profile in enumerate(files)]

    (row,) = job_report(files, ["kernel_summary"]).tables["kernel_summary"].to_pylist()
    (joined_row,) = analysis_named("kernel_summary").run(joined(files)).to_pylist()

    assert row["calls"] == 2700
    assert row["total_ns"] == joined_row["total_ns"]
    assert (row["min_ns"], row["max_ns"]) == (joined_row["min_ns"], joined_row["max_ns"])
    assert row["median_ns"] != joined_row["median_ns"]
    assert row["median_ns"] == pytest.approx(joined_row["median_ns"], rel=2e-3)
    assert row["stddev_ns"] == pytest.approx(joined_row["stddev_ns"], rel=2e-3)


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
    return sum(table.num_rows for table in partial_of([profile], exact()).values())


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

    assert file_of(profile).extent().used == {0, 3}
