"""Recorders on a GPU: `python -m pytest -m gpu` wherever there is one.

Each program does a known number of things, so that counts and bytes are exact.
"""

import signal
from importlib.util import find_spec

import pytest
from recorded_runs import record, script, start

from gpuprof import read_profile
from gpuprof.launch.run.gpus import gpus

STEPS = 8
MIB = 1 << 20
PROGRAMS = {
    "torch": f"""
import torch

x, other, graph = torch.ones({MIB}).cuda(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
pinned, pageable = torch.ones({MIB}).pin_memory(), torch.ones({MIB} // 4)
torch.exp(x)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    torch.exp(x)
for _ in range({STEPS}):
    with torch.cuda.stream(other):
        pinned.cuda(non_blocking=True)
    y = torch.tanh(pageable.cuda())
    graph.replay()
    y.cpu()
torch.cuda.synchronize()
""",
    "jax": f"""
import jax
import numpy

step = jax.jit(lambda x: jax.numpy.tanh(x @ x).sum())
for _ in range({STEPS}):
    float(step(jax.device_put(numpy.ones((512, 512), numpy.float32))))
""",
    "cupy": f"""
import cupy
import numpy

for _ in range({STEPS}):
    cupy.tanh(cupy.asarray(numpy.ones((512, 512), numpy.float32))).get()
""",
}
COPIES = """
    SELECT memcpy_kind, src_memory_kind, dst_memory_kind, count(*) AS copies, sum(bytes) AS bytes
    FROM memcpys GROUP BY ALL ORDER BY ALL"""
KERNELS = "SELECT name, count(*) AS launches FROM kernels GROUP BY name ORDER BY name"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpus(), reason="no GPU here"),
    pytest.mark.usefixtures("in_an_empty_folder"),
]


def recorded(recorder, code, *options):
    completed = record(recorder, script(code), "--force", *options)
    assert completed.returncode == 0, completed.stderr
    return read_profile("run")


def answered(profile, question):
    return [tuple(row.values()) for row in profile.query(question).to_pylist()]


@pytest.mark.skipif(find_spec("cupti") is None, reason="cupti-python is not installed")
class TestCupti:
    @pytest.mark.torch
    def test_a_short_program_is_recorded_to_the_last_copy(self):
        profile = recorded("cupti", PROGRAMS["torch"])

        assert answered(profile, COPIES) == [
            ("DtoH", "device", "pageable", STEPS, STEPS * MIB),
            # And once what the graph works on.
            ("HtoD", "pageable", "device", STEPS + 1, STEPS * MIB + 4 * MIB),
            ("HtoD", "pinned", "device", STEPS, STEPS * 4 * MIB),
        ]
        counts = "SELECT count(*), count(graph_node_id) FROM kernels WHERE name LIKE '%{}%'"
        assert answered(profile, counts.format("tanh")) == [(STEPS, 0)]
        assert answered(profile, counts.format("exp")) == [(STEPS + 1, STEPS)]
        assert answered(profile, "SELECT count(DISTINCT stream_id) > 1 FROM memcpys") == [(True,)]

    @pytest.mark.parametrize(
        "framework",
        [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("torch", "jax")],
    )
    def test_it_sees_what_the_profiler_of_a_framework_sees(self, framework):
        seen = [
            (answered(profile, KERNELS), [row[3:] for row in answered(profile, COPIES)])
            for profile in (recorded(name, PROGRAMS[framework]) for name in ("cupti", framework))
        ]

        assert seen[0] == seen[1]

    @pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed")
    def test_a_program_without_a_framework_is_recorded(self):
        profile = recorded("cupti", PROGRAMS["cupy"])

        assert [row[3:] for row in answered(profile, COPIES)] == [(STEPS, STEPS * MIB)] * 2

    @pytest.mark.torch
    def test_memory_that_runs_out_ends_the_program_and_keeps_the_recording(self):
        code = PROGRAMS["torch"] + "torch.empty(1 << 50, device='cuda')\n"
        completed = record("cupti", script(code))

        assert completed.returncode == 1
        assert "OutOfMemoryError" in completed.stderr
        assert sum(row[3] for row in answered(read_profile("run"), COPIES)) == 3 * STEPS + 1

    @pytest.mark.torch
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_program_that_is_stopped_keeps_its_recording(self, number):
        code = PROGRAMS["torch"] + "import time\nprint('worked', flush=True)\ntime.sleep(60)\n"
        child = start("cupti", script(code))
        assert child.stdout.readline() == "worked\n"
        child.send_signal(number)
        child.communicate(timeout=60)

        assert sum(row[3] for row in answered(read_profile("run"), COPIES)) == 3 * STEPS + 1

    @pytest.mark.torch
    def test_a_killed_program_keeps_full_buffers(self):
        code = (
            "import os, time, torch\nx = torch.ones(8).cuda()\n"
            "for _ in range(100_000): x = torch.tanh(x)\n"
            "torch.cuda.synchronize()\ntime.sleep(2)\n"
            f"os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
        )
        completed = record("cupti", script(code))

        assert completed.returncode == 128 + signal.SIGKILL
        [(kernels,)] = answered(read_profile("run"), "SELECT count(*) FROM kernels")
        assert kernels > 50_000


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("torch", "jax")]
)
def test_the_profiler_of_a_framework_records_gpus(framework):
    profile = recorded(framework, PROGRAMS[framework])

    [(copies,)] = answered(profile, "SELECT count(*) FROM memcpys WHERE memcpy_kind = 'HtoD'")
    assert copies >= STEPS
