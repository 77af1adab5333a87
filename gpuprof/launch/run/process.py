"""Run a program, alone or under a profiler: its output as it comes, and how it ended.

The program runs in a session of its own, so that Ctrl-C reaches only gpuprof, which passes it
on to the program: the profiler then ends in order after it. A profiler prints on the same
streams as its program. To keep them apart, a one-line shell stands between the two: it opens
pipes of gpuprof as the program's streams, says its process id, and becomes the program.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from gpuprof.base.errors import RecordError
from gpuprof.base.manifest import RUN_DIR_VARIABLE
from gpuprof.base.signals import handling
from gpuprof.launch.contract import SIGNAL_BASE, Ended
from gpuprof.launch.run.program_signals import SAVING_SECONDS, Signals, wait_for

with contextlib.suppress(ImportError):  # on Windows, where nothing is recorded
    import fcntl

STDOUT: Final = 1
STDERR: Final = 2
_CHUNK_BYTES: Final = 1 << 20
# Of a signal that comes just before a wait, Python hears after it.
_LONGEST_WAIT_SECONDS: Final = 0.5
_F_SETPIPE_SZ: Final = 1031
# A process that the program left behind may hold its streams open, and print, for ever.
_LINGER_SECONDS: Final = 1.0
_MOST_LINGERING_BYTES: Final = 4 * _CHUNK_BYTES
# Between Ctrl-C, SIGTERM and SIGKILL to a program that has used up its time.
_GRACE_SECONDS: Final = 10.0
# For a profiler that goes on after the program's end.
_SILENT_SECONDS: Final = 2.0
_SHELL: Final = 'exec >{out} 2>{err}; echo $$ >{id}; exec "$@"'
# A profiler that leaves before its program takes the exit status with it: the shell stays for it.
_SHELL_THAT_STAYS: Final = (
    'exec >{out} 2>{err} 9>{ended}; echo $$ >{id}; trap : INT TERM HUP; "$@" 9>&-; echo $? >&9'
)


@dataclass
class ProgramOutput:
    """Where the program's output goes: to gpuprof's own streams and to a log.

    A stream whose reader has left (``| head``) is given up; the log goes on. A log that cannot
    be written is given up and its error kept; the program goes on.
    """

    log: IO[bytes]
    size: int = 0
    log_error: OSError | None = None
    _gone: set[int] = field(default_factory=set)

    def write(self, stream: int, data: bytes) -> None:
        """Pass bytes on as they are."""
        self.size += len(data)
        # Kept before it is shown: what was seen is there after a kill.
        if self.log_error is None:
            try:
                _write_all(self.log.fileno(), data)  # a full disk takes a part without an error
            except OSError as error:
                self.log_error = error
        if stream not in self._gone:
            try:
                _write_all(stream, data)
            except OSError:
                self._gone.add(stream)


def _write_all(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        try:
            remaining = remaining[os.write(descriptor, remaining) :]
        except BlockingIOError:
            # Another program made the terminal non-blocking.
            with selectors.DefaultSelector() as selector:
                selector.register(descriptor, selectors.EVENT_WRITE)
                selector.select()


@dataclass(frozen=True)
class Wrapping:
    """A profiler before the program.

    Args:
        command: Puts it before the program's arguments.
        log: Takes what it prints itself.
        leaves: Whether it may end while the program runs on.
        say: Takes a line for the person who waits for it.
    """

    command: Callable[[tuple[str, ...]], list[str]]
    log: IO[bytes]
    leaves: bool = False
    say: Callable[[str], None] = lambda _: None


def run_program(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: ProgramOutput,
    wrapping: Wrapping | None = None,
    timeout_seconds: float | None = None,
) -> Ended:
    """Run a program to its end, showing and keeping its output as it comes.

    Args:
        arguments: The program's own.
        environment: All of its variables.
        output: Takes what it prints.
        wrapping: The profiler before it; None to run it as it is.
        timeout_seconds: After which it is stopped as by Ctrl-C, then harder; None for never.

    Raises:
        RecordError: It cannot be started.
    """
    pipes = _Pipes()
    say = (lambda _: None) if wrapping is None else wrapping.say
    signals = Signals(environment.get(RUN_DIR_VARIABLE, ""), say)
    alarm = _Alarm(signals, timeout_seconds)
    started = time.perf_counter()
    try:
        with handling(signals.handle):
            process = _start(tuple(arguments), environment, pipes, wrapping)
            signals.started(process.pid)
            if wrapping is None:
                pipes.hand_over()
                signals.running(process.pid)
            returncode = _Relay(pipes, signals, output, alarm, say).until_end(process)
    finally:
        pipes.close()
    seconds = time.perf_counter() - started
    # Python's return code is -n where signal n ended the process.
    exit_status = SIGNAL_BASE - returncode if returncode < 0 else returncode
    return Ended(exit_status, seconds, output.size, bool(signals.received), alarm.has_rung)


class _Pipes:
    """The program's streams and the word of its process id, open here until it has them."""

    def __init__(self) -> None:
        try:
            is_same_file = os.path.sameopenfile(STDOUT, STDERR)
        except OSError:
            is_same_file = False
        self.out = os.pipe()
        # One pipe where both go to one place keeps their order.
        self.err = self.out if is_same_file else os.pipe()
        self.id = os.pipe()
        self.ended = os.pipe()
        self.streams = {self.out[0]: STDOUT} | ({} if is_same_file else {self.err[0]: STDERR})
        for pipe in (self.out, self.err):
            with contextlib.suppress(OSError):  # beyond the user's limit: slower, and no less right
                fcntl.fcntl(pipe[0], _F_SETPIPE_SZ, _CHUNK_BYTES)
        self.wake = os.pipe()
        self._ours = {self.out[1], self.err[1], self.id[1], self.ended[1]}
        self._all = {*self.out, *self.err, *self.id, *self.ended, *self.wake}

    def shell(self, *, stays: bool) -> str:
        """The line that makes these pipes the streams of what it becomes, or runs."""
        pipes = {"out": self.out, "err": self.err, "id": self.id, "ended": self.ended}
        paths = {name: f"/proc/{os.getpid()}/fd/{pipe[1]}" for name, pipe in pipes.items()}
        return (_SHELL_THAT_STAYS if stays else _SHELL).format(**paths)

    def status(self) -> int | None:
        """The program's exit status, where a shell has stayed to tell it."""
        word = os.read(self.ended[0], _CHUNK_BYTES)
        return int(word) if word else None

    def hand_over(self) -> None:
        """Close the write ends here: the pipes now end when the program's ends do."""
        while self._ours:
            descriptor = self._ours.pop()
            self._all.discard(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Close all that is still open."""
        for descriptor in self._all:
            os.close(descriptor)


def _start(
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    pipes: _Pipes,
    wrapping: Wrapping | None,
) -> subprocess.Popen[bytes]:
    if wrapping is None:
        command, streams = list(arguments), (pipes.out[1], pipes.err[1])
    else:
        line = pipes.shell(stays=wrapping.leaves)
        command = wrapping.command(("/bin/sh", "-c", line, "gpuprof", *arguments))
        streams = (wrapping.log.fileno(), wrapping.log.fileno())
    try:
        return subprocess.Popen(
            command,
            stdout=streams[0],
            stderr=streams[1],
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        msg = f"{command[0]} cannot be started: {error.strerror}"
        raise RecordError(msg) from error


class _Alarm:
    """Stops a program that has used up its time: as Ctrl-C would, and harder each time."""

    def __init__(self, signals: Signals, seconds: float | None) -> None:
        self._signals = signals
        self._seconds = seconds or 0
        self._next = None if seconds is None else time.monotonic() + seconds
        self.has_rung = False

    def seconds_left(self) -> float | None:
        """Until it rings; None for never."""
        return None if self._next is None else max(0, self._next - time.monotonic())

    def ring_if_due(self) -> None:
        """Stop the program if its time is over; its profiler gets as much again to save."""
        if self.seconds_left() != 0:
            return
        if self._signals.is_saving():
            self._next = None
            self._signals.limit(max(self._seconds, SAVING_SECONDS))
        else:
            self.has_rung = True
            self._next = time.monotonic() + _GRACE_SECONDS
            self._signals.handle(signal.SIGINT)


class _Relay:
    """Passes on output until the process has ended and its streams are drained."""

    def __init__(
        self,
        pipes: _Pipes,
        signals: Signals,
        output: ProgramOutput,
        alarm: _Alarm,
        say: Callable[[str], None],
    ) -> None:
        self._pipes = pipes
        self._say = say
        self._signals = signals
        self._output = output
        self._alarm = alarm
        self._selector = selectors.DefaultSelector()
        self._deadline: float | None = None
        self._lingering_bytes = 0
        self._has_ended = threading.Event()

    def until_end(self, process: subprocess.Popen[bytes]) -> int:
        """The return code of the process, once all that it printed is passed on."""
        for descriptor in self._pipes.streams:
            self._selector.register(descriptor, selectors.EVENT_READ, self._read)
        self._selector.register(self._pipes.id[0], selectors.EVENT_READ, self._hear)
        self._selector.register(self._pipes.wake[0], selectors.EVENT_READ, self._end)
        waiter = threading.Thread(target=self._wake_at_end, args=(process.pid,), daemon=True)
        waiter.start()
        with self._selector:
            while self._deadline is None or self._more():
                for key, _ in self._selector.select(self._patience()):
                    key.data(key.fd)
                if self._deadline is None:
                    self._alarm.ring_if_due()
        waiter.join()
        self._signals.ended()
        returncode, status = process.wait(), self._pipes.status()
        return returncode if status is None else status

    def _more(self) -> bool:
        """Whether bytes may still come after the process ended."""
        listening = any(d in self._selector.get_map() for d in self._pipes.streams)
        if not listening or self._lingering_bytes > _MOST_LINGERING_BYTES:
            return False
        return self._patience() != 0 or bool(self._selector.select(0))

    def _patience(self) -> float:
        if self._deadline is None:
            remaining_s = self._alarm.seconds_left()
            return (
                _LONGEST_WAIT_SECONDS
                if remaining_s is None
                else min(remaining_s, _LONGEST_WAIT_SECONDS)
            )
        return max(0, self._deadline - time.monotonic())

    def _wake_at_end(self, pid: int) -> None:
        # Not reaped here: as long as signals may be sent, its id must not become another's.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        # A profiler that has seen enough may leave before its program.
        program = self._signals.program
        if program is not None and program != pid:
            wait_for(program)
        self._has_ended.set()
        os.write(self._pipes.wake[1], b"!")

    def _read(self, descriptor: int) -> None:
        data = os.read(descriptor, _CHUNK_BYTES)
        if not data:
            self._selector.unregister(descriptor)
            return
        if self._deadline is not None:
            self._lingering_bytes += len(data)
        self._output.write(self._pipes.streams[descriptor], data)

    def _hear(self, descriptor: int) -> None:
        """The shell before the program says its process id, which the program inherits."""
        self._selector.unregister(descriptor)
        word = os.read(descriptor, _CHUNK_BYTES)
        self._pipes.hand_over()
        if word:
            self._signals.running(int(word))
            watching = threading.Thread(target=self._tell_who_is_awaited, args=(int(word),))
            watching.daemon = True
            watching.start()

    def _tell_who_is_awaited(self, program: int) -> None:
        """Say why a profiler goes on after the program's end."""
        wait_for(program)
        if self._has_ended.wait(_SILENT_SECONDS):
            return
        names = []
        for process in self._signals.left_behind():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                name = Path(f"/proc/{process}/comm").read_text(errors="replace").strip()
                names.append(f"{process} ({name})")
        if names:
            self._say(
                "The program has ended, and its profiler waits for what it has left running: "
                f"{', '.join(names)}; Ctrl-C stops it"
            )

    def _end(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._pipes.hand_over()
        self._deadline = time.monotonic() + _LINGER_SECONDS
