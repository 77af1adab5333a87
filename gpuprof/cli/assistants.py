"""``gpuprof mcp``: report, compare, predict and query as tools for assistants.

Assistants speak the Model Context Protocol over standard input and output. Each call is a command
in a process of its own, so that what it prints cannot mix with the protocol, and a call that is
given up ends. Source: https://modelcontextprotocol.io/specification
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from gpuprof import __version__
from gpuprof.base.errors import InputError, MissingToolError, install
from gpuprof.base.units import counted, say_bytes

if TYPE_CHECKING:
    from mcp.server import MCPServer

_INSTRUCTIONS: Final = (
    "Recordings of GPU programs (Nsight Systems, nvprof, PyTorch, TensorFlow, JAX). Begin with "
    "`recordings`, then `report`: its first sentence says where the time of a step goes, and each "
    "finding what to change and what that can save. `predict` replays a recording after a change. "
    "Times in tables and queries are in ns, sizes in bytes; n/a is unknown, never 0."
)
_MOST_FILES: Final = 500
_MOST_ROWS: Final = 1_000
_COLUMNS: Final = 120


def serve(values: SimpleNamespace) -> None:
    """Answer calls until standard input ends."""
    folders = [Path(folder).resolve() for folder in values.folders]
    if missing := next((folder for folder in folders if not folder.is_dir()), None):
        msg = f"{missing} is no folder"
        raise InputError(msg, "Name folders of recordings.")
    server(folders).run("stdio")


def server(folders: Sequence[Path]) -> "MCPServer[Any]":
    """A server whose tools read recordings below some folders and nothing else.

    Raises:
        MissingToolError: The package mcp is not installed.
    """
    try:
        from mcp.server import MCPServer  # an extra
        from mcp.types import ToolAnnotations
    except ImportError as error:
        msg = "the package mcp (2.0 or newer) is not installed"
        raise MissingToolError(msg, install("mcp")) from error
    protocol_server: MCPServer[Any] = MCPServer(
        "gpuprof", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools, is_safe = _Tools(folders), ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (
        tools.recordings, tools.report, tools.table, tools.compare, tools.predict, tools.query
    ):  # fmt: skip
        protocol_server.add_tool(tool, annotations=is_safe, structured_output=False)
    return protocol_server


class _Tools:
    """What an assistant can ask; the docstrings are what it reads.

    Args:
        folders: Where recordings may lie; relative names are below the first.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    async def recordings(self) -> str:
        """List the files below the folders, the newest first, with their sizes."""
        files = [path for folder in self._folders for path in folder.rglob("*") if path.is_file()]
        files.sort(key=lambda path: -path.stat().st_mtime)
        lines = [f"{path}  {say_bytes(path.stat().st_size)}" for path in files[:_MOST_FILES]]
        if further := len(files) - len(lines):
            lines.append(f"... and {counted(further, 'file', 'files')} more")
        return "\n".join(lines) or "There are no files."

    async def report(self, file: str) -> str:
        """Say where the time of a recording went: findings with what to change, then tables."""
        return await _answer("report", self._place(file))

    async def table(self, file: str, name: str, rows: int = 50) -> str:
        """A table of a recording as CSV in ns and bytes; the name "list" lists all tables."""
        if name == "list":
            return await _answer("report", "--list")
        words = (self._place(file), f"--table={name}", "--format=csv")
        return await _answer("report", *words, rows=rows)

    async def compare(self, files: list[str]) -> str:
        """Compare recordings of one program in several variants; the first is the baseline."""
        return await _answer("compare", *map(self._place, files))

    async def predict(self, file: str, changes: list[str]) -> str:
        """Predict how long a step takes after changes; without changes, show the critical path.

        Changes are link=nvlink3, hide=HtoD, drop=NAME, scale=gemm:0.5, streams=REGEX,
        drop-host=NAME, balance and no-launch-cost.
        """
        return await _answer(
            "predict", self._place(file), *(f"--what={change}" for change in changes)
        )

    async def query(self, file: str, sql: str, rows: int = 50) -> str:
        """Answer a SELECT in DuckDB's dialect over a recording's tables, as CSV in ns and bytes.

        SHOW TABLES and DESCRIBE kernels name tables and columns.
        """
        words = ("--format=csv", "--", self._place(file), sql)
        return await _answer("query", *words, rows=rows)

    def _place(self, file: str) -> str:
        from mcp.server.mcpserver.exceptions import ToolError  # loaded by now

        path = (self._folders[0] / file).resolve()
        if not any(path.is_relative_to(folder) for folder in self._folders):
            msg = f"{file} is outside of the folders that gpuprof was started with"
            raise ToolError(msg)
        return str(path)


async def _answer(*words: str, rows: int | None = None) -> str:
    """What a command prints, and its notes after it; its error where it fails.

    Args:
        words: The command.
        rows: How many rows of the CSV that it prints are shown; None for all that it prints.
    """
    import anyio  # comes with mcp
    from mcp.server.mcpserver.exceptions import ToolError  # loaded by now

    command = [sys.executable, "-m", "gpuprof", *words]
    environment = os.environ | {"COLUMNS": str(_COLUMNS), "NO_COLOR": "1"}
    process = await anyio.run_process(command, check=False, env=environment)
    output, notes = process.stdout.decode(), process.stderr.decode()
    if process.returncode and not output:
        raise ToolError(notes.strip())
    if rows is not None:
        lines, most = output.splitlines(), min(max(rows, 1), _MOST_ROWS)
        further = len(lines) - 1 - most
        remark = [f"... and {counted(further, 'row', 'rows')} more"] if further > 0 else []
        output = "".join(f"{line}\n" for line in [*lines[: most + 1], *remark])
    return output + notes
