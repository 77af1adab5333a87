"""Cells, labels and names as people see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.model.data_model import RUNS
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Kind
from gpuprof.show.cells import cell, cell_of, percent, without_common_ends


def test_a_part_of_a_difference_is_no_growth_however_large():
    shares = (45.012, -33.203, 0.511, 0.0, None)

    assert [*map(percent, shares)] == ["+4,501.2 %", "-3,320.3 %", "+51.1 %", "0.0 %", "n/a"]


@pytest.mark.parametrize(
    ("number", "shown"), [(150, "150"), (2 << 32 | 150, "150 #2"), (None, "n/a")]
)
def test_processes_of_several_files_that_bear_one_number_are_numbered(number, shown):
    assert cell(RUNS.columns["process_id"], number) == shown


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        (Column(INT, "", "Any."), 3_000_000, "3000000"),
        (Column(INT, "1", "Any."), 3_000_000, "3,000,000"),
        (Column(FLOAT, "1", "Any."), 0.125, "12.50 %"),
        (Column(FLOAT, "1", "Any.", kind=Kind.RATIO), 0.125, "0.125"),
        (Column(FLOAT, "1", "Any.", kind=Kind.COUNT), 12.0, "12"),
        (Column(FLOAT, "1", "Any.", kind=Kind.MEAN), 12.0, "12.000"),
        (Column(INT, "ns", "Any."), 2_075_412_000, "2.075 s"),
        (Column(INT, "ns", "Any.", kind=Kind.INSTANT), 2_075_412_000, "2.075412 s"),
        (Column(FLOAT, "W", "Any."), 85.26, "85.26 W"),
        (Column(FLOAT, "C", "Any."), 71.0, "71 C"),
        (Column(FLOAT, "", "Any."), 0.98765, "0.9877"),
        (Column(FLOAT, "C", "Any."), None, "n/a"),
    ],
)
def test_a_value_is_shown_as_what_its_column_says_that_it_is(column, value, shown):
    assert cell(column, value) == shown


LABELS = {
    "path": (["runs/x/single.sqlite", "runs/x/dual.sqlite"], ["single", "dual"]),
    "prefix": (["deepconn-single", "deepconn-dual"], ["single", "dual"]),
    "suffix": (["single/profile", "dual/profile"], ["single", "dual"]),
    "cells": (["batch=16, gpus=1", "batch=32, gpus=1"], ["batch=16", "batch=32"]),
    "axes": (["place=single,batch=64", "place=dual,batch=64"], ["single", "dual"]),
    "one-in-another": (["dual", "dual-colocated"], ["dual", "dual-colocated"]),
    "numbers-alone-say-nothing": (["run-1", "run-2"], ["run-1", "run-2"]),
    "a-part-of-a-number": (["lr_0.1", "lr_0.2"], ["lr_0.1", "lr_0.2"]),
    "a-single-one": (["one"], ["one"]),
    "none": ([], []),
}


@pytest.mark.parametrize(("labels", "shown"), LABELS.values(), ids=LABELS)
def test_labels_are_shown_without_what_all_have_in_common(labels, shown):
    assert list(without_common_ends(labels).values()) == shown


@given(st.lists(st.text("ab-/ 1", max_size=8), unique=True))
def test_labels_stay_apart_and_are_never_empty(labels):
    shown = without_common_ends(labels)

    assert [*shown] == labels
    assert len({*shown.values()}) == len(labels)
    assert all(text or not label for label, text in shown.items())
    assert all(text in label for label, text in shown.items())


@pytest.mark.parametrize(
    ("column", "key", "shown"),
    [
        ("cause", "waits_for_stream", "waits for stream"),
        ("cause", "mpi_call", "MPI call"),
        ("cause", "PtoP_staged", "PtoP through the host"),
        ("detail", "my_range", "my_range"),
    ],
)
def test_people_read_causes_as_words(column, key, shown):
    assert cell_of(column, Column(TEXT, "", ""), key) == shown
