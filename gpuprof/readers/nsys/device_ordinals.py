"""Devices of an export whose numbers do not mean the same GPU to all of its processes.

An activity's ``deviceId`` is the ordinal that CUDA gave the GPU in that process, so that under
CUDA_VISIBLE_DEVICES two processes call different GPUs 0. Exports of nsys 2025 and later tell each
process' GPUs in TARGET_INFO_CUDA_DEVICE, those of 2020 in TARGET_INFO_CUDA_GPU; those between
list contexts only, from which it is seen that processes share a number.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

# Process and ordinal -> the GPU's number in the machine.
MachineNumbers = Mapping[tuple[int, int], int]

RENUMBERED: Final = (
    "Processes number different GPUs alike (CUDA_VISIBLE_DEVICES), so devices have the numbers of "
    "the machine here."
)


def machine_numbers(uses: Iterable[tuple[int, int, int | str]]) -> MachineNumbers:
    """The machine's number of each process' device, where processes disagree.

    Args:
        uses: Process, its ordinal, and what the GPU is: its number in the machine, or its bus id.

    Returns:
        Nothing where a number means the same GPU to all, and a GPU has the same number for all.
    """
    rows = set(uses)
    ordinals = {ordinal for _, ordinal, _ in rows}
    gpus = {gpu for _, _, gpu in rows}
    if len(ordinals) == len(gpus) == len({(ordinal, gpu) for _, ordinal, gpu in rows}):
        return {}
    places = {gpu: place for place, gpu in enumerate(sorted(gpus, key=str))}
    return {
        (process, ordinal): gpu if isinstance(gpu, int) else places[gpu]
        for process, ordinal, gpu in rows
    }


def shared(contexts: Iterable[tuple[int, int]]) -> str | None:
    """What a reader must know where several processes use one number, and nothing tells more.

    Args:
        contexts: Process and ordinal of every CUDA context.
    """
    counts = Counter(ordinal for _, ordinal in set(contexts))
    many = sorted(ordinal for ordinal, processes in counts.items() if processes > 1)
    if not many:
        return None
    listed = ", ".join(map(str, many))
    return (
        f"Several processes use device {listed}: whether it is the same GPU to all of them this "
        "export does not tell; here it is one."
    )
