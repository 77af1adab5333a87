"""Jobs with a rank that slows down, ends early, has two files, or none: who is named, and how."""

import re
from dataclasses import replace

import pytest
from collective_jobs import US
from ranks.joint import job_report, of_rank, ranks_of
from ranks.test_answers import stepping_job

from gpuprof.analyses.reports import report
from gpuprof.model.data_model import BY_NAME, KERNELS
from gpuprof.readers.job_files import ranks_of_names
from gpuprof.readers.merged_ranks import joined
from gpuprof.show import Page
from gpuprof.show.overview import report_grids

RANKS, STEPS, SLOW_FROM = 6, 24, 14


def slowing_files(ranks=RANKS):
    """Files of a job whose rank 2 computes nine times as long from a step on."""
    job = stepping_job(ranks, lambda step: step >= SLOW_FROM, STEPS)
    return [of_rank(file, rank) for rank, file in enumerate(ranks_of(job))]


def part(file, first_ns, end_ns, name=None):
    """What of a file starts between two instants, on a clock of its own."""
    origin = file.origin
    tables = {
        table: [
            row | {key: row[key] - first_ns for key in ("start_ns", "end_ns")}
            for row in file.table(table).to_pylist()
            if first_ns <= row["start_ns"] < end_ns
        ]
        for table in ("kernels", "api_calls", "nvtx_ranges")
    }
    for table, rows in tables.items():
        file = file.with_table(table, BY_NAME[table].table(rows))
    source = origin.source.with_name(name or origin.source.name)
    return replace(file, origin=replace(origin, source=source, epoch_ns=first_ns))


def middle_ns(files):
    """Between two steps, some before rank 2 slows down."""
    ends = sorted(row["end_ns"] for row in files[0].table("kernels").to_pylist())
    return ends[2 * 10 - 1] + 2 * US


def ended_early(files):
    return [*files[:4], part(files[4], 0, middle_ns(files)), *files[5:]]


def in_halves(files):
    """Rank 4 was recorded anew by another process, as the names tell."""
    middle = middle_ns(files)
    rows = files[4].table("kernels").to_pylist()
    anew = files[4].with_table("kernels", KERNELS.table([row | {"process_id": 9} for row in rows]))
    halves = [
        part(files[4], 0, middle, "rank4_a.sqlite"),
        part(anew, middle, 10**12, "rank4_b.sqlite"),
    ]
    return [*files[:4], *halves, *files[5:]]


def ways(files, *names):
    """The report of a job whose files are read one by one, and that of the joined recording."""
    return [job_report(files, names), report(joined(files), names)]


def sentence(result):
    return result.rows("bottom_line")[0]["bottom_line"]


@pytest.mark.parametrize("odd", [list, ended_early, in_halves], ids=["whole", "early", "halves"])
def test_a_rank_that_slows_down_is_named_from_that_step_on(odd):
    """Its steps make the steps of all ranks another phase."""
    for result in ways(odd(slowing_files()), "bottom_line", "findings"):
        assert f"the median of the others from step {SLOW_FROM} on (compute" in sentence(result)
        assert "Slow without collectives: rank 2 takes" in sentence(result)
        assert "Rank 2 makes the others wait" in sentence(result)


def test_a_rank_that_ends_early_has_a_note_and_the_others_keep_their_steps():
    files = slowing_files()
    for early, whole in zip(
        ways(ended_early(files), "ranks", "collective_waits"),
        ways(files, "ranks", "collective_waits"),
        strict=True,
    ):
        (note,) = [note for note in early.notes if "ends before" in note]
        assert note.startswith("The recording of rank 4 ends before those of the others, by up to")
        assert not any("ends before" in note for note in whole.notes)
        steps, of_all = (
            {row["rank"]: row["steps"] for row in result.rows("ranks")} for result in (early, whole)
        )
        assert steps[4] < of_all[4]
        assert {**steps, 4: 0} == {**of_all, 4: 0}
        waits, all_waits = (
            {row["rank"]: row for row in result.rows("collective_waits")}
            for result in (early, whole)
        )
        # They waited for rank 2 all the same; what is left may have been waiting for rank 4.
        assert waits[0]["waiting_ns"] == all_waits[0]["waiting_ns"]
        assert waits[0]["transfer_ns"] + waits[0]["unknown_ns"] == all_waits[0]["transfer_ns"]
        assert waits[0]["unknown_ns"] > 0 == all_waits[0]["unknown_ns"]


def test_two_files_of_a_rank_have_a_note_and_the_others_keep_their_numbers():
    files = slowing_files()
    for halves, whole in zip(
        ways(in_halves(files), "ranks", "collective_waits"),
        ways(files, "ranks", "collective_waits"),
        strict=True,
    ):
        assert any(note.startswith("Rank 4 has 2 files of diff") for note in halves.notes)
        of_others, same = (
            [
                row | {"device_id": 0, "kept_by": (row["kept_by"] or "none").split(":")[0]}
                for row in result.rows("collective_waits")
                if row["rank"] != 4
            ]
            for result in (halves, whole)
        )
        assert of_others == same
        of_halves = [row for row in halves.rows("collective_waits") if row["rank"] == 4]
        (of_whole,) = [row for row in whole.rows("collective_waits") if row["rank"] == 4]
        for name in ("calls", "transfer_ns", "waiting_ns"):
            assert sum(row[name] for row in of_halves) == of_whole[name]
        steps, of_all = (
            {row["rank"]: (row["steps"], row["slow_from_step"]) for row in result.rows("ranks")}
            for result in (halves, whole)
        )
        assert {**steps, 4: 0} == {**of_all, 4: 0}


