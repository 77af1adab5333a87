"""How certain a difference is."""

from typing import Final

BEYOND: Final = "beyond noise"
WITHIN: Final = "within noise"
UNKNOWN: Final = "noise unknown"
EXACT: Final = "exact"
