"""The first sentence on a printed summary, which has sums and no timestamps."""

import pytest
from recordings import SINGLE, row, summary

from gpuprof.analyses.reports import report
from gpuprof.findings.bottom_line import ANALYSIS, summary_line

COMPUTE = row("conv", 400, 6_000_000_000, 0.6)
ALL_REDUCE = row("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 1_000_000_000, 0.1)
PEER = row("PtoP", 78_292, 2_000_000_000, 0.2)
HTOD = row("HtoD", 5, 500_000_000, 0.05)
DTOD = row("DtoD", 5, 400_000_000, 0.04)
MEMSET = row("memset", 5, 100_000_000, 0.01)


def test_each_kind_of_work_has_its_share():
    line = summary_line(summary(COMPUTE, ALL_REDUCE, PEER, HTOD, DTOD, MEMSET))

    assert line == (
        "GPU activities take 10.00 s, summed over devices: 60.0 % compute, 10.0 % collectives,"
        " 20.0 % copies between devices (2.000 s), 5.0 % copies from and to the host, 4.0 % local"
        " copies, 1.0 % memsets. How much of the copies kernels hide, only a trace tells"
    )


def test_one_device_copies_nothing_to_another():
    line = summary_line(summary(*SINGLE))

    assert "92.5 % compute" in line
    assert (
        ". No copy goes between devices. Costliest kernels (of all kernel time): conv 100.0 %"
        in line
    )


def test_of_an_excerpt_only_what_it_lists_is_told():
    line = summary_line(summary(row("PtoP", 94_774, 13_069_600_000, 0.2453)))

    assert line.startswith(
        "GPU activities take 53.28 s, summed over devices: 24.5 % copies between devices (13.07 s);"
        " what else there is, the excerpt does not tell. How much of the copies kernels hide"
    )
    assert "compute" not in line


def test_an_excerpt_that_lists_no_kind_whole_names_its_costliest_row():
    line = summary_line(summary(row("void conv<float>(int)", 9, 2_000_000_000, 0.2)))

    assert line == (
        "GPU activities take 10.00 s, summed over devices; the costliest that is listed takes"
        " 20.0 %: conv"
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
