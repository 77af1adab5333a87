"""The first lines of a report: what a step goes to, and what moving data costs of it.

Of a printed summary, which has sums and no timestamps, and of TensorFlow, it says what they hold.
"""

import pytest
from drawing import draw
from drawn_steps import PEER, REDUCE, US, kernel, launched_ahead, steps
from recordings import SINGLE, row, summary
from tensorflow_runs import copy, document, operation, written

from gpuprof.analyses.reports import report
from gpuprof.findings.bottom_line import ANALYSIS, BETWEEN_DEVICES, WITH_HOST, bottom_line
from gpuprof.findings.causes import CAUSES
from gpuprof.findings.lines_of_sums import summary_line
from gpuprof.readers import read_profile

COMPUTE = row("conv", 400, 6_000_000_000, 0.6)
ALL_REDUCE = row("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 1_000_000_000, 0.1)
OF_PEERS = row("PtoP", 78_292, 2_000_000_000, 0.2)
FROM_HOST = row("HtoD", 5, 500_000_000, 0.05)
WITHIN = row("DtoD", 5, 400_000_000, 0.04)
MEMSET = row("memset", 5, 100_000_000, 0.01)


def test_each_kind_of_work_has_its_share():
    line = summary_line(summary(COMPUTE, ALL_REDUCE, OF_PEERS, FROM_HOST, WITHIN, MEMSET))

    assert line == (
        "GPU activities take 10.0 s, summed over devices: 60.0 % compute, 10.0 % collectives,"
        " 20.0 % copies between devices (2.00 s), 5.0 % copies from and to the host, 4.0 % local"
        " copies, 1.0 % memsets. How much of the copies kernels hide, only a trace tells"
    )


def test_one_device_copies_nothing_to_another():
    calls = row("cudaMemcpyAsync", 90_000, 1_000_000) | {"activity_kind": "api"}
    line = summary_line(summary(*SINGLE, calls))

    assert "92.5 % compute" in line
    assert (
        ". No copy goes between devices. Costliest kernels (of all kernel time): conv 100 %" in line
    )


def test_copies_from_and_to_the_host_may_be_halves_of_copies_between_devices():
    def line(*calls):
        api = [row("cudaMemcpyAsync", n, 10) | {"activity_kind": "api"} for n in calls]
        return summary_line(summary(*SINGLE, *api))

    copies = 29_100 + 37_357 + 12_805
    only_if = "may go between devices, through the host, which only a trace tells"

    assert f". Some {only_if}" in line()
    assert ". No copy goes between devices" in line(copies)
    assert f". 5 more copies than calls that copy: some {only_if}" in line(copies - 5)


def test_a_kernel_that_a_summary_lists_by_grid_is_named_with_the_sum_of_its_rows():
    conv = COMPUTE | {"calls": 1, "total_ns": 2_000_000_000}
    gemm = row("gemm", 1, 3_000_000_000, 0.3)
    line = summary_line(summary(gemm, conv, conv, FROM_HOST))

    assert line.endswith("Costliest kernels (of all kernel time): conv 57.1 %, gemm 42.9 %")


def test_kernels_whose_names_were_cut_are_not_added_up_as_they_may_only_begin_alike():
    cut = row("void gemm::kernel<float, gemm::Traits<…", 1, 2_000_000_000, 0.2)
    line = summary_line(summary(COMPUTE, cut, cut, FROM_HOST))

    assert "Costliest kernels (of all kernel time): conv 60.0 %, gemm::kernel 20.0 %" in line


def test_of_an_excerpt_only_what_it_lists_is_told():
    line = summary_line(summary(row("PtoP", 94_774, 13_069_600_000, 0.2453)))

    assert line.startswith(
        "GPU activities take 53.3 s, summed over devices: 24.5 % copies between devices (13.1 s);"
        " what else there is, the excerpt does not tell. How much of the copies kernels hide"
    )
    assert "compute" not in line


def test_an_excerpt_that_lists_no_kind_whole_names_its_costliest_row():
    line = summary_line(summary(row("void conv<float>(int)", 9, 2_000_000_000, 0.2)))

    assert line == (
        "GPU activities take 10.0 s, summed over devices; the costliest that is listed takes"
        " 20.0 %: conv"
    )


def test_copies_of_unknown_time_hide_nothing_of_the_others():
    migrations = row("DtoH", 166, 1) | {"name": "UVM_HtoD", "total_ns": None, "section": "memcpy"}
    line = summary_line(summary(COMPUTE | {"printed_share": 1.0}, migrations))

    assert line.startswith(
        "GPU activities take 6.00 s, summed over devices: 100 % compute; what some copies take"
        " beside that was not printed. No copy goes"
    )


def test_of_kernels_alone_the_costliest_are_told():
    kernels = [
        row(name, 3, share * 1_000_000_000, share / 10, section="kernel")
        for name, share in (("conv", 6), ("gemm", 4))
    ]

    assert summary_line(summary(*kernels)) == (
        "Kernels take 10.0 s, summed over devices. Costliest kernels (of all kernel time):"
        " conv 60.0 %, gemm 40.0 %"
    )


@pytest.mark.parametrize("rows", [[row("conv", 3, 0)], []], ids=["no time", "no rows"])
def test_nothing_is_said_of_no_time(rows):
    assert summary_line(summary(*rows)) == ""
    assert ANALYSIS.run(summary(*rows)).num_rows == 0


def test_a_summary_is_enough_for_the_first_sentence_and_not_for_findings():
    result = report(summary(*SINGLE), ["bottom_line", "findings"])

    [line] = result.tables["bottom_line"].to_pylist()
    assert line.pop("bottom_line").startswith("GPU activities take ")
    assert {*line.values()} == {None}
    assert result.tables["findings"] is None


def test_what_moving_data_costs_is_summed_over_causes_that_findings_have():
    assert CAUSES.keys() >= BETWEEN_DEVICES | WITH_HOST


def first(profile):
    return bottom_line(profile).to_pylist()[0]


def test_a_step_is_split_and_moving_data_has_its_share():
    copy = PEER | {"bytes": 8}
    row = first(
        steps(
            6,
            100,
            (0, 2, 62, kernel()),
            (1, 62, 72, copy),
            (1, 72, 99, kernel(name="end")),
            (0, 2, 30, kernel(device_id=1)),
        )
    )

    assert (row["device_id"], row["phase"], row["steps"]) == (0, "step #", 5)
    assert row["step_ns"] == 100 * US
    assert row["between_devices_ns"] == 10 * US
    shares = [value for name, value in row.items() if name.endswith("_share")]
    assert abs(sum(shares) - 1) < 1e-9
    assert row["bottom_line"].startswith("A step takes 100 µs, ")
    assert ". The step on device 0 (median 100 µs of 5 steps) is " in row["bottom_line"]
    assert "Moving data between devices costs at most 10.0 % of it" in row["bottom_line"]


@pytest.mark.parametrize(
    ("span_ns", "words"), [(2_000, "at most 0.1 % of it"), (2_001, "next to nothing")]
)
def test_copies_between_devices_of_less_than_half_a_thousandth_cost_next_to_nothing(span_ns, words):
    line = first(draw(kernels=[(1, span_ns)], memcpys=[(0, 1, PEER | {"bytes": 8})]))["bottom_line"]

    assert f"Moving data {'between devices ' * ('%' in words)}costs {words}" in line


@pytest.mark.parametrize(
    ("table", "what", "moved_ns", "said"),
    [
        pytest.param("memcpys", {}, "with_host_ns", "waits for transfers", id="host"),
        pytest.param("memcpys", PEER, "between_devices_ns", "waits for transfers", id="peer"),
        pytest.param("kernels", REDUCE, "between_devices_ns", "collectives", id="collectives"),
    ],
)
def test_moving_data_costs_no_less_than_the_share_that_is_said(table, what, moved_ns, said):
    """Of 9 steps of 100 µs, all but two move data for 2 µs and these for 20 µs."""
    tables = {"kernels": [], "memcpys": [], "nvtx_ranges": []}
    for n, moving_us in enumerate((2, 2, 20, 2, 2, 2, 20, 2, 2)):
        start, middle = 100 * US * n, 100 * US * n + (90 - moving_us) * US
        tables["kernels"].append((start, middle))
        tables[table].append((middle, middle + moving_us * US, what))
        tables["nvtx_ranges"].append((start, start + 100 * US, {"text": f"step {n}"}))
    row = first(draw(**tables))

    assert f"6.5 % {said}" in row["bottom_line"]
    assert row[moved_ns] == pytest.approx(6.5 * US, abs=1)
    assert "at most 6.5 %" in row["bottom_line"]


def test_of_pauses_without_calls_no_win_is_promised():
    line = first(draw(kernels=[(0, 500 * US), (600 * US, 1000 * US)]))["bottom_line"]

    assert "in pauses of unknown cause; what can be won is not known. " in line


def test_where_compute_is_the_answer_its_costliest_kernels_are_named():
    row = first(draw(kernels=[(0, 90, {"name": "void ns::gemm<float>(int)"}), (90, 100)]))

    assert row["bottom_line"] == (
        "The recording of device 0 spans 100 ns, 100 % of it compute; nothing was found to win."
        " Moving data costs next to nothing. Costliest"
        " kernels (of all kernel time): gemm 90.0 %, matmul 10.0 %"
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param(("a" * 80, "b" * 81), ("a" * 80, "b" * 78 + ".."), id="cut-at-the-end"),
        pytest.param(
            [f"{'gemm_' * 18}v{version}" for version in (57, 80)], ("v57", "v80"), id="stay-apart"
        ),
    ],
)
def test_names_of_up_to_80_characters_are_whole_and_longer_ones_are_cut(names, shown):
    kernels = [(50 * n, 50 * n + 50, {"name": name}) for n, name in enumerate(names)]
    line = first(draw(kernels=kernels))["bottom_line"]

    assert all(f"{name} 50.0 %" in line for name in shown)


