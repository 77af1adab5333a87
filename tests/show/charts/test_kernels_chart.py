import pytest
from drawing import draw
from pictures import figure
from recordings import DUAL, summary

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.show.charts import kernels
from gpuprof.show.charts.catalogue import of_recording, picture_of

NCCL = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}


def _rows(profile):
    shown = picture_of(kernels.CHART, of_recording(profile, kernels.CHART))
    return [
        (row["name"], row["kernels"], row["calls"], row["total_ns"], row["share"])
        for row in shown.rows.to_pylist()
    ]


def test_the_costliest_kernel_comes_first_with_its_share_and_calls():
    profile = draw(kernels=[(0, 10, {"name": "a"}), (20, 80, {"name": "void ns::b<int>(int)"})] * 2)

    assert _rows(profile) == [
        ("b", 1, 2, 120, pytest.approx(120 / 140)),
        ("a", 1, 2, 20, pytest.approx(20 / 140)),
    ]
    axes = figure(kernels.CHART, profile).axes[0]
    assert [text.get_text() for text in axes.texts] == [
        "120 ns, 85.7 %, 2 calls",
        "20 ns, 14.3 %, 2 calls",
    ]


def test_kernels_below_one_percent_share_a_bar():
    many = [(n, n + 1_000 if n < 4 else n + 1, {"name": f"k{n}"}) for n in range(60)]

    rows = _rows(draw(kernels=many))

    assert [row[0] for row in rows] == ["k0", "k1", "k2", "k3", "everything else"]
    assert rows[-1][1:4] == (56, 56, 56)
    assert sum(row[4] for row in rows) == pytest.approx(1)


def test_three_kernels_have_a_bar_however_little_they_take():
    many = [(n, n + (100_000 if n == 0 else 1), {"name": f"k{n}"}) for n in range(5)]

    assert [row[0] for row in _rows(draw(kernels=many))] == ["k0", "k1", "k2", "everything else"]


def test_communication_has_its_own_colour():
    shown = figure(kernels.CHART, draw(kernels=[(0, 10), (20, 25, NCCL)]))

    labels = [bars.get_label() for bars in shown.axes[0].containers]
    assert labels == ["compute kernels", "communication kernels"]


@pytest.mark.parametrize(
    ("times", "finding"),
    [
        ([90, 10], "k0 takes 90.0 % of the kernel time"),
        ([50, 40, 10], "k0 takes 50.0 % of the kernel time"),
        ([40, 30, 30], "k0 takes 40.0 % of the kernel time"),
    ],
)
def test_the_title_names_the_costliest_and_the_axis_how_few_take_most(times, finding):
    drawn = [(0, ns, {"name": f"k{n}"}) for n, ns in enumerate(times)]

    shown = figure(kernels.CHART, draw(kernels=drawn))

    assert shown.get_suptitle() == finding
    few = "2 of 3 kernels take 90.0 %" if times == [50, 40, 10] else ""
    assert shown.axes[0].get_xlabel().partition("\n")[2] == few


def test_a_summary_has_kernels_too():
    assert _rows(summary(*DUAL))[0][0] == "conv"


def test_a_recording_without_kernels_has_no_chart():
    with pytest.raises(EmptyRecordingError, match="kernels cannot be drawn"):
        figure(kernels.CHART, draw(memcpys=[(0, 10)]))


LONG = "sm90_xmma_gemm_s8s8_s8f32_f32_tn_n_tilesize64x32x128_execute_segment_k_off_kernel_v57"


def _names_of_bars(*names):
    shown = figure(kernels.CHART, draw(kernels=[(0, 10, {"name": name}) for name in names]))
    return [text.get_text() for text in shown.axes[0].get_yticklabels()]


def test_long_names_have_two_lines_without_their_middle():
    (name,) = _names_of_bars(LONG)

    assert name.count("\n") == 1
    assert name.startswith("sm90_xmma_gemm_s8s8_")
    assert ".." in name
    assert name.endswith("kernel_v57")


def test_names_that_need_more_lines_stay_apart():
    first, second = _names_of_bars("k" * 200 + "a", "k" * 200 + "b")

    assert first.startswith("k" * 20)
    assert first != second
    assert [label.count("\n") for label in (first, second)] == [1, 1]


def test_all_others_are_told_and_not_drawn_longer_than_the_kernels():
    many = [(10 * n, 10 * n + 1, {"name": f"k{n}"}) for n in range(500)]

    axes = figure(kernels.CHART, draw(kernels=many)).axes[0]

    assert [label.get_text() for label in axes.get_yticklabels()] == ["k0", "k1", "k10"]
    assert "not drawn: 497 other kernels, 497 ns, 99.4 %, 497 calls" in axes.get_xlabel()


def test_rows_are_as_high_as_the_names_need():
    short, long = (
        figure(kernels.CHART, draw(kernels=[(0, 10, {"name": name})])).get_figheight()
        for name in ("k", LONG)
    )

    assert long > short
