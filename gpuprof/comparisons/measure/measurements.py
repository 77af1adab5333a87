"""What of each recording is compared, measured once: of a large one before the next one is read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gpuprof.comparisons.measure.compared_steps import (
    COMPARED_READS,
    MEASURED_READS,
    ComparedSteps,
    own_steps,
)
from gpuprof.comparisons.measure.device_time import copy_layers
from gpuprof.comparisons.measure.matching import kernel_groups
from gpuprof.comparisons.measure.measured_runs import (
    MeasuredRun,
    Variant,
    measured_run,
    variant_of,
)
from gpuprof.facts.copies import copy_rows, too_fast
from gpuprof.facts.launches import activities, hold_kernels, launches
from gpuprof.facts.moves import backward_copies
from gpuprof.facts.nvtx import named_parts, ranges_of
from gpuprof.facts.phases import steps_by_phase
from gpuprof.facts.timeline import timelines
from gpuprof.findings.whole_recording import recorded_calls
from gpuprof.model.profile import Profile

# Of smaller recordings the threads of what is computed ahead would mostly wait for each other.
_LARGE: Final = 2_000_000


class Measurements:
    """The figures of what is compared, each measured when it is first asked for.

    Args:
        epoch_seconds: Measured seconds per epoch by label, where no recording has them.
    """

    def __init__(self, epoch_seconds: Mapping[str, float]) -> None:
        self._epoch_seconds = epoch_seconds
        self._runs: dict[tuple[Any, ...], MeasuredRun] = {}

    def variant(self, label: str, parts: Sequence[ComparedSteps]) -> Variant:
        """The runs of a variant, of which these parts are compared."""
        return variant_of(label, [*map(self._of, parts)], self._epoch_seconds.get(label))

    def take_ahead(
        self, label: str, profile: Profile, range_text: str | None, skip_steps: int | None
    ) -> None:
        """Measure the steps of a large recording, and let go of what hardly anything asks for then.

        Of ten million activities that is 1 GB, which the next recording may take. One without
        steps keeps what tells the calls of its kernels, which may stand for steps.

        Raises:
            UsageError: As in `compared_steps`.
        """
        recording = profile.unrestricted
        if not _is_large(recording):
            return
        profile.expect(COMPARED_READS)
        if range_text is None:
            _learn_steps(recording)
        parts = own_steps(label, profile, range_text, skip_steps)
        for part in parts:
            self._of(part)
        if parts:
            too_fast(recording)
            recording.forget(timelines, copy_rows)
            recording.release(but={})

    def _of(self, compared: ComparedSteps) -> MeasuredRun:
        """The figures of one part."""
        part, lengths = compared.profile, compared.lengths_ns.tobytes()
        known_by = compared.source, compared.phase, compared.steps, lengths
        key = id(part.unrestricted), part.selection, *known_by
        if key not in self._runs:
            if is_large := _is_large(part.unrestricted):
                part.compute_ahead([kernel_groups])
            self._runs[key] = measured_run(compared)
            if is_large:
                part.once(kernel_groups)
                part.forget(copy_rows)
        return self._runs[key]


def _is_large(recording: Profile) -> bool:
    return recording.events >= _LARGE and recording.has("kernels", "memcpys")


def _learn_steps(recording: Profile) -> None:
    """Find the steps of a large recording on two threads, and let go of what only that needs."""
    # The devices' timelines are asked for first.
    ahead: list[Callable[[Profile], object]] = [copy_layers]
    ahead = [launches, *ahead] if recording.has("api_calls") else ahead
    ahead = [ranges_of, *ahead] if recording.has("nvtx_ranges") else ahead
    hold_kernels(recording)
    recording.compute_ahead(ahead)
    steps_by_phase(recording)
    backward_copies(recording)
    recorded_calls(recording)
    recording.forget(launches, activities, ranges_of, named_parts)
    recording.release(but=MEASURED_READS)
