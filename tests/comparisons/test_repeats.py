"""Variants of several runs: medians, intervals, and what is said of chance."""

import json
import re
from functools import cache

import pytest
from commands import DUAL, PUBLISHED, SINGLE, gpuprof
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import row, summary

from gpuprof.base.manifest import MANIFEST, Manifest, repeats
from gpuprof.comparisons import comparison, labelled
from gpuprof.show import Page, renderer_named

S = 1_000_000_000


def _run(kernels, ptop):
    times = {"conv": kernels, "PtoP": ptop}
    total = sum(times.values())
    return summary(*(row(name, 1, ns, ns / total) for name, ns in times.items()))


def _runs(kernels, *ptop):
    return [_run(kernels + number, ns) for number, ns in enumerate(ptop)]


def _figure(result, label, metric):
    rows = result.figures.to_pylist()
    return next(r for r in rows if (r["variant"], r["metric"]) == (label, metric))


def test_figures_are_medians_with_their_spread():
    result = comparison({"a": _runs(10 * S, 1, 5, 9), "b": [_run(10 * S, 7)]})

    figure = _figure(result, "a", "peer_transfer_ns")
    assert (figure["runs"], figure["median"], figure["min"], figure["max"]) == (3, 5, 1, 9)
    assert 1 <= figure["low"] <= 5 <= figure["high"] <= 9
    alone = _figure(result, "b", "peer_transfer_ns")
    assert (alone["runs"], alone["median"], alone["low"], alone["high"]) == (1, 7, None, None)


def test_the_median_run_stands_for_its_variant():
    result = comparison({"a": _runs(10 * S, 9 * S, S, 5 * S), "b": [_run(10 * S, 7)]})

    (first, _) = result.variants.to_pylist()
    assert (first["runs"], first["peer_transfer_ns"]) == (3, 5 * S)
    assert [r["is_median"] for r in result.runs.to_pylist()] == [False, False, True, True]


def test_of_an_even_number_the_faster_one_stands():
    result = comparison({"a": _runs(10 * S, S, 2 * S, 3 * S, 4 * S), "b": [_run(10 * S, 7)]})

    assert result.variants.to_pylist()[0]["peer_transfer_ns"] == 2 * S
    assert _figure(result, "a", "peer_transfer_ns")["median"] == 2.5 * S