def unmarked(*steps):
    """Steps of four kernels, one after the other, that no range marks."""
    return [
        (step * 100 * US + at * US, step * 100 * US + (at + 20) * US, {"name": name})
        for step in steps
        for at, name in ((0, "first"), (25, "second"), (50, "second"), (74, "third"))
    ]


def test_steps_that_no_range_marks_are_said_to_be_inferred():
    row = first(draw(kernels=unmarked(*range(12))))
    assert "inferred from its kernels" in row["bottom_line"]
    assert row["step_ns"] == 100 * US


def test_set_up_has_a_share_of_its_own_where_there_are_no_steps():
    kernels = [(0, 10), (1_000, 1_400), (1_500, 2_000)]
    row = first(draw(kernels=[(start * US, end * US) for start, end in kernels]))

    assert (row["set_up_share"], row["idle_share"]) == (pytest.approx(0.495), pytest.approx(0.05))
    assert "5.0 % idle, 49.5 % set-up" in row["bottom_line"]


def test_the_phase_on_most_devices_comes_first_though_another_one_is_longer():
    """A reference on one device, of 40 longer steps, then the same on two."""

    def solver(at, step_us, devices):
        return [
            (at + step_us * n + 30 * k, at + step_us * n + 30 * k + 29, device, name)
            for n in range(40)
            for device in devices
            for k, name in enumerate(("relax", "norm", "norm"))
        ]

    kernels = [
        (start * US, end * US, {"device_id": device, "name": name})
        for start, end, device, name in (*solver(0, 200, [0]), *solver(20_000, 100, [0, 1]))
    ]

    rows = bottom_line(draw(kernels=kernels)).to_pylist()
    assert rows[0]["step_ns"] == 100 * US
    assert {row["step_ns"] for row in rows} == {100 * US, 200 * US}
    assert "A step of " in rows[0]["bottom_line"]


