from recordings import DUAL, PUBLISHED_EXAGGERATED, row, summary, trace

from gpuprof.analyses.top_activities import top_activities


def test_nothing_ran_and_nothing_is_costly():
    assert top_activities(trace(kernels=[])).num_rows == 0


def test_the_costliest_are_first():
    found = top_activities(summary(*DUAL)).to_pylist()

    assert [(r["rank"], r["name"]) for r in found][:3] == [(1, "conv"), (2, "PtoP"), (3, "DtoD")]


def test_at_most_ten_are_named():
    rows = [row(f"kernel{number}", 1, 100 + number) for number in range(20)]

    found = top_activities(summary(*rows)).to_pylist()

    assert [r["total_ns"] for r in found] == list(range(119, 109, -1))


def test_the_costliest_of_each_kind_is_among_them():
    kernels = [row(f"kernel{number}", 1, 100 + number) for number in range(20)]
    others = [row("HtoD", 1, 9), row("DtoH", 1, 8), row("memset", 1, 7)]

    found = top_activities(summary(*kernels, *others)).to_pylist()

    assert [r["total_ns"] for r in found] == [*range(119, 111, -1), 9, 7]
    assert [r["rank"] for r in found] == [*range(1, 11)]


def test_api_calls_are_no_gpu_activities():
    profile = summary(row("a", 1, 1), row("b", 1, 9, activity_kind="api"))

    assert [r["name"] for r in top_activities(profile).to_pylist()] == ["a"]


def test_an_excerpt_s_shares_are_of_the_implied_total():
    (found,) = top_activities(summary(*PUBLISHED_EXAGGERATED)).to_pylist()

    assert round(found["share"], 4) == 0.2453


def test_a_kernel_of_two_processes_is_one_row():
    first = row("a", 2, 10, run_id=0, min_ns=1, max_ns=9)
    second = row("a", 3, 20, run_id=1, min_ns=2, max_ns=12)

    (found,) = top_activities(summary(first, second)).to_pylist()

    assert (found["calls"], found["total_ns"], found["mean_ns"]) == (5, 30, 6.0)
    assert (found["min_ns"], found["max_ns"]) == (1, 12)


def test_an_activity_of_unknown_time_has_no_share():
    unprinted = row("UVM_DtoD", 3, 0, activity_kind="memcpy") | {"total_ns": None}

    found = top_activities(summary(row("a", 1, 90, 1.0), unprinted)).to_pylist()

    assert [(r["name"], r["total_ns"], r["share"]) for r in found] == [
        ("a", 90, None),
        ("UVM_DtoD", None, None),
    ]
