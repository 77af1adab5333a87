"""gpuprof with recorders that need no tool.

`plain` runs the program as it is; `wrapped` puts a profiler before it that talks on both
streams and has an exit status of its own.
"""

import time

from gpuprof import launch
from gpuprof.launch.contract import Recorded, Recorder

PROFILER = """
echo "profiler: starting $*"; echo "profiler: warming up" >&2
touch "$FOLDER/recorder.starting"; sleep "${PROFILER_STARTS:-0}"
"$@"
echo "profiler: program ended with $?" > "$FOLDER/recorder.said"
echo "profiler: 100 %"; sleep "${PROFILER_SLEEPS:-0}"
exit 9
"""
RECORDING = """==1== NVPROF is profiling process 1, command: ./a
==1== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.0000ms         3  1.0000ms  1.0000ms  1.0000ms  saxpy(float*)
                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy PtoP]
"""


def _nothing_in_the_way(_program):
    return None


def _finish(run, _ended):
    (run.folder / "plain.txt").write_text(RECORDING)
    return Recorded(recordings=("plain.txt",))


def _finish_wrapped(run, ended):
    said = run.folder / "recorder.said"
    status = int(said.read_text().split()[-1]) if said.exists() else None
    return Recorded(_finish(run, ended).recordings, status)


def _finish_slowly(run, ended):
    (run.folder / "recorder.finishing").touch()
    time.sleep(2)
    return _finish(run, ended)


def _finish_with_nothing(_run, _ended):
    return Recorded(nothing_recorded="empty recorded no GPU work: none was requested")


def _fails_the_first_time(run, words):
    tried = run.folder / "recorder.tried"
    return [*words] if tried.exists() else ["touch", str(tried)]


def _plain(name, finish, **more):
    return Recorder(name, "a recorder for tests", _nothing_in_the_way, finish, **more)


RECORDERS = (
    _plain("plain", _finish),
    _plain("slow", _finish_slowly),
    _plain("empty", _finish_with_nothing),
    _plain(
        "wrapped",
        _finish_wrapped,
        command=lambda _, words: ["/bin/sh", "-c", PROFILER, "profiler", *words],
        environment=lambda run: {"FOLDER": str(run.folder)},
    ),
    _plain(
        "flaky",
        _finish,
        command=_fails_the_first_time,
        retry=lambda _, ended: not ended.output_bytes,
    ),
)

recorders = launch.all_recorders()
launch.RECORDERS |= {recorder.name: "" for recorder in RECORDERS}
launch.all_recorders = lambda: [*recorders, *RECORDERS]

if __name__ == "__main__":
    from gpuprof.cli import main

    main()
