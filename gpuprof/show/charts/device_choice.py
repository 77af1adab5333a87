"""Which devices a chart has room for: of many, the busiest and the least busy ones."""

from collections.abc import Mapping
from typing import Final, NamedTuple

MOST_DEVICES: Final = 16
_HALF: Final = MOST_DEVICES // 2


class DeviceChoice(NamedTuple):
    """The devices of a chart, and what a reader must know of others.

    Args:
        devices: CUDA ordinals; None for the device of activities that name none.
        words: Which devices these are of how many; empty where they are all.
    """

    devices: frozenset[int | None]
    words: str


def choose_devices(busy: Mapping[int | None, float]) -> DeviceChoice:
    """All devices, or of more than `MOST_DEVICES` as many busy as idle ones.

    Args:
        busy: How much each device is busy, in any unit.
    """
    if len(busy) <= MOST_DEVICES:
        return DeviceChoice(frozenset(busy), "")
    ordered = sorted(busy, key=lambda device: busy[device])
    return DeviceChoice(
        frozenset((*ordered[:_HALF], *ordered[-_HALF:])),
        f"the {_HALF} busiest and the {_HALF} least busy of {len(busy):,} devices",
    )
