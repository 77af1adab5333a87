"""Which host each device of a job is in, and what people call ranks.

Hosts are named only where recordings of several hosts are read together.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpuprof.base.units import capital, listed
from gpuprof.model.profile import Profile, once_per_recording

# A device by its number in the job, with the rank that some put before it; not its name in a file.
_DEVICE: Final = re.compile(r"(?<!'s )\b(?:[Rr]ank \d+, )?([Dd])evice (\d+)\b(?! of )")


class DeviceNames(NamedTuple):
    """What people know devices by.

    Args:
        ranks: The rank of each device that has one.
        hosts: The host of each device, where those of several hosts are known.
        names_of_files: What each device is called that has another number in its own file:
            ``rank 3's device 0``, or ``device 0 of a.json`` where no rank is known.
    """

    ranks: Mapping[int | None, int]
    hosts: Mapping[int | None, str]
    names_of_files: Mapping[int, str]

    def called(self, device: int | None) -> str:
        """A device for people; null for one of unknown number."""
        return "unknown device" if device is None else self.in_text(f"device {device}")

    def in_text(self, text: str) -> str:
        """A text with what devices are called in place of their numbers in the job."""

        def called(match: re.Match[str]) -> str:
            name = self.names_of_files.get(int(match[2]), match[0])
            return capital(name) if match[0][0].isupper() else name

        return _DEVICE.sub(called, text)

    def in_words(
        self, devices: Sequence[int | None], most: int = 1, *, has_hosts: bool = True
    ) -> str:
        """The first of some devices, by their ranks where these are known.

        As in ``rank 2 on node01``, ``ranks 2 and 3 on node01``, ``ranks 2 on node01 and 9 on
        node04``, ``device 3``. Null stands for one of unknown number.
        """
        ranked = [device for device in devices if device in self.ranks]
        first = {self.ranks.get(device, device): device for device in reversed(ranked or devices)}
        numbers = [*reversed(first)][:most]
        if not ranked and self.names_of_files:
            return listed([*map(self.called, numbers)])
        noun = ("rank" if ranked else "device") + ("" if len(numbers) == 1 else "s")
        hosts = [self.hosts.get(first[number]) if has_hosts else None for number in numbers]
        if len({*hosts}) == 1:
            return f"{noun} {listed([*map(str, numbers)])}{_on(hosts[0])}"
        pairs = zip(numbers, hosts, strict=True)
        return f"{noun} {listed([f'{number}{_on(host)}' for number, host in pairs])}"


NO_NAMES: Final = DeviceNames({}, {}, {})


@once_per_recording
def device_rows(profile: Profile) -> tuple[Mapping[str, Any], ...]:
    """The rows of the recording's devices, columns as in `DEVICES`; none where it lists none."""
    return tuple(profile.table("devices").to_pylist()) if profile.has("devices") else ()


def device_name(device: int | None) -> str:
    """A device in a sentence, by its number."""
    return "an unknown device" if device is None else f"device {device}"


def _on(host: str | None) -> str:
    return "" if host is None else f" on {host}"


@once_per_recording
def names_of(profile: Profile) -> DeviceNames:
    """What people know the devices of a recording by."""
    rows = device_rows(profile)
    ranks = {row["device_id"]: row["rank"] for row in rows if row["rank"] is not None}
    names_of_files = {
        row["device_id"]: f"device {row['own_device_id']} of {row['file']}"
        if row["rank"] is None
        else f"rank {row['rank']}'s device {row['own_device_id']}"
        for row in rows
        if row["own_device_id"] is not None and (row["rank"], row["file"]) != (None, None)
    }
    of_ranks: dict[int | None, set[str | None]] = {}
    for part in profile.parts:
        of_ranks.setdefault(part.rank, set()).add(part.profile.origin.host)
    # Of a rank on several hosts none is known.
    host_of = {rank: next(iter(names)) for rank, names in of_ranks.items() if len(names) == 1}
    hosts = {device: host for device, rank in ranks.items() if (host := host_of.get(rank))}
    has_several = len({*hosts.values()}) > 1
    return DeviceNames(ranks, hosts if has_several else {}, names_of_files)


def rails(hosts: Mapping[int | None, str]) -> dict[int | None, int]:
    """The place of each device among those of its host, by its number: its rail."""
    devices: dict[str, list[int | None]] = {}
    for device in sorted(hosts, key=lambda number: number or 0):
        devices.setdefault(hosts[device], []).append(device)
    return {device: place for group in devices.values() for place, device in enumerate(group)}
