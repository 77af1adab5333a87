"""Draw the recordings of the documentation.

Nobody ran this program: its times are invented. Two GPUs train one model, each on half of a
batch whose length varies, and exchange as many bytes after the backward pass. In
``direct.gpuprof`` these go over a link of 40 GB/s, in ``staged.gpuprof`` through the host.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from arguments import Parser

from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

FOLDER: Final = Path(__file__).parent.parent / "gpuprof" / "docs" / "recordings"
NAMES: Final = ("direct", "staged")
STEPS: Final = 40
LAYERS: Final = 6
DEVICES: Final = (0, 1)
# Of the calls on the host, from a call to its work, and between two activities of a stream.
CALL_NS: Final = 5_000
LAUNCH_NS: Final = 6_000
GAP_NS: Final = 1_500
# A copy takes this and its bytes over the rate of its way.
COPY_NS: Final = 3_000
BYTES_PER_US: Final = {"PtoP": 40_000, "HtoD": 12_000, "DtoH": 12_000}
MEMORIES: Final = {
    "PtoP": {"src_memory_kind": "device", "dst_memory_kind": "device"},
    "HtoD": {"src_memory_kind": "pinned", "dst_memory_kind": "device"},
    "DtoH": {"src_memory_kind": "device", "dst_memory_kind": "pinned"},
}
THREAD: Final = {"process_id": 1, "thread_id": 1}


class Call(NamedTuple):
    """A call on the host: when it began, and its correlation id."""

    start_ns: int
    number: int


class Drawing:
    """Draws activities one after another, in the order in which one thread launches them."""

    def __init__(self, *, is_staged: bool) -> None:
        self.is_staged = is_staged
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("kernels", "memcpys", "memsets", "api_calls", "nvtx_ranges")
        }
        self.now_ns = 1_000_000
        self.free_ns = dict.fromkeys(DEVICES, 0)
        self.dice = random.Random(7)  # noqa: S311 - the same recording each time
        self.lengths = random.Random(3)  # noqa: S311

    def step(self, number: int) -> None:
        """One training step, in an NVTX range."""
        start_ns, length = self.now_ns, self.lengths.uniform(0.95, 1.05)
        for device in DEVICES:
            self.copy(self.call("cudaMemcpyAsync"), "HtoD", device, round(1_000_000 * length))
        for layer in (*range(LAYERS), *reversed(range(LAYERS, 2 * LAYERS))):
            name = "forward_kernel" if layer < LAYERS else "backward_kernel"
            for device in DEVICES:
                self.kernel(name, device, 140_000 + 20_000 * layer)
        for src, dst in (DEVICES, DEVICES[::-1]):
            self.exchange(src, dst, round(4_000_000 * length))
        for device in DEVICES:
            self.kernel("update_kernel", device, 60_000)
        for device in DEVICES:
            self.call("cudaStreamSynchronize", self.free_ns[device] + CALL_NS)
        times = {"start_ns": start_ns, "end_ns": self.now_ns}
        text = {"text": f"step {number}", "domain": "", "range_kind": "push_pop"}
        self.tables["nvtx_ranges"].append(times | text | THREAD)

    def call(self, name: str, until_ns: int = 0) -> Call:
        """A call on the host, which waits until a time."""
        call = Call(self.now_ns, len(self.tables["api_calls"]) + 1)
        end_ns = max(self.now_ns + self.about(CALL_NS), until_ns)
        row = {"api": "runtime", "name": name, "correlation_id": call.number}
        times = {"start_ns": call.start_ns, "end_ns": end_ns}
        self.tables["api_calls"].append(row | times | THREAD)
        self.now_ns = end_ns + self.about(1_000)
        return call

    def kernel(self, name: str, device: int, duration_ns: int) -> None:
        """A kernel on the stream of a device."""
        call = self.call("cudaLaunchKernel")
        self.tables["kernels"].append({"name": name} | self.activity(call, device, duration_ns))

    def exchange(self, src: int, dst: int, size: int) -> None:
        """A copy between the devices, which waits for both and blocks both."""
        call = self.call("cudaMemcpyPeerAsync")
        ends = {"src_device_id": src, "dst_device_id": dst}
        self.free_ns[src] = self.free_ns[dst] = max(self.free_ns.values())
        if self.is_staged:
            ends["path"] = "staged"
            self.copy(call, "DtoH", src, size, ends)
            self.free_ns[dst] = self.free_ns[src] + LAUNCH_NS
            self.copy(call, "HtoD", dst, size, ends)
        else:
            self.copy(call, "PtoP", src, size, ends)
        self.free_ns[src] = self.free_ns[dst] = max(self.free_ns.values())

    def copy(
        self, call: Call, kind: str, device: int, size: int, ends: dict[str, Any] | None = None
    ) -> None:
        """A copy, or half of one, on the stream of a device."""
        duration_ns = COPY_NS + size * 1_000 // BYTES_PER_US[kind]
        row = {"memcpy_kind": kind, "bytes": size} | MEMORIES[kind] | (ends or {})
        self.tables["memcpys"].append(row | self.activity(call, device, duration_ns))

    def activity(self, call: Call, device: int, duration_ns: int) -> dict[str, int]:
        """Place and times of what a call launched: after all before it on the stream."""
        start_ns = max(call.start_ns + self.about(LAUNCH_NS), self.free_ns[device] + GAP_NS)
        self.free_ns[device] = start_ns + self.about(duration_ns)
        times = {"start_ns": start_ns, "end_ns": self.free_ns[device]}
        place = {"device_id": device, "context_id": device + 1, "stream_id": 7, "process_id": 1}
        return times | place | {"correlation_id": call.number}

    def about(self, nanoseconds: int) -> int:
        """A time within 1 % of another."""
        return round(nanoseconds * self.dice.uniform(0.99, 1.01))


def recording(name: str) -> Profile:
    """The drawn recording of a name."""
    drawing = Drawing(is_staged=name == "staged")
    for number in range(STEPS):
        drawing.step(number)
    tables = {
        table: data_model.BY_NAME[table].table(rows) for table, rows in drawing.tables.items()
    }
    return Profile(Origin(Path(name), "drawn", "drawn by scripts/draw_recordings.py"), tables)


def main(words: Sequence[str] | None = None) -> None:
    """Write both recordings into the folder of the documentation, or into another."""
    parser = Parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: %(default)s")
    folder = parser.parse_args(words).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        write(recording(name), folder / f"{name}.gpuprof")


if __name__ == "__main__":
    main()
