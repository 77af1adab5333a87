"""Drawn jobs of several ranks, whose collectives wait for a rank that is known."""

import random

from drawing import draw

US = 1_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"
GEMM = "gemm<128>(float*)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)"


class Job:
    """A job of ranks that step together, each on a device of its own.

    In every step a rank computes, then idles, and then enters a collective; this ends on all of
    them, give or take two microseconds, when the last has entered it and the data has moved.

    Args:
        late: What keeps rank 2 in every step: host, kernels, work or copies; None for nothing.
        late_steps: The steps in which it does; None for all.
    """

    def __init__(self, ranks, steps, seed=0, names=(REDUCE, GATHER), *, late=None, late_steps=None):  # noqa: PLR0913 - by name
        dice = random.Random(seed)  # noqa: S311 - not for secrets
        self.kernels, self.copies, self.calls = [], [], []
        now = [dice.randrange(50 * US) for _ in range(ranks)]
        for step in range(steps):
            for rank in range(ranks):
                is_late = rank == 2 and (late_steps is None or step in late_steps)
                now[rank] = self._before(rank, now[rank], late if is_late else None, dice)
            start, moved = [*now], dice.randrange(40 * US, 60 * US)
            ends = [max(start) + moved + dice.randrange(2 * US) for _ in range(ranks)]
            self.calls.append((names[step % len(names)], start, ends))
            now = [end + dice.randrange(US, 4 * US) for end in ends]

    def _before(self, rank, now, late, dice):
        """What a rank does before a collective; returns when it enters."""
        copied = now + (800 if late == "copies" else 100) * US
        self.copies.append((now, copied, {"device_id": rank, "bytes": 1000}))
        now = copied
        for _ in range(3 if late == "work" else 2):
            took = dice.randrange(200 * US, 210 * US) * (148 if late == "kernels" else 100) // 100
            self.kernels.append((now, now + took, {"device_id": rank, "name": GEMM}))
            now += took
        return now + (900 * US if late == "host" else dice.randrange(60 * US))

    def executions(self, late_ns=(), cut=(), stream=20):
        """The kernels of communication: of ranks with other clocks, or without some calls."""
        for number, (name, starts, ends) in enumerate(self.calls):
            for rank, (start, end) in enumerate(zip(starts, ends, strict=True)):
                if (rank, number) not in cut:
                    by = dict(late_ns).get(rank, 0)
                    place = {"device_id": rank, "stream_id": stream, "name": name}
                    yield start + by, end + by, place

    def drawn(self, **changes):
        return draw(kernels=[*self.kernels, *self.executions(**changes)], memcpys=self.copies)

    def answer(self, rank, name):
        """Transfer, waiting and share of calls to which a rank came last, of one collective."""
        transfer = waiting = last = calls = 0
        for _, starts, ends in (call for call in self.calls if call[0] == name):
            took = [end - start for start, end in zip(starts, ends, strict=True)]
            transfer, waiting = transfer + min(took), waiting + took[rank] - min(took)
            calls, last = calls + 1, last + (starts[rank] == max(starts))
        return transfer, waiting, last / calls, "ranks"
