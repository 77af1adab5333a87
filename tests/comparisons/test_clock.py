"""Verdicts of traces: what the time of the busiest device went to."""

import pytest
from commands import CORPUS, ROOT
from drawing import draw, stepped
from recordings import row, summary
from test_verdicts import _PEER, MS, _trace

from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile
from gpuprof.show import Page, renderer_named


def test_the_exposed_part_that_grew_is_named():
    result = comparison({"single": _trace(20 * MS), "dual": _trace(20 * MS + 10, 2 * MS)})

    assert result.verdict == (
        "Against single, dual takes 2.00 ms (10.0 %) more on its busiest device: compute is the"
        " same within 0.0 % and exposed PtoP grew by 2.00 ms (new); with one run each, noise"
        " cannot be judged."
    )
    assert result.headline == (
        "dual takes 2.00 ms (10.0 %) more than single: almost all of the difference is PtoP"
    )
    (outcome,) = result.outcomes.to_pylist()
    assert (outcome["basis"], outcome["metric"]) == ("exposed", "span_ns")
    assert (outcome["cause"], outcome["cause_ns"]) == ("PtoP", 2 * MS)


@pytest.mark.parametrize(
    ("slow", "faster", "sentence"),
    [
        # Of 29 whole steps without the two longest, 4 take 300 µs and 23 take 100.
        (
            300,
            100,
            (
                "Single steps often take longer: in the mean without the longest twentieth, b takes"
                " 29.6 µs (22.9 %) less per step."
            ),
        ),
        (300, 310, ""),
        (100, 101, ""),
    ],
)
def test_steps_that_often_take_longer_are_compared_by_their_mean_too(slow, faster, sentence):
    """A loader that starves the device in each fifth step, and one that does not."""
    sides = {
        label: stepped(*[100_000, 100_000, long_us * 1000, 100_000, 100_000] * 6, idle_ns=1000)
        for label, long_us in (("a", slow), ("b", faster))
    }
    verdict = comparison(sides, skip_steps=0).verdict

    assert verdict.startswith("Against a, b takes ")
    assert verdict.partition("other runs may differ.")[2].strip() == sentence


def _trained(copy):
    """A step of a forward and a backward pass, each of which ends with a copy."""
    ends = [(20 * MS, 20 * MS + copy), (80 * MS, 80 * MS + 9 * copy)]
    return draw(
        kernels=[(n * 60 * MS, (n * 60 + 20) * MS, {"name": f"k{n}"}) for n in range(3)],
        memcpys=[(s, e, {**_PEER, "correlation_id": n}) for n, (s, e) in enumerate(ends)],
        api_calls=[(n, n + 1, {"correlation_id": n}) for n in (0, 1)],
        nvtx_ranges=[(0, 1, {"text": "forward"}), (1, 2, {"text": "backward"})],
    )


def test_copies_of_the_backward_pass_are_told_where_ranges_name_it():
    result = comparison({"single": _trained(MS), "dual": _trained(2 * MS)})

    assert result.variants.column("backward_peer_share").to_pylist() == [0.9, 0.9]
    assert result.verdict == (
        "Against single, dual takes neither more nor less on its busiest device: compute is the"
        " same within 0.0 %, exposed PtoP grew by 10.0 ms and idle time shrank by 10.0 ms (90.0"
        " % of the copy time between devices is in the backward pass); with one run each, noise"
        " cannot be judged."
    )


def test_a_headline_of_parts_that_cancel_out_names_them_with_their_signs():
    result = comparison({"a": _trace(20 * MS, 2 * MS), "b": _trace(15 * MS, 4 * MS)})

    assert result.headline == (
        "b takes 3.00 ms (13.6 %) less than a: compute -5.00 ms, PtoP +2.00 ms"
    )


def test_repeats_within_noise_are_called_the_same():
    first = [_trace(20 * MS + n * MS) for n in range(5)]
    second = [_trace(20 * MS + n * MS, 1) for n in range(5)]

    verdict = comparison({"a": first, "b": second}).verdict

    assert verdict.startswith("Against a, b takes the same time on its busiest device within noise")


