"""Rows of a comparison's tables as named tuples: their fields are the columns of the tables."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from gpuprof.model.schema import Schema


class Difference(NamedTuple):
    """A row of `DIFFERENCES`."""

    variant: str
    metric: str
    baseline: float
    candidate: float
    difference: float
    percent: float | None
    low: float | None
    high: float | None
    p_value: float | None
    is_beyond_noise: bool | None


class DifferencePart(NamedTuple):
    """A row of `SPLIT`."""

    variant: str
    basis: str
    part: str
    part_group: str
    baseline_ns: int
    candidate_ns: int
    difference_ns: int
    share: float | None
    low_ns: float | None
    high_ns: float | None


class Uncompared(NamedTuple):
    """A row of `UNCOMPARED`."""

    variant: str
    phase: str
    devices: int
    steps: int
    step_ns: float


class KernelPair(NamedTuple):
    """A row of `KERNELS`."""

    variant: str
    name: str
    short_name: str
    grid: str | None
    block: str | None
    status: str
    is_communication: bool
    is_reshaped: bool
    baseline_calls: float | None
    candidate_calls: float | None
    baseline_mean_ns: float | None
    candidate_mean_ns: float | None
    baseline_ns: int | None
    candidate_ns: int | None
    difference_ns: int | None
    contribution: float | None
    p_value: float | None = None
    adjusted_p_value: float | None = None


class Mismatch(NamedTuple):
    """A row of `COMPARABILITY`."""

    variant: str
    aspect: str
    baseline: str | None
    candidate: str | None
    is_known: bool
    warning: str


class Outcome(NamedTuple):
    """A row of `OUTCOMES`."""

    variant: str
    basis: str
    metric: str | None = None
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    percent: float | None = None
    low_percent: float | None = None
    high_percent: float | None = None
    certainty: str = ""
    cause: str | None = None
    cause_ns: int | None = None
    phase: str | None = None
    baseline_steps: int | None = None
    candidate_steps: int | None = None
    baseline_low_ns: float | None = None
    baseline_high_ns: float | None = None
    candidate_low_ns: float | None = None
    candidate_high_ns: float | None = None
    certainty_of_steps: str | None = None
    work_percent: float | None = None
    call_percent: float | None = None


def table_of(schema: Schema, rows: Sequence[NamedTuple]) -> pa.Table:
    """Rows as a table of the schema whose columns are their fields."""
    return schema.table([row._asdict() for row in rows])
