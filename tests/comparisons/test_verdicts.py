"""The verdict of a comparison, for the most part of sums over devices."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from drawing import draw
from recordings import DUAL, PUBLISHED_DUAL, PUBLISHED_SINGLE, SINGLE, row, summary

import gpuprof
from gpuprof.comparisons import comparison

S = 1_000_000_000
MS = 1_000_000
_PEER = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1}
_UNKNOWN = "with one run each, noise cannot be judged"


def _verdict(epoch_seconds=None, **profiles):
    return comparison(profiles, epoch_seconds=epoch_seconds).verdict


def _summary(**times):
    """A whole summary with these times: kernels, then copies by kind."""
    rows = {"kernels": "conv", "PtoP": "PtoP", "HtoD": "HtoD", "DtoH": "DtoH", "DtoD": "DtoD"}
    total = sum(times.values()) or 1
    return summary(*(row(rows[name], 1, ns, ns / total) for name, ns in times.items()))


def _trace(kernel, copy=0, name="conv"):
    """A kernel, then a copy to another device that no kernel hides."""
    copies = [(kernel, kernel + copy, _PEER)] if copy else []
    profile = draw(kernels=[(0, kernel, {"name": name})], memcpys=copies)
    return replace(profile, origin=replace(profile.origin, source=Path(f"{name}-{copy}.sqlite")))


def _sides(**times):
    return {label: _summary(**of_side) for label, of_side in times.items()}


# Where it lies, as it is said of the first of two sides with some times, and of the second.
NOTHING, KERNELS_AND_HTOD = {"kernels": 0}, {"kernels": 10 * S, "HtoD": S}


VERDICTS = {
    "a-faster-candidate-takes-less": (
        {"dual": summary(*DUAL), "single": summary(*SINGLE)},
        (
            f"Against dual, single takes 10.8 s (21.6 %) less GPU time; {_UNKNOWN}. Kernel time is"
            " the same within 2.0 %, and almost all of the difference is PtoP: 10.1 s of 10.8 s"
            " in single."
        ),
    ),
    "slower-kernels": (
        _sides(a={"kernels": 10 * S, "HtoD": S}, b={"kernels": 15 * S, "HtoD": 2 * S}),
        (
            f"Against a, b takes 6.00 s (54.5 %) more GPU time; {_UNKNOWN}. Kernel time grows by"
            " 50.0 %, and most of the difference is kernels: 5.00 s of 6.00 s (transfers: 1.00"
            " s) in b."
        ),
    ),
    "different-causes-are-told-each": (
        _sides(
            a={"kernels": 10 * S, "HtoD": S},
            b={"kernels": 10 * S, "HtoD": 3 * S},
            c={"kernels": 10 * S, "HtoD": S, "PtoP": 4 * S},
        ),
        (
            "... Kernel time is the same within 0.0 %; almost all of the difference is HtoD, 2.00"
            " s of 2.00 s in b; almost all of the difference is PtoP, 4.00 s of 4.00 s in c."
        ),
    ),
    "the-largest-of-the-other-sign-however-small": (
        _sides(a={"kernels": 100 * MS, "HtoD": 5 * MS}, b={"kernels": 140 * MS, "HtoD": 2 * MS}),
        "... cancel out in b: kernels +40.0 ms, HtoD -3.00 ms.",
    ),
    "parts-that-leave-no-difference": (
        _sides(a={"kernels": 100 * MS, "HtoD": 30 * MS}, b={"kernels": 100 * MS, "DtoH": 30 * MS}),
        (
            f"Against a, b takes neither more nor less GPU time; {_UNKNOWN}. Kernel time is the"
            " same within 0.0 %, and parts of the difference cancel out in b: HtoD -30.0 ms, DtoH"
            " +30.0 ms."
        ),
    ),
    "transfers-with-it": (
        _sides(a={"kernels": 100 * MS, "HtoD": 50 * MS}, b={"kernels": 200 * MS, "HtoD": 60 * MS}),
        "... difference is kernels: 100 ms of 110 ms (transfers: 10.0 ms) in b.",
    ),
    "transfers-against-it": (
        _sides(a={"kernels": 100 * MS, "HtoD": 50 * MS}, b={"kernels": 200 * MS, "HtoD": 46 * MS}),
        "... almost all of the difference is kernels: 100 ms in b.",
    ),
    "new": (
        _sides(a=NOTHING, b=KERNELS_AND_HTOD),
        (
            f"Against a, b takes 11.0 s (new) more GPU time; {_UNKNOWN}. Kernel time rises from 0,"
            " and almost all of the difference is kernels: 10.0 s of 11.0 s (transfers: 1.00 s)"
            " in b."
        ),
    ),
    "gone": (
        _sides(a=KERNELS_AND_HTOD, b=NOTHING),
        (
            f"Against a, b takes 11.0 s (removed) less GPU time; {_UNKNOWN}. Kernel time drops to"
            " 0, and almost all of the difference is kernels: 10.0 s of 11.0 s (transfers: 1.00"
            " s) in b."
        ),
    ),
    "not-quite-gone-is-not-rounded-to-all-of-it": (
        _sides(a={"kernels": 100 * S, "HtoD": S}, b={"kernels": MS}),
        "... takes 101 s (over 99.9 %) less GPU time... shrinks by over 99.9 %...",
    ),
    "kernels-that-are-the-cause-are-not-the-same": (
        _sides(a={"kernels": 100 * S, "HtoD": S}, b={"kernels": 103 * S, "HtoD": S}),
        "... Kernel time grows by 3.0 %, and almost all of the difference is kernels...",
    ),
    "nor-those-that-others-cancel": (
        _sides(a={"kernels": 100 * S, "HtoD": 2 * S}, b={"kernels": 103 * S, "HtoD": 1_500 * MS}),
        "... Kernel time grows by 3.0 %, and parts of the difference cancel out in b...",
    ),
    "one-takes-more-and-one-less": (
        _sides(
            a={"kernels": S, "HtoD": S},
            b={"kernels": 30 * S, "HtoD": S},
            c={"kernels": 0, "HtoD": S},
        ),
        (
            "... Kernel time is 30.0 times the baseline's in b and drops to 0 in c, and almost all"
            " of the difference is kernels: +29.0 s of +29.0 s in b and -1.00 s of -1.00 s in"
            " c."
        ),
    ),
    "next-to-no-difference-has-no-cause": (
        _sides(a={"kernels": 1000 * S, "HtoD": S}, b={"kernels": 1001 * S, "HtoD": S}),
        "... and no difference is large enough to name a cause.",
    ),
    "copies-that-no-excerpt-lists": (
        {
            "single": summary(*PUBLISHED_SINGLE),
            "more": summary(row("other", 3, 7 * S, 0.5)),
        },
        "... PtoP is not listed for single and more.",
    ),
    "one-recording-under-two-names": (
        {"a": summary(*DUAL, source="a.txt"), "b": summary(*DUAL, source="b.txt")},
        "b is the same recording as a: nothing differs.",
    ),
    "equal-figures-of-other-kernels": (
        {"a": summary(*DUAL), "b": summary(*DUAL[1:], DUAL[0] | {"name": "other"})},
        "Against a, b takes neither more nor less GPU time; ...",
    ),
    "compute-that-shrank": (
        {"a": _trace(20 * MS, 2 * MS), "b": _trace(10 * MS, 2 * MS)},
        (
            "Against a, b takes 10.0 ms (45.5 %) less on its busiest device: compute shrank by"
            f" 10.0 ms (50.0 %); {_UNKNOWN}."
        ),
    ),
    "the-largest-exposed-part-first": (
        {"a": _trace(20 * MS, 2 * MS), "b": _trace(24 * MS, 12 * MS)},
        (
            "Against a, b takes 14.0 ms (63.6 %) more on its busiest device: exposed PtoP grew by"
            f" 10.0 ms and compute grew by 4.00 ms (20.0 %); {_UNKNOWN}."
        ),
    ),
    "parts-that-hide-each-other": (
        {"a": _trace(20 * MS, 2 * MS), "b": _trace(18 * MS, 4 * MS)},
        (
            "Against a, b takes neither more nor less on its busiest device: compute shrank by"
            f" 2.00 ms (10.0 %) and exposed PtoP grew by 2.00 ms; {_UNKNOWN}."
        ),
    ),
    "nothing-worth-naming": (
        {"a": _trace(20 * MS, 2 * MS), "b": _trace(20 * MS + 1000, 2 * MS)},
        f"Against a, b takes 1.00 µs (0.0 %) more on its busiest device; {_UNKNOWN}.",
    ),
}


@pytest.mark.parametrize(("sides", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_says_how_much_the_sides_differ_and_what_makes_it(sides, verdict):
    pattern = re.escape(verdict).replace(r"\.\.\.", ".*")

    assert re.fullmatch(pattern, _verdict(**sides))


def test_parts_that_cancel_out_are_told_with_their_signs():
    """33.46 ms of copies were once said to be practically the whole of 9.77 ms."""
    result = comparison(
        {
            "a": _summary(kernels=100 * MS, HtoD=60 * MS, DtoH=MS, PtoP=MS),
            "b": _summary(kernels=101 * MS, HtoD=28 * MS, DtoH=34 * MS, PtoP=9 * MS),
        }
    )

    assert result.verdict == (
        "Against a, b takes 10.0 ms (6.2 %) more GPU time; with one run each, noise cannot be"
        " judged. Kernel time is the same within 1.0 %, and parts of the difference cancel out in"
        " b: DtoH +33.0 ms, HtoD -32.0 ms, PtoP +8.00 ms, other parts +1.00 ms."
    )
    assert result.headline == (
        "b takes 10.0 ms (6.2 %) more GPU time than a: DtoH +33.0 ms, HtoD -32.0 ms,"
        " PtoP +8.00 ms, other parts +1.00 ms"
    )
    assert result.split.column("share").to_pylist() == [None] * 4
    assert result.outcomes.to_pylist()[0]["cause"] is None


def test_equal_operations_in_unequal_epochs_are_two_recordings():
    runs = {
        label: summary(*DUAL, source="run.txt", epochs=[{"epoch": 0, "seconds": seconds}])
        for label, seconds in (("a", 20.0), ("b", 25.0))
    }

    assert _verdict(**runs).startswith(
        "Against a, b takes 5.00 s (25.0 %) more per epoch and neither more nor less GPU time"
    )


def test_recordings_without_a_common_figure_are_not_ranked():
    copies_only = summary(row("PtoP", 1, 5, 1.0, section="memory"))

    assert _verdict(a=copies_only, b=_kernels(conv=5 * S)) == (
        "b cannot be compared with a: both sides need GPU time, kernel time, epoch times or"
        " copies per step."
    )


def test_copies_that_were_counted_and_not_timed_are_said_where_nothing_else_compares():
    folder = Path(__file__).parents[2] / "sample_logs" / "tensorflow" / "2.21.0"

    result = gpuprof.compare(folder / "towers-2.gpuprof", folder / "towers-mirrored-2.gpuprof")

    assert result.verdict.endswith(
        "copies per step. Copies between devices were counted, not timed: towers-2 480 and"
        " towers-mirrored-2 191."
    )


def test_what_cannot_be_told_comes_last():
    sentence = _verdict(
        base=_summary(kernels=4 * S), nothing=summary(), slower=_summary(kernels=8 * S, PtoP=S)
    )

    assert sentence.startswith("Against base, slower takes")
    assert sentence.index("slower takes") < sentence.index("nothing cannot be compared with base")


def test_epochs_alone_tell_which_is_slower():
    sides = {"a": summary(row("PtoP", 1, 5, 1.0, section="memory")), "b": _kernels(conv=5 * S)}

    result = comparison(sides, epoch_seconds={"a": 20.0, "b": 22.0})

    assert result.verdict == (
        "Against a, b takes 2.00 s (10.0 %) more per epoch; with one run each, noise cannot be"
        " judged. The cause is unknown: the sides have no other figure in common."
    )
    assert result.headline == "b takes 2.00 s (10.0 %) more per epoch than a"


def test_epochs_of_excerpts_are_told_with_what_their_shares_imply():
    excerpts = {"single": summary(*PUBLISHED_SINGLE), "dual": summary(*PUBLISHED_DUAL)}

    assert _verdict({"single": 20.455, "dual": 22.5}, **excerpts).startswith(
        "By the totals that the printed shares imply, dual takes 2.05 s"
        " (10.0 %) more per epoch and 10.8 s (27.4 %) more GPU time (50.3 s)"
    )


def _kernels(**times):
    """What `nsys stats` prints of kernels alone."""
    total = sum(times.values())
    return summary(*(row(name, 1, ns, ns / total, section="kernel") for name, ns in times.items()))


def test_reports_of_kernels_alone_are_compared_by_them():
    base = _kernels(conv=10 * S, old=S, ncclDevKernel_AllReduce_Sum=2 * S)
    candidate = _kernels(conv=10 * S, new=2 * S, ncclDevKernel_AllReduce_Sum=5 * S)

    result = comparison({"a": base, "b": candidate})

    assert result.verdict == (
        "Against a, b takes 4.00 s (30.8 %) more kernel time; with one run each, noise cannot be"
        " judged. Most of the difference is communication, 3.00 s of 4.00 s in b. Copy times"
        " are not known on both sides."
    )
    assert result.headline == (
        "b takes 4.00 s (30.8 %) more kernel time than a: most of the difference is communication"
    )
    assert {row["part"]: row["difference_ns"] for row in result.split.to_pylist()} == {
        "kernels_common": 0,
        "kernels_new": 2 * S,
        "kernels_gone": -S,
        "communication": 3 * S,
    }
    assert {row["basis"] for row in result.split.to_pylist()} == {"kernels"}


def test_a_report_of_kernels_is_compared_with_a_whole_one_by_them():
    result = comparison({"a": _summary(kernels=10 * S, PtoP=S), "b": _kernels(conv=11 * S)})

    assert result.verdict == (
        "Against a, b takes 1.00 s (10.0 %) more kernel time; with one run each, noise cannot be"
        " judged. Copy times are not known on both sides."
    )


def test_a_sentence_names_three_of_many():
    many = {f"v{n}": _summary(kernels=10 * S, PtoP=n * S) for n in range(1, 8)}

    verdict = _verdict(base=_summary(kernels=10 * S, HtoD=S), **many)

    assert "v5 takes" in verdict
    assert "v4 takes" not in verdict
    assert "; the table lists 4 more" in verdict


def test_one_other_variant_is_one():
    times = {name: _summary(kernels=n * S) for n, name in enumerate("abcde", start=1)}

    assert "; the table lists 1 more" in _verdict(**times)


def test_without_a_difference_the_headline_names_the_sides():
    assert comparison({"a": summary(*SINGLE), "b": summary(*SINGLE)}).headline == "a and b"


def test_kernels_that_are_missing_from_a_side_are_said():
    def drawn(apart):
        rows = [(at * 20, at * 20 + 5, {"correlation_id": 1 + at * apart}) for at in range(100)]
        return draw(kernels=rows, api_calls=rows)

    result = comparison({"full": drawn(1), "sampled": drawn(36)})

    [note] = [note for note in result.notes if "kernels are missing" in note]
    assert note.startswith("sampled has 100 of 3,565 numbered calls of CUDA: ")
