"""A program that is drawn step by step, for tests of how steps are found."""

from drawing import draw


class Program:
    """A program that is drawn step by step; the GPU does at once what is launched."""

    def __init__(self):
        self.at = 1000
        self.tables = {name: [] for name in ("kernels", "api_calls", "nvtx_ranges")}

    def kernel(self, ns, name="matmul", device=0, pause=0):
        """A kernel after what was launched before, and its call."""
        start = self.at + pause
        number = {"correlation_id": len(self.tables["kernels"])}
        self.tables["api_calls"].append((start, start + 1, number))
        self.tables["kernels"].append(
            (start, start + ns, number | {"name": name, "device_id": device})
        )
        self.at = start + ns

    def ranged(self, text, since):
        self.tables["nvtx_ranges"].append((since, self.at, {"text": text}))

    def steps(self, lengths, names=("gemm", "relu"), devices=(0,), text="step {}"):
        """Steps that follow one another, in a range each where a text is given."""
        for number, ns in enumerate(lengths):
            since = self.at
            for name in names:
                start = self.at
                for device in devices:
                    self.at = start
                    self.kernel(int(ns) // len(names), name, device)
            if text:
                self.ranged(text.format(number), since)
        return self

    def profile(self):
        return draw(**self.tables)
