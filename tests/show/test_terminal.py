"""Tables too wide for a terminal: sentences stand below, names are shown once."""

import os
import pty
import subprocess
import sys

import pytest
from commands import DUAL, ROOT
from drawing import draw
from recordings import summary

from gpuprof.analyses import all_analyses
from gpuprof.analyses.avoidable_copies import PING_PONG, REPEATED_TRANSFERS
from gpuprof.analyses.pauses import GAPS
from gpuprof.analyses.placement import TENSOR_TRANSFERS
from gpuprof.analyses.ranges import RANGES
from gpuprof.analyses.reports import Report
from gpuprof.analyses.steps import STEPS
from gpuprof.analyses.totals import TOTALS
from gpuprof.analyses.transfers import TRANSFERS
from gpuprof.comparisons import comparison
from gpuprof.findings.bottom_line import BOTTOM_LINE
from gpuprof.findings.findings import FINDINGS
from gpuprof.show import Page, terminal
from gpuprof.show.overview import Grid
from gpuprof.show.terminal import grids_text, report

_TEXTS_OF_GAPS = ("host_call", "host_range", "nvtx_range", "operation")
SENTENCE = "overlap the copies with kernels, or place what works on the same data together"
LONG = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BinaryFunctor<float>>"


def shown(schema, rows, width):
    table = schema.table(rows)
    result = Report(draw().origin, {schema.name: table}, ())
    text = report(result, Page(width, tables=(schema.name,)))
    assert max(map(len, text.splitlines())) <= width
    return text


def pair(device, suggestion=SENTENCE):
    row = {"src": "host", "dst": f"device {device}", "pairs": 2, "total_ns": 10**9}
    return row | {"suggestion": suggestion}


def test_sentences_that_do_not_fit_beside_the_figures_stand_whole_below_them():
    rows = [pair(1), pair(2), pair(3, "nothing"), pair(4)]

    assert shown(PING_PONG, rows, 80).splitlines()[-8:] == [
        "#  Src   Dst       Pairs    Total",
        "1  host  device 1      2  1.000 s",
        "2  host  device 2      2  1.000 s",
        "3  host  device 3      2  1.000 s",
        "4  host  device 4      2  1.000 s",
        "1-2, 4: overlap the copies with kernels, or place what works on the same data",
        "  together",
        "3: nothing",
    ]


def test_sentences_that_fit_beside_the_figures_stand_there():
    text = shown(PING_PONG, [pair(1)], 200)

    assert text.splitlines()[-1] == f"host  device 1      2  1.000 s  {SENTENCE}"


@pytest.mark.parametrize("width", [80, 200])
def test_findings_are_sentences_and_columns_on_a_wide_page(width):
    row = {"rank": 1, "device_id": 1, "cost_ns": 10**9, "cost_share": 0.5, "win": "5 ms"}
    row |= {"finding": "it waits", "suggestion": SENTENCE, "table": "gaps", "win_share": 0.1}

    text = shown(FINDINGS, [row, row | {"finding": "it runs"}], width)
    wide = report(
        Report(draw().origin, {"findings": FINDINGS.table([row])}, ()),
        Page(width, is_wide=True, tables=("findings",)),
    )

    sentence = f"It waits. Overlap{SENTENCE[7:]} (saves 5 ms; --table gaps)."
    _, lines = text.split("What costs most\n")
    assert " ".join(lines.split()) == f"1. {sentence} 2. {sentence.replace('waits', 'runs')}"
    assert "50.00 %" in wide


def test_every_figure_is_whole_and_is_shown_once():
    row = {"src": "device 0", "dst": "device 1", "copy_bytes": 12_582_912, "steps": 48}
    row |= {"step_source": "ranges", "calls_per_step": 31.5, "bytes_per_step": 398.5e6}
    row |= {"total_ns": 387_600_000, "exposed_ns": 5_351_000, "range": "forward"}
    row |= {"src_operation": LONG, "dst_operation": LONG, "suggestion": SENTENCE}

    text = shown(REPEATED_TRANSFERS, [row], 80)

    for figure in ("12.583 MB", "398.5 MB", "387.6 ms", "5.351 ms", SENTENCE[:60]):
        assert text.count(figure) == 1
    assert text.count("device 0") == text.count("device 1") > 1
    assert text.count("native::vectoriz") == 2


def test_a_tensor_is_named_by_what_takes_it_or_else_by_what_makes_it():
    way = {"src_device": "GPU:0", "dst_device": "GPU:1", "calls": 1}
    ends = {"dst_operation": "taker"}, {"src_operation": "maker"}
    rows = [way | ends[0] | ends[1], way | ends[0], way | ends[1], way]

    result = Report(draw().origin, {"tensor_transfers": TENSOR_TRANSFERS.table(rows)}, ())
    lines = report(result, Page(80)).splitlines()

    named = [line.partition("GPU:1")[2].strip() for line in lines if "GPU:0 > GPU:1" in line]
    assert named == ["taker", "taker", "maker", ""]


