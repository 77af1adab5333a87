"""How a batch is split over devices."""


def part_sizes(samples: int, parts: int) -> list[int]:
    """Sizes that differ by at most one; no part is empty."""
    parts = min(samples, parts)
    return [samples // parts + (number < samples % parts) for number in range(parts)]