def test_copies_before_the_steps_are_said_where_steps_move_nothing():
    copy = (0, 400 * US, {"dst_device_id": 0, "bytes": 8})

    line = first(draw(kernels=unmarked(*range(10, 22)), memcpys=[copy]))["bottom_line"]

    assert (
        "Moving data costs a step next to nothing, but copies before or after the steps take 18."
        in line
    )


@pytest.mark.parametrize(
    ("second", "end", "said"),
    [
        (100, 110, "a 95.7 % (one call of 100 ns, the other 10 ns), b 4.3 %"),
        (60, 100, "a 95.2 %, b 4.8 %"),
    ],
)
def test_one_call_that_takes_most_of_a_kernels_time_is_said(second, end, said):
    kernels = [(0, second, {"name": "a"}), (second, end, {"name": "a"}), (end, end + 5)]

    line = first(draw(kernels=[*kernels[:2], (*kernels[2], {"name": "b"})]))["bottom_line"]
    assert line.endswith(said)


def said(folder, *copies, **changes):
    (row,) = report(read_profile(written(folder, document(*copies, **changes)))).rows("bottom_line")
    return row["bottom_line"]


def test_a_step_says_its_bytes_what_they_are_for_and_where_most_go(tmp_path):
    copies = (
        copy("a", 100, src_device="CPU:0", dst_device="CPU:1"),
        copy("b", 300, is_gradient=True),
    )

    assert said(tmp_path, *copies) == (
        "A step copies 400 B between devices in 2 copies (10 steps), 75.0 % of it for gradients."
        " The largest part goes from CPU:1 to CPU:0: 75.0 % of the bytes"
    )


