"""Where a recording came from: the file, the reader, and the tool that wrote it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpuprof.base.errors import excerpt
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.secrets import masked_text
from gpuprof.model import schema


@dataclass(frozen=True)
class Origin:
    """Where a recording came from, and what its tool said about it.

    Args:
        tool_version: Version of the tool that recorded; None where the file does not tell.
        exporter_version: Version of the tool that wrote the file from a recording, where it is
            not the recording itself.
        host: Name of the host on which it was made; None where the file does not tell. It is shown
            only where recordings of several hosts are read together, and in no file that gpuprof
            writes of a recording.
    """

    source: Path
    reader: str
    tool: str
    tool_version: str | None = None
    schema_version: str | None = None
    command: str | None = None
    recorded_at: str | None = None
    epoch_ns: int | None = None
    variant: str | None = None
    start_resolution_ns: int = 1
    warnings: tuple[str, ...] = ()
    exporter_version: str | None = None
    host: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Mask secrets in the command, whichever file it came from."""
        if isinstance(self.command, str):
            object.__setattr__(self, "command", masked_text(self.command))

    def shown(self) -> dict[str, Any]:
        """Its fields by name, without the host."""
        return {name: value for name, value in asdict(self).items() if name != "host"}

    @property
    def recorder(self) -> str:
        """The tool and its version, for people; else the version that exported the file."""
        if self.tool == TIMING_ONLY:
            return "timed without a profiler"
        if self.tool_version:
            return f"{self.tool} {self.tool_version}"
        exporter = f" (exported by {self.exporter_version})" if self.exporter_version else ""
        return self.tool + exporter

    def fault(self) -> str | None:
        """The first field that no recording can have, as the end of a sentence; None for none."""
        for name in _TEXTS:
            if not isinstance(value := getattr(self, name), str | None):
                return f"{name} is {excerpt(value)}"
        for text in self.warnings:
            if not isinstance(text, str):
                return f"warnings is {excerpt(text)}"
        epoch_ns = 0 if self.epoch_ns is None else self.epoch_ns
        if not isinstance(epoch_ns, int) or not 0 <= epoch_ns <= schema.LARGEST:
            return f"epoch_ns is {excerpt(epoch_ns)}"
        return None


_TEXTS = (
    "reader", "tool", "tool_version", "schema_version", "command", "recorded_at", "variant",
    "exporter_version", "host",
)  # fmt: skip
