"""Recordings that lack something: what is missing is said first, and no win is promised."""

import numpy as np
import pytest
from drawing import draw

from gpuprof.analyses.reports import report
from gpuprof.findings.causes import UNKNOWN_WIN
from gpuprof.show.overview import findings_lines

US = 1_000
MS = 1_000 * US
NCCL = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "stream_id": 9}
PAGEABLE = {"bytes": 1 << 20, "src_memory_kind": "pageable"}


def training(*, devices=(0, 1), steps=20, without=(), share=1.0, shift_ns=lambda _: 0):
    """Steps of 2 ms on devices: a copy of 200 us, ten kernels, an all-reduce of 200 us, pauses.

    Args:
        devices: The devices.
        steps: How often.
        without: Tables that were not recorded.
        share: Of each table so much was recorded, by chance; nine numbers are between two calls.
        shift_ns: How far the host's clock is from the devices' at an instant.
    """
    tables = {"kernels": [], "memcpys": [], "api_calls": [], "nvtx_ranges": []}
    number = 0

    def launch(table, start_us, length_us, row):
        nonlocal number
        number += 9
        start = start_us * US
        tables[table].append((start, start + length_us * US, row | {"correlation_id": number}))
        at = start - 30 * US + shift_ns(start)
        name = "cudaMemcpyAsync" if table == "memcpys" else "cudaLaunchKernel"
        of_call = {"correlation_id": number, "thread_id": row["device_id"], "name": name}
        tables["api_calls"].append((at, at + 5 * US, of_call))

    for step in range(steps):
        at = 2_000 * step
        for device in devices:
            here = {"device_id": device}
            launch("memcpys", at + 300, 200, here | PAGEABLE | {"dst_device_id": device})
            for kernel in range(at + 600, at + 1_600, 100):
                launch("kernels", kernel, 90, here | {"name": "gemm"})
            launch("kernels", at + 1_610, 200, here | NCCL)
            mark = {"text": f"step {step}", "thread_id": device}
            tables["nvtx_ranges"].append((at * US, (at + 1_990) * US, mark))
    chance = np.random.default_rng(1)
    return draw(
        **{
            name: sorted((row for row in rows if chance.random() < share), key=lambda row: row[0])
            for name, rows in tables.items()
            if name not in without
        }
    )


def told(profile):
    """The first sentence, the rows of the findings by cause, and how people read them."""
    result = report(profile, ["bottom_line", "findings"])
    line = result.rows("bottom_line")[0]["bottom_line"].partition(". ")[0]
    rows = {row["cause"]: row for row in result.rows("findings")}
    return line, rows, [" ".join([head, *parts]) for head, parts in findings_lines(result)]


def test_of_a_whole_recording_causes_and_wins_are_said():
    line, rows, _ = told(training())

    assert "pauses as the host launches late" in line
    assert "can be won" in line
    assert "idle" not in rows


def test_without_calls_it_is_said_that_they_lack_and_no_win_is_promised():
    line, rows, text = told(training(without=["api_calls"]))

    assert line.endswith("in pauses of unknown cause; what can be won is not known")
    assert next(iter(rows)) == "idle"
    assert "no calls of the host were recorded to tell why" in rows["idle"]["finding"]
    assert rows["idle"]["win"] == UNKNOWN_WIN
    assert "record these calls, too" in rows["idle"]["suggestion"]
    [idle] = [line for line in text if "no calls of the host" in line]
    assert "saves" not in idle


def test_without_ranges_it_is_said_that_none_tells_what_the_host_did():
    _, rows, _ = told(training(without=["nvtx_ranges"]))

    first = next(iter(rows.values()))
    assert first["cause"] == "host_late"
    assert "in no call or range that was recorded" in first["finding"]
    assert "nsys profile --trace=cuda,nvtx,osrt" in first["suggestion"]


@pytest.mark.parametrize("without", [[], ["nvtx_ranges"]], ids=["ranges", "no-ranges"])
def test_with_clocks_apart_it_is_said_that_they_disagree(without):
    """Those of each second step are a second ahead, of the others behind."""
    line, rows, _ = told(
        training(
            without=without,
            shift_ns=lambda ns: 1_000 * MS if ns // (2 * MS) % 2 else -1_000 * MS,
        )
    )

    assert line.endswith("in pauses of unknown cause; what can be won is not known")
    assert "the clocks of GPU and host disagree" in rows["idle"]["finding"]
    assert "host_late" not in rows


def test_with_clocks_constantly_apart_they_are_set_right():
    _, rows, _ = told(training(shift_ns=lambda _: 5_000 * MS))

    assert next(iter(rows)) == "host_late"


def test_of_one_device_of_many_it_is_said_that_other_ranks_lack():
    _, rows, _ = told(training(devices=(1,)))

    transfer = rows["collective_transfer"]
    assert "not all of their ranks were recorded" in transfer["finding"]
    assert transfer["suggestion"].startswith("record all ranks")
    assert "not all" not in told(training())[1]["collective_transfer"]["finding"]


@pytest.mark.parametrize("without", [[], ["api_calls"], ["nvtx_ranges"]], ids=str)
def test_of_a_sample_nothing_of_pauses_is_told(without):
    line, rows, _ = told(training(steps=400, share=0.05, without=without))

    assert line.endswith("but most of it was not recorded, so that pauses tell nothing")
    assert [*rows] == ["incomplete"]
    assert rows["incomplete"]["win_ns"] == 0
