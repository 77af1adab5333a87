"""What to record next where a recording lacks the work of the host."""

from typing import Final

from gpuprof.model.profile import Profile

_PYTORCH, _TENSORFLOW = "kineto", "xplane"
_CALLS: Final = {
    _PYTORCH: "ProfilerActivity.CPU beside ProfilerActivity.CUDA",
    _TENSORFLOW: "host_tracer_level=2",
    "": "nsys profile --trace=cuda,nvtx,osrt",
}
_OWN_WORK: Final = {
    _PYTORCH: "torch.profiler.profile(with_stack=True)",
    _TENSORFLOW: "host_tracer_level=3, python_tracer_level=1",
    "": "nsys profile --trace=cuda,nvtx,osrt --sample=process-tree",
}


def how_to_record_calls(profile: Profile) -> str:
    """The option that records the calls of the host, which this recording lacks."""
    return _CALLS.get(profile.origin.reader, _CALLS[""])


def how_to_record_host(profile: Profile) -> str:
    """The option that records what the host does between its calls."""
    return _OWN_WORK.get(profile.origin.reader, _OWN_WORK[""])
