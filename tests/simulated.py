"""Programs on simulated GPUs: what each does is drawn, and when it does it follows to the ns.

A clock visits events in the order of time. Threads of hosts are generators that yield how long they
take, in ns, or a `Done` that they wait for; so are operations, which wait for their launch, their
stream, its events, and the engine that copies or meets other ranks.
"""

from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace

import numpy as np
from recordings import copy, kernel, trace

US = 1_000
# As on recordings of V100 and A100: a launch call, from its start to an idle device, and between
# operations of a stream.
COLLECTIVE_NS = 12 * US
LAUNCH_NS, LATENCY_NS, GAP_NS, RETURN_NS = 5 * US, 9 * US, 1_200, 4 * US
# How long before the end of a copy from pageable memory its call returns.
STAGED_NS = 40 * US
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Done:
    """Something that others wait for."""

    def __init__(self):
        self.is_set, self.waiting = False, []


class Machine:
    """A clock, the ranks on it, and how much what they do varies.

    Args:
        seed: Of all that is drawn.
        varies: The deviation of each duration from its mean, as a share.
        pace: What all of them take of it: clocks of a device are not the same in each run.
    """

    def __init__(self, seed, varies=0.03, pace=1.0):
        self.now, self.numbers = 0, count(1)
        self.tables = defaultdict(list)
        # When the last kernel of each step ended.
        self.finished_ns = defaultdict(int)
        self._due, self._drawn = [], np.random.default_rng(seed)
        self._varies, self._pace = varies, pace
        self._arrived = defaultdict(lambda: SimpleNamespace(count=0, all=Done()))

    def drawn(self, mean_ns):
        """How long something takes this time."""
        return round(mean_ns * self._pace * self._drawn.lognormal(0, self._varies))

    def start(self, process):
        """Let a generator begin now."""
        heappush(self._due, (self.now, next(self.numbers), process))

    def done(self, event):
        """What was waited for has come."""
        event.is_set = True
        for process in event.waiting:
            self.start(process)

    def run(self, *processes):
        """Run until nothing is left to do."""
        for process in processes:
            self.start(process)
        while self._due:
            self.now, _, process = heappop(self._due)
            for wanted in process:
                if not isinstance(wanted, Done):
                    heappush(self._due, (self.now + wanted, next(self.numbers), process))
                    break
                if not wanted.is_set:
                    wanted.waiting.append(process)
                    break

    def meet(self, meeting):
        """Wait until all ranks of a collective have come; all else waits for none."""
        if meeting:
            name, ranks, _ = meeting
            here = self._arrived[name]
            here.count += 1
            if here.count == ranks:
                self.done(here.all)
            yield here.all

    def step_ns(self):
        """What a step takes: from the last kernel of the one before to its own, the median."""
        return int(np.median(np.diff([*self.finished_ns.values()])))

    def recording(self):
        """What a profiler would have recorded."""
        return trace(**self.tables)