def test_without_sizes_it_counts_the_copies(tmp_path):
    assert said(tmp_path, copy("a", None)) == (
        "A step makes 1 copy between devices, 1 of them of unknown size (10 steps). The largest"
        " part goes from CPU:1 to CPU:0: 100 % of the copies"
    )


@pytest.mark.parametrize(
    ("copies", "changes", "sentence"),
    [
        pytest.param((), {}, "A step copies nothing between devices (10 steps)", id="nothing"),
        pytest.param(
            (copy("a", 1),),
            {"functions": []},
            "No training step was seen whole. The largest part goes from CPU:1 to CPU:0: 100 % of"
            " the copies",
            id="no-step",
        ),
        pytest.param(
            (),
            {"functions": []},
            "No training step was seen whole. Nothing is copied between devices",
            id="no-step-and-nothing",
        ),
    ],
)
def test_what_is_not_copied_or_not_seen_is_said(tmp_path, copies, changes, sentence):
    assert said(tmp_path, *copies, **changes) == sentence


def test_bytes_of_collective_operations_are_unknown(tmp_path):
    reduce = operation("reduce", operation_type="CollectiveReduceV2")

    assert said(tmp_path, operations=[reduce]) == (
        "A step moves data between devices in collective operations, whose bytes TensorFlow does"
        " not show (10 steps)"
    )


def layered(kernels_of_step, *, mark="step {}", count=6, step_us=100):
    """Steps whose kernels follow one another 4 µs apart, launched ahead."""
    events = [((4 * n, 4 * n + 3), {"name": name}) for n, name in enumerate(kernels_of_step)]
    return first(launched_ahead(*events, count=count, step_us=step_us, mark=mark))["bottom_line"]


LAYERS = ["attention", "gemm"] * 11
PART = ", in which a part of 8.00 µs repeats 11 times: a layer?)"


def test_what_repeats_in_a_marked_step_is_a_part_of_it():
    line = layered(["embed", *LAYERS, "loss"])

    assert line.startswith("A step takes 100 µs, ")
    assert PART in line


@pytest.mark.parametrize(
    ("kernels_of_step", "mark"),
    [
        pytest.param([f"kernel {n}" for n in range(24)], "step {}", id="nothing-repeats"),
        pytest.param([*"abcdefgh"] * 3, "step {}", id="thrice"),
        pytest.param(["a", "b"] * 6, "step {}", id="less-than-half-of-the-step"),
        pytest.param(["attention", "gemm"] * 12, "", id="without-marks-it-is-the-step"),
    ],
)
def test_what_is_no_large_part_of_a_step_or_repeats_too_seldom_is_not_said(kernels_of_step, mark):
    assert "repeats" not in layered(kernels_of_step, mark=mark)


@pytest.mark.parametrize("mark", ["decode", "token {}"])
def test_marks_of_any_words_that_hold_repeats_are_the_steps(mark):
    line = layered(["attention", "gemm"] * 12, mark=mark)

    assert line.startswith("A step takes 100 µs, ")
    assert "(median 100 µs of 5 steps, in which a part of 8.00 µs repeats 12 times: a l" in line


OTHER_MARKS = {
    "epochs": (["attention", "gemm"] * 12, {"mark": "epoch {}"}),
    "thrice": (["attention", "gemm", "norm", "rope", "add"] * 3, {"mark": "decode"}),
    "once": (["attention"], {"mark": "decode"}),
    "more-iterations-than-a-model-has-layers": (
        ["sweep"] * 200,
        {"mark": "solve", "count": 3, "step_us": 1_000},
    ),
}


@pytest.mark.parametrize(("kernels_of_step", "marked"), OTHER_MARKS.values(), ids=OTHER_MARKS)
def test_marks_of_other_words_that_hold_no_repeats_are_no_steps(kernels_of_step, marked):
    assert "inferred from its kernels" in layered(kernels_of_step, **marked)
