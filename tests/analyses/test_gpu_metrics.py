"""Samples of GPU metrics as shares of peaks, over parts of the time and over time."""

import pytest
from drawing import draw, stepped

from gpuprof.analyses.samples import gpu_metric_means, gpu_metrics_over_time
from gpuprof.base.errors import EmptyRecordingError
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

SM, RX = "SMs Active [Throughput %]", "PCIe RX Throughput [Throughput %]"


def samples(metric, *values, every_ns=100, first_ns=0, device=0):
    """Samples one after the other."""
    return [
        {
            "start_ns": first_ns + every_ns * number,
            "device_id": device,
            "metric": metric,
            "value": value,
        }
        for number, value in enumerate(values)
    ]


def copied(**tables):
    """A kernel, then a copy while no kernel runs, then a kernel."""
    return draw(kernels=[(0, 400), (800, 1_000)], memcpys=[(400, 800)], **tables)


def sampled():
    used, received = [90] * 4 + [0] * 4 + [90] * 2, [5] * 4 + [95] * 4 + [5] * 2
    return copied(gpu_metrics=samples(SM, *used) + samples(RX, *received))


def means(profile, *names):
    return [tuple(row[name] for name in names) for row in gpu_metric_means(profile).to_pylist()]


def test_a_mean_is_of_the_whole_time_of_kernels_and_of_exposed_transfers():
    shown = means(
        sampled(), "metric", "mean_share", "in_kernels_share", "in_exposed_transfers_share"
    )

    assert shown == [
        ("PCIe RX Throughput", pytest.approx(0.41), 0.05, 0.95),
        ("SMs Active", pytest.approx(0.54), 0.9, 0.0),
    ]


@pytest.mark.parametrize("value", [-1, 101, 1 << 40])
def test_what_no_share_can_be_is_left_out_and_counted(value):
    profile = copied(gpu_metrics=samples(SM, 50, value, 50, 50, every_ns=250))

    assert means(profile, "samples", "left_out", "mean_share") == [(3, 1, 0.5)]


@pytest.mark.parametrize(
    ("first_ns", "share"),
    [
        # The fifth begins before the copy, which runs from 400 on: 90 or 89 of 100 ns are in it.
        pytest.param(-10, 90 / 390, id="nine-tenths"),
        pytest.param(-11, 0, id="less"),
    ],
)
def test_a_sample_counts_to_a_part_that_nine_tenths_of_it_lie_in(first_ns, share):
    rows = samples(SM, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, first_ns=first_ns)

    shown = means(copied(gpu_metrics=rows), "in_exposed_transfers_share")
    assert shown == [(pytest.approx(share),)]


def test_a_part_without_such_a_sample_has_no_mean():
    profile = copied(gpu_metrics=samples(SM, 10, 20, 30, 40, every_ns=300))

    assert means(profile, "in_kernels_share", "in_exposed_transfers_share") == [(0.1, None)]


def test_where_sampling_pauses_a_sample_holds_for_twice_the_usual_time():
    rows = samples(SM, 100, 100, 100, 100, 100) + samples(SM, 0, 0, first_ns=800)

    # 600 ns at 100 %, 200 at 0 %, 200 without a sample.
    assert means(copied(gpu_metrics=rows), "mean_share") == [(0.75,)]


def test_steps_have_a_mean_of_their_own():
    rows = samples(SM, 80, 80, 80, 80, 0, 0, every_ns=50)
    profile = stepped(100, 100, idle_ns=0, gpu_metrics=rows)

    assert means(profile, "in_steps_share") == [(0.8,)]


def test_a_part_of_a_recording_has_the_mean_of_that_part():
    part = sampled().restricted(Selection(windows=((400, 800),)))

    assert means(part, "metric", "mean_share") == [("PCIe RX Throughput", 0.95), ("SMs Active", 0)]


def test_a_part_without_activities_is_empty_whatever_was_sampled_in_it():
    profile = copied(gpu_metrics=samples(SM, *[0] * 20))

    with pytest.raises(EmptyRecordingError):
        part_of(profile, RecordingPart(from_ns=1_500, to_ns=1_600))


def test_a_file_keeps_the_samples_of_a_part(tmp_path):
    part = part_of(sampled(), RecordingPart(from_ns=400, to_ns=800), is_kept_whole=True)
    write(part, tmp_path / "part.gpuprof")

    kept = read_profile(tmp_path / "part.gpuprof")
    assert kept.table("gpu_metrics").num_rows == 8
    assert means(kept, "mean_share") == [(0.95,), (0.0,)]


def test_metrics_without_a_peak_and_gpus_without_work_are_not_shown():
    clocks = samples("GPC Clock Frequency [MHz]", 1_410)
    profile = copied(gpu_metrics=clocks + samples(SM, 1, device=1) + samples(SM, 1, device=None))

    assert means(profile, "metric") == []


def test_slices_have_the_mean_of_the_samples_in_them_or_none():
    profile = draw(
        kernels=[(0, 1_200)], gpu_metrics=samples(SM, 100, 50, every_ns=15, first_ns=600)
    )
    rows = gpu_metrics_over_time(profile).to_pylist()

    shares = {row["start_ns"]: row["share"] for row in rows}
    assert len(rows) == 120
    assert {start for start, share in shares.items() if share is not None} == {600, 610, 620}
    assert [shares[start] for start in (600, 610, 620)] == [1.0, 0.75, 0.5]