class Rank:
    """A process with a device.

    Args:
        machine: Where it runs.
        number: The number of both.
        traits: ``apart_ns``, how far the clocks of each rank are ahead of those of the one before;
            ``host_apart_ns``, how far that of its host is ahead of that of its device; ``rate``,
            bytes per ns of copies; ``contention``, how much longer a kernel takes that begins while
            something is copied; and ``is_sized``, whether a framework tells sizes of collectives.
    """

    def __init__(self, machine, number, traits):
        self.machine, self.number, self.step = machine, number, 0
        self._apart_ns = number * traits.apart_ns
        self._host_ns = self._apart_ns + traits.host_apart_ns
        self._rate, self._contention = traits.rate, traits.contention
        self._is_sized = traits.is_sized
        self._last, self._engines, self._waits = {}, {}, defaultdict(list)

    def _record(self, table, row, since, shift_ns):
        times = {"start_ns": since + shift_ns, "end_ns": self.machine.now + shift_ns}
        self.machine.tables[table].append(row | times)

    def _called(self, name, since, number, thread=1):
        row = {"name": name, "process_id": self.number, "thread_id": thread}
        self._record("api_calls", row | {"correlation_id": number}, since, self._host_ns)

    def work(self, mean_ns, name=None, thread=1):
        """The host works, perhaps in a range."""
        since = self.machine.now
        yield self.machine.drawn(mean_ns)
        if name:
            self.marked(name, since, thread)

    def marked(self, name, since, thread=1):
        """A range that began earlier ends now."""
        row = {"text": name, "process_id": self.number, "thread_id": thread}
        self._record("nvtx_ranges", row | {"range_kind": "push_pop"}, since, self._host_ns)

    def _operation(self, table, row, took_ns, **how):
        """Enqueue an operation on its stream; returns what is done when it ends.

        Its ``engine`` does one after another, its ``meeting`` is of all ranks, and first faults on
        managed memory are handled for ``stalled_ns``.
        """
        machine, done, step = self.machine, Done(), self.step
        engine, meeting, stalled_ns = map(how.get, ("engine", "meeting", "stalled_ns"))
        stream = row["stream_id"]
        before, self._last[stream] = self._last.get(stream), done
        waits, self._waits[stream] = self._waits[stream], []

        def operation() -> Iterator[int | Done]:
            yield machine.drawn(LATENCY_NS)
            for earlier in (before, *waits):
                if earlier and not earlier.is_set:
                    yield earlier
                    yield machine.drawn(GAP_NS)
            while (busy := self._engines.get(engine)) and not busy.is_set:
                yield busy
            if engine:
                self._engines[engine] = done
            since = machine.now
            yield from machine.meet(meeting)
            yield from self._fault(stalled_ns)
            yield self._contended_ns(took_ns, engine)
            its = {"process_id": self.number, "device_id": self.number, "context_id": 1}
            self._record(table, row | its, since, self._apart_ns)
            self._told(row | its, meeting, since)
            if table == "kernels":
                machine.finished_ns[step] = machine.now
            machine.done(done)

        machine.start(operation())
        return done

    def _fault(self, mean_ns):
        """Handle page faults: other blocks of the kernel go on for a part of that time."""
        if not mean_ns:
            return
        stalled_ns = self.machine.drawn(mean_ns)
        since, place = self.machine.now, {"process_id": self.number, "device_id": self.number}
        yield stalled_ns
        self._record(
            "page_faults", {"processor": "gpu", "faults": 9} | place, since, self._apart_ns
        )
        moved = copy("UVM_HtoD", 0, 0, bytes=stalled_ns * self._rate, context_id=1)
        self._record("memcpys", moved | place, since + stalled_ns // 3, self._apart_ns)

    def _contended_ns(self, took_ns, engine):
        is_copying = any(not copied.is_set for copied in self._engines.values())
        return round(took_ns * (1 + self._contention * (is_copying and not engine)))

    def launch(self, name, mean_ns, stream=7, *, is_free=False, stalled_ns=0):
        """A kernel, and the call that launches it, or none within a graph."""
        row, took_ns = kernel(name, 0, 0, stream_id=stream), self.machine.drawn(mean_ns)
        if is_free:
            self._operation("kernels", row, took_ns)
        else:
            how = {"stalled_ns": stalled_ns}
            yield from self._launched("cudaLaunchKernel", "kernels", row, took_ns, **how)

    def _launched(self, call, table, row, took_ns, **how):
        since, number = self.machine.now, next(self.machine.numbers)
        done = self._operation(table, row | {"correlation_id": number}, took_ns, **how)
        yield self.machine.drawn(LAUNCH_NS)
        if row.get("src_memory_kind") == "pageable":
            # The driver copies the rest of large ones from memory of its own.
            yield max(took_ns - STAGED_NS, 0) if took_ns > 2 * STAGED_NS else done
            yield self.machine.drawn(RETURN_NS)
        self._called(call, since, number)

    def copy(self, kind, size, stream=7, memory="pinned"):
        """A copy to the device, or on it; its call returns after it if the memory is pageable."""
        local = kind == "DtoD"
        row = copy(kind, 0, 0, bytes=size, stream_id=stream, dst_memory_kind="device")
        row["src_memory_kind"] = "device" if local else memory
        rate = self._rate * (50 if local else 1 / 3 if memory == "pageable" else 1)
        took_ns = self.machine.drawn(2 * US + size / rate)
        yield from self._launched("cudaMemcpyAsync", "memcpys", row, took_ns, engine=kind)

    def collective(self, size, meeting, stream=20):
        """An AllReduce: it ends on all ranks together, one transfer after the last arrived."""
        transfer_ns = round(COLLECTIVE_NS + size / 20)
        row = kernel(NCCL, 0, 0, stream_id=stream)
        yield from self._launched(
            "cudaLaunchKernelExC", "kernels", row, transfer_ns, meeting=(*meeting, size)
        )

    def _told(self, row, meeting, since):
        """What a framework tells of a collective, if it does."""
        if meeting and self._is_sized:
            size = meeting[2]
            told = {"collective": "allreduce", "kernel": NCCL, "bytes_in": size, "bytes_out": size}
            place = {name: row[name] for name in ("stream_id", "process_id", "device_id")}
            self._record("collectives", told | place, since, self._apart_ns)

    def wait(self, waiting, source):
        """A stream waits for what another one was given so far (an event)."""
        machine, since, number = self.machine, self.machine.now, next(self.machine.numbers)
        self._waits[waiting].append(self._last.get(source))
        yield machine.drawn(LAUNCH_NS / 4)
        row = {"sync_kind": "stream_wait", "event_id": number, "stream_id": waiting}
        row |= {"src_device_id": self.number, "src_stream_id": source}
        self._synchronised(row, "cudaStreamWaitEvent", since, number)

    def synchronise(self, stream=None):
        """The host waits for a stream, or for all of them."""
        machine, since, number = self.machine, self.machine.now, next(self.machine.numbers)
        for of, last in list(self._last.items()):
            if stream in {None, of}:
                yield last
        yield machine.drawn(RETURN_NS)
        of_device = stream is None
        row = (
            {"sync_kind": "context"} if of_device else {"sync_kind": "stream", "stream_id": stream}
        )
        name = "cudaDeviceSynchronize" if of_device else "cudaStreamSynchronize"
        self._synchronised(row, name, since, number)

    def _synchronised(self, row, name, since, number):
        row |= {"process_id": self.number, "device_id": self.number, "context_id": 1}
        row["correlation_id"] = number
        self._record("synchronizations", row, since, self._host_ns)
        self._called(name, since, number)