def test_a_rank_is_numbered_by_its_name_though_it_has_two_files():
    names = ["rank0.a", "rank1.a", "rank1.b", "rank2.a"]
    assert ranks_of_names(names) == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        pytest.param(["2024-run.2.rep", "2024-run.10.rep"], [2, 10], id="one-number-differs"),
        pytest.param(["node0-0.rep", "node1-1.rep"], [None, None], id="two-numbers-differ"),
        pytest.param(["a0.rep", "b1.rep"], [None, None], id="other-names"),
        pytest.param(["a1.rep", "a01.rep"], [None, None], id="one-number-twice"),
    ],
)
def test_without_the_word_the_one_number_in_which_names_differ_is_the_rank(names, ranks):
    assert ranks_of_names(names) == ranks
    # Numbers that most files share are those of the ranks of a host.
    assert ranks_of_names(["n1_rank0", "n1_rank1", "n2_rank0", "n2_rank1"]) == [None] * 4


def test_waiting_for_a_rank_without_a_file_is_not_called_moving_data():
    files = slowing_files()
    without = [*files[:2], *files[3:]]
    for absent, whole in zip(
        ways(without, "findings", "collective_waits"),
        ways(files, "findings", "collective_waits"),
        strict=True,
    ):
        text = str(absent.rows("findings"))
        assert "Add the recording of rank 2, which tells whether data moves".lower() in text.lower()
        assert "send fewer bytes" not in text
        assert "moves data" not in text
        for row in absent.rows("collective_waits"):
            assert row["transfer_ns"] is None
            assert row["unknown_ns"] > 9 * 4_000 * US
        assert "send fewer bytes" in str(whole.rows("findings"))


def test_waiting_for_the_last_rank_without_a_file_is_not_called_moving_data():
    """No gap between ranks tells that it is absent, but what the files say of their job does."""
    files = slowing_files(ranks=4)[:3]
    told = [
        file.with_table(
            "runs", BY_NAME["runs"].table([file.table("runs").to_pylist()[0] | {"world_size": 4}])
        )
        for file in files
    ]
    for all_known, absent in zip(ways(files, "findings"), ways(told, "findings"), strict=True):
        assert "moves data" in str(all_known.rows("findings"))
        assert "moves data" not in str(absent.rows("findings"))
        assert "add the recording of rank 3" in str(absent.rows("findings")).lower()
        assert "No file has rank 3; the job has 4 ranks." in absent.notes


def test_a_group_that_has_more_ranks_than_files_is_not_complete():
    kernels = [
        {
            "start_ns": row["start_ns"], "end_ns": row["end_ns"], "device_id": row["device_id"],
            "process_id": 100, "kernel": row["name"], "collective": "allreduce", "bytes_in": 8,
            "bytes_out": 8, "group_size": size, "process_group": "ddp",
        }
        for size in (2,)
        for row in stepping_job(2, lambda _: False).table("kernels").to_pylist()
        if row["stream_id"] == 20
    ]  # fmt: skip
    for size in (2, 3):
        told = BY_NAME["collectives"].table([row | {"group_size": size} for row in kernels])
        profile = stepping_job(2, lambda _: False).with_table("collectives", told)
        (row, _) = report(profile, ["collective_waits"]).rows("collective_waits")
        assert (row["transfer_ns"] is None) == (size == 3)
        assert (row["unknown_ns"] > 0) == (size == 3)


def test_devices_of_ranks_that_number_theirs_alike_are_called_by_rank_and_own_number():
    job = stepping_job(4, lambda step: step >= SLOW_FROM, STEPS)
    files = [
        of_rank(file, rank) for rank, file in enumerate(ranks_of(job, hosts_devices=[0, 3, 3, 1]))
    ]
    result = report(joined(files), ["bottom_line", "findings", "breakdown"])

    texts = [sentence(result), *(row["finding"] for row in result.rows("findings"))]
    assert any("rank 2" in text for text in texts)
    assert not any(re.search(r"(?<!'s )\bdevice \d", text, re.IGNORECASE) for text in texts)
    shown = report_text(result)
    assert "rank 1's device 3" in shown
    assert not re.search(r"(?<!'s )\bdevice \d", shown)


def report_text(result):
    """As the terminal shows it."""
    return "\n".join(" ".join(row) for grid in report_grids(result, Page()) for row in grid.rows)


def test_each_finding_of_many_ranks_stands_once_with_its_phases():
    files = slowing_files(64)
    result = job_report(files, ["bottom_line", "findings"])

    rows = result.rows("findings")
    assert len({row["cause"] for row in rows}) == len(rows) >= 2
    (waiting,) = [row for row in rows if row["cause"] == "collective_waiting"]
    assert waiting["phase"] == "step # (2)"
    assert waiting["where"] == "rank 2"
    assert re.match(
        r"63 of 64 devices: each waits in collectives for other ranks, most for rank 2: [\d.]+ ms"
        r' of a step of "step # \(2\)" \([\d.]+ %\) in the median; [\d.]+ µs of a step of'
        r' "step # \(1\)" \(',
        waiting["finding"],
    )
    lines = result.rows("bottom_line")
    assert {row["phase"] for row in lines} == {"step # (1)", "step # (2)"}
    assert all(f'A step of "{row["phase"]}" takes' in row["bottom_line"] for row in lines)
    assert ["makes the others wait" in row["bottom_line"] for row in lines] == [True, False]