def test_the_busiest_of_several_devices_stands_for_them():
    one_device = draw(kernels=[(0, 10, {"device_id": 0})])
    two_devices = draw(kernels=[(0, 4, {"device_id": 0}), (0, 7, {"device_id": 1})])

    rows = comparison({"one": one_device, "both": two_devices}).split.to_pylist()

    exposed = [row for row in rows if row["basis"] == "exposed"]
    assert sum(row["candidate_ns"] for row in exposed) == 7


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside this repository")
def test_a_solver_over_nvlink_and_through_the_host():
    folder = CORPUS / "nsys-rep" / "openhackathons__gpubootcamp__jacobi_memcpy_"
    names = {"nvlink": f"{folder}nvlink_report.qdrep", "staged": f"{folder}sys_report.qdrep"}

    result = comparison({label: read_profile(name) for label, name in names.items()})

    verdicts = {
        r["part"]: r["difference_ns"] for r in result.split.to_pylist() if r["basis"] != "sums"
    }
    assert result.verdict == (
        'Against nvlink in "Jacobi solve" (2 devices), staged takes 87.4 µs (3.6 %) more per step:'
        " compute is the same within 0.0 %, idle time grew by 74.1 µs, exposed PtoP through the"
        " host grew by 29.3 µs (new) and exposed PtoP shrank by 16.0 µs (removed); median step"
        " of one run each: 2.50 ms against 2.41 ms; other runs may differ. In"
        ' "Jacobi Solve" (1 device), staged takes 5.06 µs (0.1 %) more per step.'
    )
    assert sum(verdicts.values()) == 87_391
    page = (ROOT / "gpuprof" / "docs" / "compare.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0]
    text = renderer_named("terminal").comparison(result, Page())
    assert all(part in text for part in shown.split("...\n"))


def test_copies_through_the_host_that_a_summary_cannot_tell_are_said_to_be_elsewhere():
    half = {"path": "staged", "src_device_id": 0, "dst_device_id": 1, "correlation_id": 1}
    trace = draw(
        kernels=[(0, 9, {"name": "conv"})],
        memcpys=[
            (9, 12, half | {"memcpy_kind": "DtoH"}),
            (12, 14, half | {"memcpy_kind": "HtoD", "device_id": 1}),
        ],
        memsets=[],
    )
    printed = summary(
        row("conv", 1, 9, 9 / 14), row("DtoH", 1, 3, 3 / 14), row("HtoD", 1, 2, 2 / 14)
    )

    result = comparison({"trace": trace, "log": printed})

    assert (
        "Copies between devices through the host are HtoD and DtoH in log, but copies between"
        " devices in trace."
    ) in result.notes
    assert result.verdict.startswith("Against trace, log takes neither more nor less GPU time;")


def _batches(size, copies=1, kind="HtoD", steps=12):
    """Steps of a kernel, before which batches of some bytes are copied."""
    kernels, moved = [], []
    for step in range(steps):
        at = step * 100 * MS
        kernels += [(at + 10 * MS, at + 50 * MS, {"name": "forward"})]
        kernels += [(at + 50 * MS, at + 90 * MS, {"name": "backward"})]
        ends = _PEER if kind == "PtoP" else {"memcpy_kind": kind, "dst_device_id": 0}
        moved += [(at + n * MS, at + (n + 1) * MS, ends | {"bytes": size}) for n in range(copies)]
    return draw(kernels=kernels, memcpys=moved)


def test_as_many_copies_of_other_sizes_are_said_to_be_perhaps_other_batches():
    verdict = comparison({"small": _batches(1_000_000), "large": _batches(4_000_000)}).verdict

    assert verdict.endswith(
        "large copies 4.00 MB from and to the host per step, and small 1.00 MB in as many"
        " copies: if their batches or problems differ in size, these times do not compare."
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"size": 1_000_000}, {"size": 1_010_000}, id="almost-as-large"),
        pytest.param({"size": 1_000_000}, {"size": 1_000_000, "copies": 2}, id="more-copies"),
        pytest.param({"size": 8, "kind": "PtoP"}, {"size": 16, "kind": "PtoP"}, id="of-peers"),
        pytest.param({"size": None}, {"size": 16}, id="unknown"),
    ],
)
def test_other_copies_say_nothing_of_batches(one, other):
    assert "batches" not in comparison({"a": _batches(**one), "b": _batches(**other)}).verdict