@cache
def _six_runs_apart():
    """Runs that differ by 10 ms within a variant, and by 2 s between both."""
    single, dual = (
        _runs(20 * S, *((least + n) * S // 100 for n in range(6))) for least in (0, 200)
    )
    return comparison({"single": single, "dual": dual})


def test_a_difference_beyond_noise_carries_its_interval():
    result = _six_runs_apart()

    (outcome,) = result.outcomes.to_pylist()
    assert outcome["certainty"] == "beyond noise"
    assert 9.7 < outcome["low_percent"] <= outcome["percent"] <= outcome["high_percent"] < 10.3
    low, high = outcome["low_percent"], outcome["high_percent"]
    assert result.verdict == (
        f"Against single, dual takes 2.00 s (10.0 %, interval {low:.1f} to {high:.1f} %) more GPU"
        " time. Kernel time is the same within 0.0 %, and almost all of the difference is PtoP:"
        " 2.00 s of 2.00 s in dual."
    )


def test_each_part_of_a_difference_carries_its_interval():
    result = _six_runs_apart()
    shown = renderer_named("terminal").comparison(result, Page())

    kernels, ptop = result.split.to_pylist()
    assert kernels["low_ns"] < 0 < kernels["high_ns"]
    assert 1.96 * S < ptop["low_ns"] <= ptop["difference_ns"] <= ptop["high_ns"] < 2.04 * S
    assert re.search(r"Difference +at least +at most +Share\n", shown)


def test_of_two_runs_verdict_table_and_parts_have_one_statistic():
    result = comparison({"a": _runs(10 * S, S, 2 * S), "b": _runs(10 * S, 3 * S, 6 * S)})

    shown = renderer_named("terminal").comparison(result, Page())

    assert result.outcomes.to_pylist()[0]["difference"] == 3 * S
    assert "almost all of the difference is PtoP: 3.00 s of 3.00 s in b" in result.verdict
    assert "Where the difference lies: GPU time, summed over devices, median over" in shown
    assert re.search(r"GPU activities +11\.500 s +14\.500 s", shown)
    assert re.search(r"PtoP +1\.500 s +4\.500 s +\+3\.000 s", shown)
    assert re.search(r"Total +11\.500 s +14\.500 s +\+3\.000 s", shown)


@given(*[st.lists(st.tuples(st.integers(1, 99), st.integers(0, 99)), min_size=1, max_size=5)] * 2)
@settings(max_examples=10)
def test_parts_of_any_number_of_runs_add_up_to_the_median(before, after):
    sides = {
        label: [
            draw(kernels=[(0, kernel)], memcpys=[(kernel, kernel + copy)], memsets=[])
            for kernel, copy in side
        ]
        for label, side in (("a", before), ("b", after))
    }

    result = comparison(sides)

    rows = result.split.to_pylist()
    assert {row["basis"] for row in rows} == {"exposed", "sums"}
    for basis, metric in (("exposed", "span_ns"), ("sums", "gpu_activity_ns")):
        for side, label in (("baseline", "a"), ("candidate", "b")):
            total = sum(row[f"{side}_ns"] for row in rows if row["basis"] == basis)
            assert total == round(_figure(result, label, metric)["median"])


def test_kernels_of_two_runs_are_the_mean_of_both():
    def run(ns, calls):
        return draw(kernels=[(n * 1_000, n * 1_000 + ns, {"name": "conv"}) for n in range(calls)])

    result = comparison({"a": [run(100, 2), run(400, 3)], "b": run(500, 2)})

    (row,) = result.kernels.to_pylist()
    assert (row["baseline_calls"], row["baseline_ns"], row["baseline_mean_ns"]) == (2.5, 700, 280)
    assert _figure(result, "a", "kernel_ns")["median"] == 700
    assert [r["is_median"] for r in result.runs.to_pylist()] == [True, True, True]


def test_a_kernel_that_any_run_of_the_baseline_has_is_not_new():
    def run(*names):
        return draw(kernels=[(n, n + 1, {"name": name}) for n, name in enumerate(names)])

    runs = [run("conv"), run("conv", "conv"), run("conv", "conv", "rare")]
    rows = comparison({"a": runs, "b": run("conv", "rare")}).kernels.to_pylist()

    assert "new" not in {row["status"] for row in rows}


def test_parts_of_single_runs_have_no_interval():
    result = comparison({"single": _runs(20 * S, 0, S), "dual": [_run(20 * S, 2 * S)]})

    assert {row["low_ns"] for row in result.split.to_pylist()} == {None}
    assert "at least" not in renderer_named("terminal").comparison(result, Page())


@cache
def _within_noise():
    first = _runs(20 * S, 0, S, 2 * S, 3 * S)
    return {"a": first, "b": _runs(20 * S, S, 0, 3 * S, 2 * S + 5)}


def test_a_difference_within_noise_is_called_so_and_has_no_cause():
    result = comparison(_within_noise())

    assert result.outcomes.to_pylist()[0]["certainty"] == "within noise"
    assert result.verdict.startswith("Against a, b takes the same GPU time within noise (0.0 %, ")
    assert "PtoP" not in result.verdict


def test_the_headline_says_what_the_verdict_says_within_noise():
    noisy = _runs(20 * S, 0, 90 * S, 0, 90 * S)
    slower = _runs(20 * S, *(n * S + 40 * S for n in range(4)))

    alone = comparison(_within_noise())
    assert alone.headline.startswith("b takes the same GPU time as a within noise (0.0 %, interval")
    beside = comparison(_within_noise() | {"b": noisy, "c": slower})
    assert beside.headline.startswith("c takes 40.0 s (")


def test_a_decrease_within_noise_and_its_interval_have_their_signs():
    result = comparison({"a": _runs(20 * S, S, 0, 3 * S), "b": _runs(20 * S, 0, S, 2 * S)})

    low, high = (result.outcomes.column(f"{end}_percent")[0].as_py() for end in ("low", "high"))
    assert low < 0 < high
    assert f" within noise (0.0 %, interval {low:.1f} to +{high:.1f} %)" in result.verdict


def test_few_runs_must_all_lie_apart():
    apart = comparison({"a": _runs(20 * S, 0, 1, 2), "b": _runs(21 * S, 0, 1, 2)})
    mixed = comparison({"a": _runs(20 * S, 0, 1, 3 * S), "b": _runs(21 * S, 0, 1, 2)})

    assert apart.outcomes.to_pylist()[0]["certainty"] == "beyond noise"
    assert mixed.outcomes.to_pylist()[0]["certainty"] == "within noise"
    assert apart.notes[-1] == (
        "With 3 runs, an interval covers the median at most 75.0 % of the time. Record more runs"
        " for a higher confidence."
    )


@pytest.mark.parametrize(
    ("runs", "clause", "noted"),
    [
        ({"a": 3, "b": 1}, "with one run of b, noise cannot be judged", ["b"]),
        ({"a": 3, "b": 1, "c": 1}, "with one run of b and c, noise cannot be judged", ["b and c"]),
        ({"a": 1, "b": 3}, "with one run of the baseline, noise cannot be judged", ["a"]),
        ({"a": 1, "b": 3, "c": 1}, "with one run of c, noise cannot be judged", ["a and c"]),
        ({"a": 1, "b": 1}, "with one run each, noise cannot be judged", []),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_one_run_beside_repeats_leaves_noise_unknown(runs, clause, noted):
    variants = {
        label: _runs((20 + number) * S, *range(count))
        for number, (label, count) in enumerate(runs.items())
    }
    result = comparison(variants)

    assert {row["certainty"] for row in result.outcomes.to_pylist()} == {"noise unknown"}
    assert f"; {clause}." in result.verdict
    notes = [
        note for note in result.notes if note.endswith("variation from run to run is unknown.")
    ]
    runs = "have one run each, so their" if "and" in "".join(noted) else "has one run, so its"
    assert notes == [f"{n} {runs} variation from run to run is unknown." for n in noted]


def test_kernels_are_tested_over_the_runs_and_corrected_for_their_number():
    def run(extra):
        rows = [(0, 100 + extra, {"name": "slow"}), (200, 300 + extra % 3, {"name": "same"})]
        return draw(kernels=rows)

    base, slower = [run(n) for n in range(5)], [run(50 + n) for n in range(5)]

    rows = comparison({"a": base, "b": slower}).kernels.to_pylist()

    p_values = {row["name"]: (row["p_value"], row["adjusted_p_value"]) for row in rows}
    assert p_values["slow"] == (pytest.approx(2 / 252), pytest.approx(4 / 252))
    assert p_values["same"][0] > 0.5


def test_changes_within_noise_are_marked_in_the_table(tmp_path):
    labels = [f"--label=a={SINGLE}", f"--label=a={tmp_path / 'again.txt'}"]
    labels += [f"--label=b={DUAL}", f"--label=b={tmp_path / 'other.txt'}"]
    again = (PUBLISHED / "single.txt").read_text().replace("6.92109s", "9.92109s")
    (tmp_path / "again.txt").write_text(again)
    (tmp_path / "other.txt").write_text((PUBLISHED / "dual.txt").read_text())

    completed = gpuprof("compare", *labels)

    assert completed.returncode == 0, completed.stderr
    assert "~+" in completed.stdout
    assert re.search(r"^Runs +2 +2 +-$", completed.stdout, re.MULTILINE)


def _folder(place, *names):
    """A folder of runs, each with a manifest and an excerpt of nvprof's log."""
    for name in names:
        folder = place / name
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text((PUBLISHED / "dual.txt").read_text())
        manifest = Manifest("nvprof", "dual", ("./a",), "2026-01-01", recordings=("log.txt",))
        (folder / MANIFEST).write_text(manifest.to_json())


def test_a_folder_of_runs_is_one_variant(tmp_path):
    _folder(tmp_path / "dual", "run-1", "run-10", "run-2", "other")

    assert [run.name for run in repeats(tmp_path / "dual")] == ["run-1", "run-2", "run-10"]
    variants = labelled([tmp_path / "dual", SINGLE])
    assert {label: len(runs) for label, runs in variants.items()} == {"dual": 3, "single": 1}


def test_a_run_is_no_folder_of_runs(tmp_path):
    _folder(tmp_path, "run-1")

    assert repeats(tmp_path / "run-1") == ()
    assert repeats(tmp_path / "none") == ()


def test_repeats_are_told_in_json(tmp_path):
    _folder(tmp_path / "dual", "run-1", "run-2")

    completed = gpuprof("compare", SINGLE, tmp_path / "dual", "--format", "json")

    document = json.loads(completed.stdout)
    assert document["variants"]["dual"]["runs"] == 2
    assert [(run["variant"], run["run"]) for run in document["runs"]] == [
        ("single", 1),
        ("dual", 1),
        ("dual", 2),
    ]
    assert document["figures"]["dual"]["peer_transfer_ns"]["low"] == 10_097_800_000
