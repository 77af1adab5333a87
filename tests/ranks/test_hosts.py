"""Jobs whose files tell their hosts: what is said of hosts, and where it is not."""

from dataclasses import replace

import pytest
from collective_jobs import REDUCE, US, Job
from drawing import draw
from ranks.joint import job_report, of_rank, ranks_of

from gpuprof.analyses.reports import report
from gpuprof.model.data_model import BY_NAME
from gpuprof.readers.merged_ranks import joined

SIZE = 1_000_000
HOSTS = ("north", "north", "north", "South", "South", "South")
SOUTH_AHEAD_NS = 5_000 * US


def on_hosts(files, hosts=HOSTS):
    return [
        replace(file, origin=replace(file.origin, host=host))
        for file, host in zip(files, hosts, strict=True)
    ]


def late_job(apart_ns=(0, 0, 0, *[SOUTH_AHEAD_NS] * 3)):
    """Rank 2 is late."""
    job = Job(6, 12, seed=3, names=(REDUCE,), late="host")
    return ranks_of(job.drawn(late_ns=[*enumerate(apart_ns)]))


def answers(files, name):
    """The rows of a table of the joined recording, which are those of the job read in parts."""
    rows = report(joined(files), [name]).rows(name)
    assert job_report(files, [name]).rows(name) == rows
    return rows


def test_the_clock_of_each_host_has_one_offset():
    first, second = answers(on_hosts(late_job()), "clock_offsets")

    assert (first["host"], first["reference_host"], first["devices"]) == ("north", "north", 3)
    assert (second["host"], second["reference_host"], second["devices"]) == ("South", "north", 3)
    assert (first["is_set_right"], second["is_set_right"]) == (False, True)
    # Ends vary by two microseconds.
    assert abs(second["offset_ns"] - SOUTH_AHEAD_NS) <= 2 * US
    assert (second["collectives"], second["rank"], second["device_id"]) == (36, None, None)


def test_files_of_one_host_whose_clocks_differ_have_an_offset_each():
    rows = answers(
        on_hosts(late_job((0, 0, 0, 5_000 * US, 5_000 * US, 6_000 * US))), "clock_offsets"
    )

    assert [(row["host"], row["rank"], row["devices"]) for row in rows] == [
        ("north", None, 3),
        ("South", 3, 1),
        ("South", 4, 1),
        ("South", 5, 1),
    ]


def test_where_a_host_is_not_known_its_ranks_have_an_offset_each():
    rows = answers(on_hosts(late_job(), ("a", "a", "a", "b", None, None)), "clock_offsets")

    assert [(row["host"], row["rank"]) for row in rows] == [
        ("a", None),
        ("b", 3),
        (None, 4),
        (None, 5),
    ]


def test_the_devices_of_one_file_have_one_clock():
    job = Job(4, 12, seed=3, names=(REDUCE,))
    ahead = {2: SOUTH_AHEAD_NS, 3: SOUTH_AHEAD_NS + 15 * US}
    profile = job.drawn(late_ns=[*ahead.items()])
    first, second = (
        of_rank(with_devices(profile, devices), rank)
        for rank, devices in enumerate([(0, 1), (2, 3)])
    )

    rows = answers([first, second], "clock_offsets")

    assert [(row["rank"], row["devices"], row["device_id"]) for row in rows] == [
        (0, 2, None),
        (1, 2, None),
    ]
    assert abs(rows[1]["offset_ns"] - SOUTH_AHEAD_NS - 7.5 * US) <= 4 * US


def with_devices(profile, devices):
    """A recording of some of the devices of a drawn one."""
    for name in ("kernels", "memcpys"):
        rows = profile.table(name).to_pylist()
        chosen = [row for row in rows if row["device_id"] in devices]
        profile = profile.with_table(name, BY_NAME[name].table(chosen))
    return profile


def test_a_note_names_the_hosts_whose_clocks_are_apart():
    notes = report(joined(on_hosts(late_job())), ["collective_waits"]).notes

    assert any("The clocks of host South are up to" in note for note in notes)


def test_the_late_rank_is_named_with_its_host():
    tables = job_report(on_hosts(late_job()), ["bottom_line", "findings"]).tables

    assert (
        "Rank 2 on north makes the others wait" in tables["bottom_line"]["bottom_line"][0].as_py()
    )
    (waiting,) = [r for r in tables["findings"].to_pylist() if r["cause"] == "collective_waiting"]
    assert "see what keeps rank 2 on north" in waiting["suggestion"]


def test_a_host_whose_ranks_are_all_slow_is_named_once():
    kernels = [(1_000 * US * n, 1_000 * US * n + 500 * US) for n in range(8)]
    resets = [(start + 500 * US, start + 900 * US) for start, _ in kernels]
    files = [
        of_rank(draw(kernels=kernels, memsets=resets[: 8 if rank in (3, 4) else 2]), rank)
        for rank in range(6)
    ]
    rows = job_report(on_hosts(files), ["findings"]).tables["findings"].to_pylist()

    (row,) = [row for row in rows if row["cause"] == "local_copies"]
    assert "most on ranks 3 and 4 on South" in row["finding"]
    assert row["where"] == "ranks 3 and 4"


@pytest.mark.parametrize("hosts", [["north"] * 6, [None] * 6, ["north", *[None] * 5]])
def test_of_one_host_nothing_is_named(hosts):
    files = on_hosts(late_job(), hosts)

    rows = answers(files, "clock_offsets")
    sentence = job_report(files, ["bottom_line"]).tables["bottom_line"]["bottom_line"][0].as_py()

    assert [row["rank"] for row in rows] == [*range(6)]
    assert {row["host"] for row in rows} == {None}
    assert "north" not in sentence


def copying(durations_ns):
    """A rank that copies to each of its devices once, in these times."""
    copies = [
        (
            0,
            ns,
            {"memcpy_kind": "HtoD", "bytes": SIZE, "device_id": device, "dst_device_id": device},
        )
        for device, ns in enumerate(durations_ns)
    ]
    return draw(memcpys=copies)


def slow_routes(*durations_ns):
    files = [of_rank(copying(of_rank_ns), rank) for rank, of_rank_ns in enumerate(durations_ns)]
    return answers(on_hosts(files, "abc"[: len(files)]), "slow_links")


def test_a_host_whose_links_are_slow_is_told_from_a_rail():
    rows = slow_routes([100] * 4, [200] * 4, [100] * 4)

    assert [(row["dst_host"], row["src_host"], row["rail"]) for row in rows] == [
        ("b", "b", str(rail)) for rail in range(4)
    ]
    assert {row["slow_of_host_share"] for row in rows} == {1.0}
    assert {row["slow_of_rail_share"] for row in rows} == {1 / 3}


def test_a_rail_that_is_slow_on_all_hosts_is_told_from_a_host():
    rows = slow_routes(*[[100, 100, 100, 300]] * 3)

    assert [(row["dst_host"], row["rail"]) for row in rows] == [("a", "3"), ("b", "3"), ("c", "3")]
    assert {row["slow_of_host_share"] for row in rows} == {0.25}
    assert {row["slow_of_rail_share"] for row in rows} == {1.0}
