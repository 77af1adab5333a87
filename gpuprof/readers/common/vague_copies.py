"""What traces of ROCm leave open about copies, whichever profiler wrote them."""

from collections.abc import Collection, Iterator, Sequence

from gpuprof.base.units import counted


def notes(local_ids: Sequence[int], directed_ids: Collection[int], devices: int) -> Iterator[str]:
    """What a reader of the numbers must know of copies.

    Args:
        local_ids: The correlation ids of copies named device-to-device.
        directed_ids: Those of calls that say in which direction they copy.
        devices: How many devices did any work.
    """
    if vague := sum(number not in directed_ids for number in local_ids):
        yield (
            "ROCm calls copies of pinned memory device-to-device, too: what"
            f" {counted(vague, 'copy', 'copies')} of this kind moved is not known."
        )
    if local_ids and devices > 1:
        yield (
            "ROCm does not tell copies between devices from those within one:"
            f" {counted(len(local_ids), 'copy', 'copies')} (DtoD) may be either."
        )
