"""Files that hold several recordings one after another: one is chosen, none are added up unasked.

A log may quote several runs, or hold the runs of a day. Processes of one job, which ran at the
same time, are one recording.
"""

from dataclasses import replace
from typing import Final

from gpuprof.base.errors import InputError, UsageError
from gpuprof.base.units import counted, listed, say_ns
from gpuprof.model.profile import Profile, Section

ALL: Final = "all"
_TRACES: Final = ("kernels", "memcpys", "memsets", "api_calls")
# More than these are not listed.
_LISTED: Final = 8


def chosen(profile: Profile, section: str | int | None) -> Profile:
    """The recording that is meant.

    Args:
        profile: All of a file.
        section: Its number, from 1; its process; a part of its name; or ``all`` to add up
            the recordings of the file. None for a file of one recording.

    Raises:
        InputError: The file holds several recordings, and none is named.
        UsageError: It holds none that is named so, or several.
    """
    sections = profile.sections
    if section is None and sections:
        msg = f"{profile.origin.source} holds {len(sections)} recordings, which are not added up"
        raise InputError(msg, f"Name one with --section: {_list(profile)}.")
    if section is None or (section == ALL and not sections):
        return profile
    if section == ALL and _has_trace(profile):
        msg = f"{profile.origin.source} holds {len(sections)} traces, which share no clock"
        raise UsageError(msg, f"Name one with --section: {_list(profile)}.")
    if section == ALL:
        recording = replace(profile, sections=())
        note = f"{len(sections)} recordings of the file are added up."
    else:
        number = _number(profile, str(section))
        recording = sections[number].profile
        note = f"Section {number + 1} of {len(sections)} of the file: {_label(sections[number])}."
    origin = replace(recording.origin, warnings=(note, *recording.origin.warnings))
    return replace(recording, origin=origin)


def _number(profile: Profile, section: str) -> int:
    """The place of a section that is named by number, process or name."""
    sections = profile.sections
    if section.isascii() and section.isdigit():
        if 1 <= int(section) <= len(sections):
            return int(section) - 1
        matching = [p for p, listed in enumerate(sections) if str(listed.process_id) == section]
    else:
        matching = [p for p, listed in enumerate(sections) if section and section in listed.name]
    if len(matching) == 1:
        return matching[0]
    source = profile.origin.source
    if not sections:
        msg = f"{source} holds one recording, and no section {section}"
        raise UsageError(msg, "Leave out --section.")
    amount = "several sections" if matching else "no section"
    msg = f"{source} has {amount} of the name {section}"
    raise UsageError(msg, f"Sections: {_list(profile)}.")


def _list(profile: Profile) -> str:
    """``1 (./a.out, process 7, 2.000 ms of GPU time), 2 (...) or all``."""
    sections = profile.sections
    texts = [f"{number} ({_label(section)})" for number, section in enumerate(sections, 1)]
    if len(texts) > _LISTED:
        texts = [*texts[:_LISTED], f"... {len(sections)}"]
    if not _has_trace(profile):
        texts.append(ALL)
    return listed(texts, "or")


def _has_trace(profile: Profile) -> bool:
    return any(map(profile.has, _TRACES))


def _label(section: Section) -> str:
    """Its name, process, and how long all its GPU work took, for people to know it by."""
    process = "" if section.process_id is None else f"process {section.process_id}"
    profile = section.profile
    if profile.has("activity_summary"):
        rows = profile.table("activity_summary").to_pylist()
        times = [row["total_ns"] or 0 for row in rows if row["activity_kind"] != "api"]
        work = f"{say_ns(sum(times))} of GPU time"
    else:
        tables = [profile.table(name) for name in _TRACES if profile.has(name)]
        work = counted(sum(table.num_rows for table in tables), "row", "rows")
    return ", ".join(filter(None, (section.name, process, work)))
