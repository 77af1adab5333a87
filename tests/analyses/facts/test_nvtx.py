"""Which of the ranges of a thread is the outer and which the inner one at a launch."""

import pytest
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.analyses.facts import nvtx
from gpuprof.analyses.facts.launches import launches
from gpuprof.analyses.facts.nvtx import NO_RANGE, innermost, outermost, ranges_of

SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted), max_size=8)


@settings(max_examples=200)
@given(SPANS, st.lists(st.integers(0, 13), min_size=1, max_size=6, unique=True))
def test_of_ranges_that_overlap_as_they_like_the_first_and_the_last_that_is_open_count(spans, at):
    profile = draw(
        nvtx_ranges=[(start, end, {"text": f"{start} {end}"}) for start, end in spans],
        api_calls=[(time, time + 1, {"correlation_id": time}) for time in at],
        kernels=[(100 + time, 101 + time, {"correlation_id": time}) for time in at],
    )
    held, found = ranges_of(profile), launches(profile)

    def span(index):
        return None if index == NO_RANGE else (int(held.start_ns[index]), int(held.end_ns[index]))

    said = {
        time: (span(outer), span(inner))
        for time, outer, inner in zip(
            found.launch_ns.tolist(),
            outermost(held, found).tolist(),
            innermost(held, found).tolist(),
            strict=True,
        )
    }
    opened = {time: [(s, e) for s, e in spans if s <= time < e] for time in at}
    assert said == {
        time: (
            min(around, key=lambda one: (one[0], -one[1]), default=None),
            max(around, key=lambda one: (one[0], -one[1]), default=None),
        )
        for time, around in opened.items()
    }


@given(texts=st.lists(st.sampled_from(["a", "b", "", "epoch 1"]), max_size=20))
def test_few_texts_and_many_are_numbered_alike(texts):
    ranges = [(n, n + 1, {"text": text}) for n, text in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch:
        labels = []
        for few in (0, 100):
            patch.setattr(nvtx, "_FEW", few)
            read = ranges_of(draw(nvtx_ranges=ranges))
            labels.append([read.labels[label][0] for label in read.label.tolist()])

    assert labels == [texts, texts]
