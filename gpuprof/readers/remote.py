"""Recordings at addresses, such as ``s3://bucket/run/rank0.sqlite``: fetched whole by fsspec.

Readers read a file at many places and several times, so each is copied into a temporary folder,
which is removed when the program ends.
"""

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from gpuprof.base.errors import ROOM, GpuprofError, InputError, MissingToolError, install
from gpuprof.base.units import counted, say_bytes
from gpuprof.readers import inputs
from gpuprof.readers.inputs import Address

# Must stay free on the drive of the copies.
_SPARE_BYTES: Final = 1 << 28
# To list a folder takes as long as to ask for a few files.
_MANY: Final = 4
_Result = TypeVar("_Result")
_CREDENTIALS: Final = (
    "Check the credentials: AWS_ACCESS_KEY_ID or ~/.aws for s3; public data: FSSPEC_S3_ANON=true"
)
# Names of exceptions, as each package for a protocol has classes of its own.
_REFUSALS: Final = frozenset({"PermissionError", "NoCredentialsError", "PartialCredentialsError"})
_DISCONNECTIONS: Final = frozenset({
    "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "TimeoutError",
    "ClientConnectorError", "ClientConnectorDNSError", "ClientOSError", "ConnectionClosedError",
    "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ServerTimeoutError",
    "HTTPClientError", "gaierror",
})  # fmt: skip


class _RemoteFile(NamedTuple):
    """A file that is fetched.

    Args:
        system: fsspec's file system.
        name: Its name there.
        path: Where its copy is put.
        size_bytes: 0 where unknown.
    """

    system: Any
    name: str
    path: Path
    size_bytes: int


class Fetch(NamedTuple):
    """What is being fetched.

    Args:
        copies: The files.
        size_bytes: Their size; 0 where it is not known.
    """

    copies: Sequence[_RemoteFile]
    size_bytes: int

    @property
    def fetched_bytes(self) -> int:
        """How much is there by now."""
        paths = (copy.path for copy in self.copies)
        return sum(path.stat().st_size for path in paths if path.exists())


# What is being fetched now, for the line that shows progress.
_now: list[Fetch] = []


def now() -> Fetch | None:
    """What is being fetched at this moment; None for nothing."""
    return _now[0] if _now else None


