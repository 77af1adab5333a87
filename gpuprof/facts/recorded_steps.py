"""The steps that a file of a part of a recording keeps, as they were found in the whole of it.

What is left of a recording does not tell whether its border cuts a step, nor which are warm-up.
"""

from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.numbers import groups, read_columns
from gpuprof.facts.step_times import SAMPLE, STATUS, UNUSUAL, WARM_UP
from gpuprof.model.data_model import ELSEWHERE, RECORDED_STEPS
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.words import Words

_NUMBERS: Final = (
    "phase", "process_id", "device_id", "is_period", "step", "start_ns", "end_ns", "place",
)  # fmt: skip
_TEXTS: Final = ("name", "text", "source", "status")


class RecordedSteps(NamedTuple):
    """The steps of one phase, in order, each with what `gpuprof.facts.phases` found of it."""

    name: str
    text: str
    source: str
    process: int
    devices: tuple[int, ...]
    is_period: bool
    number: Int64s
    start_ns: Int64s
    end_ns: Int64s
    status: Int64s


@once_per_recording
def recorded_steps(profile: Profile) -> tuple[RecordedSteps, ...] | None:
    """The steps of each phase that has any in the part; None where all of them are still to find.

    Of the steps at the beginning of a phase, as many are warm-up as the profile leaves out.
    """
    if not profile.all_have(RECORDED_STEPS.name):
        return None
    words = {name: Words() for name in _TEXTS}
    columns = read_columns(profile, RECORDED_STEPS.name, *_NUMBERS, *_TEXTS, texts=words)
    of = dict(zip((*_NUMBERS, *_TEXTS), columns, strict=True))
    codes = {word: code for code, word in STATUS.items()} | {ELSEWHERE: -1}
    code = np.array([codes.get(word or "", UNUSUAL) for word in words["status"].words], np.int64)
    status = code[of["status"].astype(np.int64)]
    if profile.skip_steps is not None:
        status[status == WARM_UP] = SAMPLE
        is_whole = (status == SAMPLE) | (status == codes[ELSEWHERE])
        status[is_whole & (of["place"] < profile.skip_steps)] = WARM_UP
    of["status"] = np.where(status == codes[ELSEWHERE], UNUSUAL, status)
    # Of several files, phases of one number are those of each process.
    alike = groups(of["phase"], of["process_id"])
    return tuple(
        _of_phase({name: column[rows] for name, column in of.items()}, words) for rows in alike
    )


def _of_phase(of: dict[str, Int64s], words: dict[str, Words]) -> RecordedSteps:
    _, first = np.unique(of["step"], return_index=True)
    name, text, source = (words[name].words[int(of[name][0])] or "" for name in _TEXTS[:3])
    number, start, end, status = (of[n][first] for n in ("step", "start_ns", "end_ns", "status"))
    devices = tuple(np.unique(of["device_id"]).tolist())
    about = name, text, source, int(of["process_id"][0]), devices, bool(of["is_period"][0])
    return RecordedSteps(*about, number, start, end, status)