def test_the_room_of_a_name_is_found_in_as_many_steps_as_the_page_is_wide(monkeypatch):
    taken, steps = vars(terminal)["_taken"], []
    monkeypatch.setattr(terminal, "_taken", lambda *arguments: steps.append(1) or taken(*arguments))

    text = shown(RANGES, [{"text": "n" * 100_000, "instances": 1, "total_ns": 5}], 80)

    assert text.splitlines()[-1].endswith("nnnn..")
    assert len(steps) < 1000


def test_a_heading_stays_over_its_column_where_the_terminal_is_narrower():
    result = Report(draw().origin, {"ping_pong": PING_PONG.table([pair(1)])}, ())

    lines = report(result, Page(6, tables=("ping_pong",))).splitlines()

    assert lines[lines.index("1  1.000 s") - 1] == "#    Total"


def test_a_column_of_empty_texts_gives_its_room_to_others():
    row = dict.fromkeys(RANGES.columns, 0) | {"text": "forward", "range_kind": "push_pop"}

    assert "Domain" not in shown(RANGES, [row | {"domain": ""}] * 2, 200)
    assert "Domain" in shown(RANGES, [row | {"domain": ""}, row | {"domain": "NCCL"}], 200)


@pytest.mark.parametrize("analysis", all_analyses(), ids=lambda analysis: analysis.name)
def test_headings_take_two_lines_at_most(analysis):
    schema = analysis.schema
    header = [column.heading(name) for name, column in schema.columns.items()]
    grid = Grid("", tuple(header), (tuple("x" for _ in header),), (0,))

    text = grids_text("Said.", [grid], [], Page(80))

    for block in text.partition("\n\n")[2].rstrip().split("x\n"):
        assert len([line for line in block.splitlines() if line.strip(" x")]) <= 2


def test_every_block_of_a_wide_table_begins_with_its_keys():
    values = {"exposed_transfer_share": 0.5, "bottom_line": "It waits. " * 9, "step_ns": 10**7}
    rows = [dict.fromkeys(BOTTOM_LINE.columns, 1) | {"phase": f"p{n}", "device_id": n} | values
            for n in (1, 2)]  # fmt: skip

    lines = shown(BOTTOM_LINE, rows, 60).splitlines()

    first = [line.split()[:3] for line in lines if line.startswith("1  ")]
    assert len(first) > 1
    assert first == [["1", "p1", "1"]] * len(first)
    assert [line for line in lines if line.startswith("1-2: It waits. It waits.")]


def test_runs_that_have_no_kernels_to_compare_are_compared_by_their_figures():
    runs = {name: summary(epochs=[{"epoch": 0, "seconds": s}]) for name, s in (("a", 1), ("b", 2))}

    text = terminal.comparison(comparison(runs), Page(80, tables=("kernels",)))

    assert "Seconds per epoch  1.000 s  2.000 s +100.0 %" in text


@pytest.mark.parametrize("source", ["detected", "ranges"])
def test_every_block_of_steps_begins_with_step_and_device(source):
    is_numbered = {"step": 7, "device_id": 3, "source": source, "status": "sample"}
    row = dict.fromkeys(STEPS.columns, 10**6) | dict.fromkeys(("text", "phase"), LONG)
    lines = shown(STEPS, [row | is_numbered], 80).splitlines()

    rows = [line for line in lines if line.startswith("   7  ")]
    assert len(rows) > 3
    assert {tuple(line.split()[:3]) for line in rows} == {("7", "3", source)}


def test_what_kernels_open_has_their_short_names_unless_full_ones_are_asked_for():
    row = dict.fromkeys(STEPS.columns, 1) | {"status": "sample"}
    rows = [
        row | dict.fromkeys(("text", "phase"), text) | {"source": source}
        for source, text in (("detected", LONG), ("ranges", "a::step(#)"))
    ]
    result = Report(draw().origin, {"steps": STEPS.table(rows)}, ())

    short, full = (
        report(result, Page(400, tables=("steps",), has_full_names=is_full))
        for is_full in (False, True)
    )

    assert LONG in full
    assert LONG not in short
    assert " vectorized_elementwise_kernel " in short
    assert " a::step(#) " in short


def test_tables_have_labels_in_place_of_keys_and_hold_their_words_together():
    groups = {"communication_kernels": "kernels", "PtoP_staged": "peer_transfers"}
    rows = [
        dict.fromkeys(TOTALS.columns, 10**6) | {"activity_group": group, "part_of": parent}
        for group, parent in groups.items()
    ]

    text = shown(TOTALS, rows, 80)

    assert "communication kernels  kernels " in text
    assert "PtoP through the host  peer transfers " in text
    assert "_" not in text