def fetched(addresses: Sequence[Address]) -> list[list[Path]]:
    """Copies of what addresses name, for each of them; several of a pattern.

    Raises:
        InputError: An address names nothing, cannot be reached, or the copies have no room.
        MissingToolError: A package is not installed.
    """
    root = Path(tempfile.mkdtemp(prefix="gpuprof-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    planned = _for_each(lambda address: [*_copies(address, root)], addresses)
    copies = [copy for of_address in planned for _, files in of_address for copy in files]
    size_bytes, free_bytes = sum(c.size_bytes for c in copies), shutil.disk_usage(root).free
    if size_bytes + _SPARE_BYTES > free_bytes:
        files = f"{counted(len(copies), 'file', 'files')} of {say_bytes(size_bytes)}"
        free = f"which has {say_bytes(free_bytes)} free"
        msg = f"{addresses[0]}: {files} do not fit into {root.parent}, {free}"
        raise InputError(msg, ROOM)
    # A file system may fetch several files at a time.
    by_system: dict[int, list[_RemoteFile]] = {}
    with _failures(addresses[0]):
        for copy in copies:
            copy.path.parent.mkdir(parents=True, exist_ok=True)
            by_system.setdefault(id(copy.system), []).append(copy)
        _now.append(Fetch(copies, size_bytes))
        try:
            for alike in by_system.values():
                names, paths = [c.name for c in alike], [str(c.path) for c in alike]
                alike[0].system.get(names, paths)
        finally:
            _now.clear()
    return [[path for path, _ in of_address] for of_address in planned]


def listed(addresses: Sequence[Address]) -> list[list[Path]]:
    """The addresses of single files that patterns name; copies of folders that they name.

    Raises:
        GpuprofError: As `fetched`.
    """

    def files_of(address: Address) -> list[Path]:
        system, matches = _matches(address)
        if any(about["type"] == "directory" for about in matches.values()):
            return fetched([address])[0]
        if not address.is_pattern:
            return [address]
        return [Address.of(system.unstrip_protocol(name)) for name in sorted(matches)]

    return _for_each(files_of, addresses)


def size_and_time(address: Address) -> tuple[int, int]:
    """The bytes of a file, and when it was last written in ns since 1970; 0 where unknown."""
    try:
        system, name = _system(address)
        size_bytes = system.info(name).get("size") or 0
        with suppress(NotImplementedError):
            return size_bytes, int(system.modified(name).timestamp() * 10**9)
    except Exception:  # noqa: BLE001 - who reads it says what is wrong
        return 0, 0
    return size_bytes, 0


def _for_each(work: Callable[[Address], _Result], addresses: Sequence[Address]) -> list[_Result]:
    """What is asked of a server for each address."""
    single = [address for address in addresses if not address.is_pattern]
    for folder, count in Counter(a.full_text.rpartition("/")[0] for a in single).items():
        # Of a folder that was listed, fsspec need not ask for each file.
        if count >= _MANY and not folder.startswith("http"):
            with suppress(Exception):  # to ask for each is as good
                system, name = _system(Address.of(folder))
                system.ls(name)
    results = []
    for address in addresses:
        with _failures(address):
            results.append(work(address))
    return results


def _matches(address: Address) -> tuple[Any, dict[str, Any]]:
    """The file system of an address, and what it names there with type and size.

    Raises:
        InputError: It names nothing.
    """
    system, name = _system(address)
    if not address.is_pattern:
        return system, {name: system.info(name)}
    matches = system.glob(name, detail=True)
    if not matches:
        msg = f"{address}: no file has such a name"
        raise InputError(msg)
    return system, matches


def _copies(address: Address, root: Path) -> Iterator[tuple[Path, list[_RemoteFile]]]:
    """What an address names, each with its files: one, or all of a folder."""
    system, matches = _matches(address)
    scheme = address.full_text.partition(":")[0]
    inputs.keep_copies(root / scheme, scheme)
    for name, info in sorted(matches.items()):
        is_folder = info["type"] == "directory"
        files = system.find(name, detail=True) if is_folder else {name: info}
        named = [
            _RemoteFile(system, file, _local(root / scheme, file), about.get("size") or 0)
            for file, about in sorted(files.items())
        ]
        if not named:
            msg = f"{address}: the folder is empty"
            raise InputError(msg)
        yield _local(root / scheme, name), named


def _local(folder: Path, name: str) -> Path:
    """Where a copy is put: no part of a name leads out of the folder."""
    parts = name.partition("://")[2] or name
    words = [part for part in parts.partition("?")[0].split("/") if part not in ("", ".")]
    return folder.joinpath(*("_" if word == ".." else word for word in words))


def _system(address: Address) -> tuple[Any, str]:
    """The file system of an address, and the name in it."""
    try:
        from fsspec.core import url_to_fs  # few recordings need it
    except ImportError as error:
        msg = f"{address}: the package fsspec is not installed"
        raise MissingToolError(msg, f"Install it: {install('storage')}") from error
    scheme = address.full_text.partition(":")[0]
    try:
        system, name = url_to_fs(address.full_text)
    except ImportError as error:
        msg = f"{address}: the package for {scheme} is not installed"
        raise MissingToolError(msg, f"{_line(error)}.") from error
    except ValueError as error:
        msg = f"{address}: {scheme} is no protocol that fsspec knows"
        raise InputError(
            msg, "Give a path, or an address such as s3://bucket/rank0.sqlite"
        ) from error
    return system, name


@contextmanager
def _failures(address: Address) -> Iterator[None]:
    """Raise whatever a package for a protocol raises as what it means for the user."""
    try:
        yield
    except GpuprofError:
        raise
    except Exception as error:
        causes: list[BaseException] = [error]
        while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
            causes.append(cause)
        kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
        hint = None
        # To the package for https, a server that does not answer has no such file.
        if kinds & _DISCONNECTIONS:
            message = f"the server cannot be reached ({_line(error)})"
            hint = "Check the network and the address."
        elif kinds & _REFUSALS:
            message, hint = f"access is refused ({_line(error)})", _CREDENTIALS
        elif isinstance(error, FileNotFoundError):
            message = "there is no such file, folder or bucket"
        else:
            message = f"it cannot be fetched ({type(error).__name__}: {_line(error)})"
        msg = f"{address}: {message.replace(address.full_text, str(address))}"
        raise InputError(msg, hint) from error


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
