"""Every output compared whole with a file; ``pytest --update-expected`` writes them anew."""

import re
from dataclasses import replace
from math import nan

import pytest
from recordings import (
    DUAL,
    EXAGGERATED,
    PUBLISHED_DUAL,
    PUBLISHED_SINGLE,
    SINGLE,
    copy,
    kernel,
    summary,
    trace,
)
from tensorflow_runs import copy as tensor_copy
from tensorflow_runs import document, written

from gpuprof.analyses.reports import report
from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile
from gpuprof.show import RENDERERS, Page, renderer_named
from gpuprof.show.json import document_text
from gpuprof.show.overview import Grid
from gpuprof.show.terminal import grids_text

SUFFIX = {"terminal": "txt", "markdown": "md", "csv": "csv", "json": "json"}
# Named, so that a new analysis does not change these files.
_SHOWN = (
    "totals",
    "breakdown",
    "transfers",
    "peer_matrix",
    "top_activities",
    "tensor_transfers",
    "activity_summary",
)
# Texts differ from recording to recording; JSON has the same keys for all.
TEXTS = [name for name in RENDERERS if name != "json"]


def _named(rows, name):
    return summary(*rows, source=f"{name}.txt")


def _two_devices():
    """Kernels on two devices, a peer copy that half hides, a staged pair."""
    staged = {"path": "staged", "correlation_id": 5, "bytes": 65_536, "process_id": 1}
    ends = {"src_device_id": 0, "dst_device_id": 1}
    return trace(
        kernels=[
            kernel("conv<float, 3>", 0, 60_000, device_id=0),
            kernel("dense", 20_000, 80_000, device_id=1),
            kernel("ncclDevKernel_AllReduce", 80_000, 90_000, device_id=1),
        ],
        memcpys=[
            copy("HtoD", 0, 5_000, device_id=0, bytes=4096, dst_device_id=0),
            copy("PtoP", 50_000, 70_000, device_id=0, bytes=1_000_000, **ends),
            copy("DtoH", 90_000, 95_000, device_id=0, **staged, **ends),
            copy("HtoD", 95_000, 99_000, device_id=1, **staged, **ends),
            copy("DtoD", 10_000, 12_000, device_id=1, bytes=512),
        ],
        memsets=[{"start_ns": 0, "end_ns": 1_000, "device_id": 1, "bytes": 64}],
    )