def test_every_block_says_the_path_of_its_copies():
    kind = {"memcpy_kind": "PtoP", "direction": "device to device", "bytes": 10**6}
    rows = [
        dict.fromkeys(TRANSFERS.columns, 10**6)
        | dict.fromkeys(("src_memory_kind", "dst_memory_kind"), "device")
        | kind
        | {"path": path}
        for path in ("direct", "staged")
    ]

    text = shown(TRANSFERS, rows, 80)

    heads = text.count("Direction")
    assert heads > 1
    assert text.count("through the host") == heads


def test_pauses_end_with_short_names_unless_full_ones_are_asked_for():
    rows = [
        dict.fromkeys(GAPS.columns, 1) | {"ended_by": name, **dict.fromkeys(_TEXTS_OF_GAPS)}
        for name in ("[CUDA memcpy HtoD]", "void at::native::reduce_kernel<512, 4>(int)")
    ]
    result = Report(draw().origin, {"gaps": GAPS.table(rows)}, ())

    short, full = (
        report(result, Page(200, tables=("gaps",), has_full_names=is_full))
        for is_full in (False, True)
    )

    assert "[CUDA memcpy HtoD]" in short
    assert " reduce_kernel " in short
    assert "void at::native::reduce_kernel<512, 4>(int)" in full


def test_short_texts_are_not_broken():
    rows = [
        dict.fromkeys(GAPS.columns, 10**9) | {"ended_by": "gemm", "host_call": call, **texts}
        for call in ("cudaMemcpyAsync", "cudaMalloc [v2]")
        for texts in [dict.fromkeys(("host_range", "nvtx_range", "operation"), "aten::op_*")]
    ]

    text = shown(GAPS, rows, 80)

    assert "cudaMemcpyAsync" in text
    assert "cudaMalloc [v2]" in text


TEMPLATE = (
    "void at::native::elementwise_kernel<4, at::{}Functor<float>, at::detail::Array<char*>>(int)"
)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        pytest.param("Kernels", ["Kernels"], id="fits"),
        pytest.param("  PtoP through the host", ["  PtoP through", "  the host"], id="indent"),
        pytest.param("    communication", ["    communi-", "    cation"], id="hyphen"),
        pytest.param("layer_0/MatMul/grad/MatMul", ["layer_0/MatMul/", "grad/MatMul"], id="slash"),
        pytest.param("at::native::kernel<float>", ["at::native::", "kernel<float>"], id="colons"),
        pytest.param("x" * 99, ["x" * 16, "x" * 16, "x" * 14 + ".."], id="endless"),
        pytest.param(
            "日本語" * 9, ["日本語日本語日本", "語日本語日本語日", "本語日本語日.."], id="wide"
        ),
        pytest.param("", [""], id="empty"),
    ],
)
def test_a_name_takes_a_few_lines_before_its_end_is_cut(name, lines):
    rows = ((name, "1.000 ms", "2.000 ms"), ("twelve and four!", "1 ns", "n/a"))

    text = grids_text("Said.", [Grid("", ("", "Total", "Mean"), rows)], [], Page(36))

    shown = text.splitlines()[3:]
    assert [line.rpartition("  1.0")[0].rstrip() if "1.0" in line else line for line in shown] == [
        *lines,
        "twelve and four!      1 ns       n/a",
    ]
    assert shown[0].split()[-4:] == ["1.000", "ms", "2.000", "ms"]


def test_names_that_differ_late_look_different_when_they_are_cut():
    rows = tuple((TEMPLATE.format(word), "1 ns") for word in ("Add", "Mul"))

    lines = grids_text("Said.", [Grid("", ("", "Total"), rows)], [], Page(26)).splitlines()

    assert [line for line in lines if "Functor" in line] == [
        "AddFunctor<float>..",
        "MulFunctor<float>..",
    ]
    assert len(lines) == 3 + 2 * 3


def _in_a_terminal(**environment):
    """What a report writes to a terminal of 80 columns."""
    here, there = pty.openpty()
    usual = {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "gpuprof", "report", DUAL],
        env=usual | environment,
        stdout=there,
        stderr=there,
        timeout=60,
        check=True,
    )
    assert done.returncode == 0
    os.close(there)
    text = b""
    while chunk := _read(here):
        text += chunk
    os.close(here)
    return text.decode()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("environment", "has_colours"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
    ids=["colours", "dumb", "no-color"],
)
def test_colours_are_for_terminals_that_show_them(environment, has_colours):
    # Lines of progress are cleared in any terminal.
    assert ("\x1b[1m" in _in_a_terminal(**environment)) == has_colours
