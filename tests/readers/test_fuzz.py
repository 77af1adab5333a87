"""Recordings that were changed at random are read or refused, never anything else.

A longer run: ``make fuzz``, or ``python tests/readers/fuzz_structure.py --seconds 600``, which
also uses what is read.
"""

import random

import pytest
import structures
from fuzz import MUTATIONS, seeds, try_one
from hypothesis import given, settings
from hypothesis import strategies as st

# Per reader: small real texts and files made by hand, so that the test needs nothing else.
SEEDS = seeds()
# Of each of some 130 files, in two ways, others at each run.
EXAMPLES = 10


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_changed_recording_is_read_or_refused(name, data):
    content = SEEDS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        mutation = data.draw(st.sampled_from(MUTATIONS))
        content = mutation(content, data.draw(st.randoms(use_true_random=False)))

    try_one(name, content)


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_recording_of_another_structure_is_read_or_refused(name, seed):
    content = structures.changed(SEEDS[name], random.Random(seed))  # noqa: S311 - no secret

    try_one(name, content)


def test_seeds_are_recordings_of_many_readers():
    readers = {try_one(name, content) for name, content in SEEDS.items()}

    assert len(readers - {None}) >= 5