RECORDINGS = {
    "summary": lambda: _named(DUAL, "dual"),
    "excerpt": lambda: _named(PUBLISHED_DUAL, "dual"),
    "trace": _two_devices,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_report_is_shown(expect, recording, name):
    result = report(RECORDINGS[recording](), _SHOWN)

    expect(f"report-{recording}.{SUFFIX[name]}", renderer_named(name).report(result, Page()))


def test_a_report_is_shown_in_json(expect):
    """The first row of each table: those after it have the same keys."""
    result = report(_two_devices(), _SHOWN)
    tables = {name: table and table.slice(0, 1) for name, table in result.tables.items()}

    expect(
        "report-trace.json", renderer_named("json").report(replace(result, tables=tables), Page())
    )


def _tensors(folder, *copies):
    folder.mkdir()
    return read_profile(written(folder, document(*copies)))


def _three():
    variants = {"single": SINGLE, "dual": DUAL, "exaggerated": EXAGGERATED}
    profiles = {name: _named(rows, name) for name, rows in variants.items()}
    return comparison(profiles, epoch_seconds={"single": 20.455, "dual": 22.5})


def _excerpts():
    variants = {"single": PUBLISHED_SINGLE, "dual": PUBLISHED_DUAL}
    return comparison({name: _named(rows, name) for name, rows in variants.items()})


COMPARISONS = {"summaries": _three, "excerpts": _excerpts}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("compared", COMPARISONS)
def test_a_comparison_is_shown(expect, compared, name):
    text = renderer_named(name).comparison(COMPARISONS[compared](), Page())

    expect(f"compare-{compared}.{SUFFIX[name]}", text)


def test_a_comparison_is_shown_in_json(expect):
    """Its only run of each variant has the figures of the variant: one shows what else it has."""
    result = _excerpts()
    rows = {name: getattr(result, name).slice(0, 1) for name in ("runs", "comparability")}

    text = renderer_named("json").comparison(replace(result, **rows), Page())

    expect("compare-excerpts.json", text)


def test_recordings_of_tensors_are_compared_by_steps(expect, tmp_path):
    copies = [
        tensor_copy("item_tower/conv", 26_453_000, is_gradient=True),
        tensor_copy("item_tower/flat", 135_000),
    ]
    single = _tensors(tmp_path / "single")
    dual = _tensors(tmp_path / "dual", *copies)

    result = comparison({"single": single, "dual": dual})

    expect("compare-tensors.txt", renderer_named("terminal").comparison(result, Page()))


def test_many_variants_stand_below_each_other(expect):
    rows = {f"variant-{n:02}": _named(DUAL if n % 2 else SINGLE, f"v{n}") for n in range(6)}

    text = renderer_named("terminal").comparison(comparison(rows), Page())

    expect("compare-many.txt", text)


def test_long_labels_are_folded_not_cut():
    labels = ["dlprof_dual_gpu_bad_placement_profile", "dlprof_dual_gpu_reasonable_placement"]
    rows = {label: _named(rows, label) for label, rows in zip(labels, (SINGLE, DUAL), strict=True)}

    text = renderer_named("terminal").comparison(comparison(rows), Page())

    table = text[text.index("\n\n") :]
    assert max(map(len, text.splitlines())) <= 80
    assert all(word in table for word in ("bad_", "reasonable_"))


def test_headings_stand_on_their_columns():
    labels = ["4gpu_baseline", "4gpu_bucketcap100mb", "4gpu_nobroadcast"]
    rows = {label: _named(SINGLE, label) for label in labels}

    text = renderer_named("terminal").comparison(comparison(rows), Page())

    table = text[text.index("\n\n") + 2 :].splitlines()
    first = next(n for n, line in enumerate(table) if line.startswith("GPU activities"))
    assert table[first - 1].split() == ["baseline", "bucketcap100mb", "nobroadcast"]


def test_an_empty_table_says_so():
    text = grids_text("", [Grid("Copies there and back", ("Src", "Turns"), ())], (), Page())

    assert text.endswith("Copies there and back\nnone\n")


def test_every_block_of_a_wide_table_tells_its_rows_apart():
    header = ("Device id", *(f"figure{n:04}" for n in range(9)))
    rows = tuple((str(n), *["1.000 µs"] * 9) for n in range(2))

    text = grids_text("", [Grid("Wide", header, rows, name_columns=(), keys=(0,))], (), Page())

    starts = [line.split()[0] for line in text.splitlines() if "1.000 µs" in line]
    assert starts == ["0", "1", "0", "1"]


def test_copies_of_many_variants_stand_in_their_table(tmp_path):
    profiles = {}
    for n in range(4):
        (tmp_path / str(n)).mkdir()
        copies = [tensor_copy(f"a/x{i}", 1_000) for i in range(n)]
        profiles[f"v{n}"] = read_profile(written(tmp_path / str(n), document(*copies)))

    text = renderer_named("terminal").comparison(comparison(profiles), Page())

    row = next(line for line in text.splitlines() if line.startswith("v3"))
    assert row.split()[-3:] == ["3.000", "3.000", "KB"]
    assert "Difference" not in text


def test_no_line_ends_between_a_figure_and_its_unit():
    sentence = "xxxxxx " * 10 + "10.5 ms and " + "xxxxxx " * 9 + "(1.0 %)"

    text = grids_text(sentence, [], [sentence], Page())

    assert all(line[-1] not in "0123456789" for line in text.splitlines() if line)
    assert text.count("10.5 ms") == text.count("(1.0 %)") == 2


def test_an_overview_fits_a_screen():
    rows = [kernel(f"kernel {number}", 0, number + 1, device_id=0) for number in range(30)]
    copies = _two_devices().table("memcpys").to_pylist()[:2]
    profile = trace(kernels=rows, memcpys=copies, memsets=[])

    text = renderer_named("terminal").report(report(profile), Page())

    assert text.partition("\nNote: ")[0].count("\n") <= 48
    # What is cut says so, and the worst findings stand on top.
    assert re.search(r"Costliest activities, share of all GPU time \(\d+ of 10\)", text)
    assert text.splitlines()[2].startswith("The recording of device 0 spans")
    assert text.splitlines()[5].startswith("1. Copies take ")


def _eight_devices():
    """Device 6 waits most, in a recording with more of everything than fits a screen."""
    return trace(
        kernels=[
            kernel(f"kernel {n % 12}", 100 * n, 100 * n + (10 if number == 6 else 90),
                   device_id=number)
            for number in range(8)
            for n in range(12)
        ],
        memcpys=[
            copy("HtoD", 100 * n + 90, 100 * n + 97 - 5 * (number != 6), device_id=number,
                 bytes=8)
            for number in range(8)
            for n in range(12)
        ],
        memsets=[],
    )  # fmt: skip


def test_rows_that_a_finding_names_are_never_cut():
    text = renderer_named("terminal").report(report(_eight_devices()), Page())

    findings, _, tables = text.partition("Where each device's time went")
    assert "Device 6 waits for copies" in findings
    assert "host to device 6" in findings
    assert re.match(r" \([3-7] of 8\)$", tables.splitlines()[0])
    shown = [line.split("  ")[0] for line in tables.splitlines()]
    assert "device 6" in shown
    assert "host to device 6, direct" in shown
    assert text.count("\n") <= 50


def test_devices_of_one_cause_share_a_sentence():
    lines = renderer_named("terminal").report(report(_eight_devices()), Page()).splitlines()

    numbers = [line.split(".")[0] for line in lines if re.match(r"\d\. ", line)]
    assert numbers == ["1"]
    assert "device 0 2.0 %; device 1 2.0 %; 5 more devices" in " ".join(lines[:9])


def test_the_three_costliest_activities_are_shown_however_much_is_said_of_a_recording():
    profile = _two_devices()
    doubt = "a thing that its tool says about it, at some length, as tools do " * 2
    result = report(profile)
    notes = tuple(f"{doubt}{number}" for number in range(3))

    text = renderer_named("terminal").report(replace(result, notes=notes), Page())

    assert "Transfers by source and destination" in text
    _, _, costliest = text.partition("Costliest activities")
    assert len(costliest.partition("\n\n")[0].splitlines()) >= 2 + 3
    assert text.count("\n") <= 56


def test_a_narrow_page_breaks_names_and_no_figures():
    table = Grid("", ("Name", "Total", "More"), (("k" * 50, "9.876 ms", "n/a"),))
    name = ["k" * 12, "k" * 10 + ".."]

    text = grids_text("Said.", [table], [], Page(width=16))

    assert text.splitlines()[2:] == [
        "Name             Total",
        f"{name[0]}  9.876 ms",
        *name,
        "Name          More",
        f"{name[0]}   n/a",
        *name,
    ]


def test_wide_characters_take_two_columns_of_a_table():
    table = Grid("", ("Name", "Total"), (("日本語", "1 ns"), ("ascii", "10 ns")))

    text = grids_text("Said.", [table], [], Page())

    assert text.splitlines()[2:] == ["Name    Total", "日本語   1 ns", "ascii   10 ns"]


def test_names_are_shown_in_full_where_asked():
    name = "void " + "x" * 200 + "<float>(int)"
    result = report(trace(kernels=[kernel(name, 0, 5)]))

    def shown(page):
        return renderer_named("terminal").report(result, page)

    assert "x" * 200 not in shown(Page())
    assert "x" * 200 in shown(Page(is_wide=True))
    assert name not in shown(Page(is_wide=True))
    assert name in shown(Page(is_wide=True, has_full_names=True))


def test_words_are_not_cut_where_names_can_be():
    rows = (("synchronising_call", "cudaStream" * 9, "9.876 ms"), ("short", "", "1 ns"))
    table = Grid("", ("Cause", "Detail", "Total"), rows, (0, 1))

    text = grids_text("Said.", [table], [], Page(width=60))

    assert "synchronising_call  cudaStre" in text
    assert max(map(len, text.splitlines())) == 60


@pytest.mark.parametrize("name", ["terminal", "markdown", "csv"])
def test_a_table_is_shown_whole_by_name(name):
    rows = [kernel(f"kernel{number}", 0, number + 1) for number in range(30)]
    page = Page(tables=("activity_summary",))
    result = report(trace(kernels=rows), page.tables)

    text = renderer_named(name).report(result, page)

    assert all(f"kernel{number}" in text for number in range(30))


def test_whole_times_sizes_and_counts_are_integers_in_json():
    row = {"step_ns": 5.0, "mean_ns": 2.5, "bytes": 4.0, "calls": 3.0, "share": 1.0, "low_ns": nan}

    assert "".join(document_text({"rows": [row]}).split()) == (
        '{"rows":[{"step_ns":5,"mean_ns":2.5,"bytes":4,"calls":3,"share":1.0,"low_ns":null}]}'
    )
