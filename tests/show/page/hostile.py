"""A recording whose every name tries to get out of the page."""

from pathlib import Path

from drawing import draw

from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

SCRIPT = "</script><script>window.hacked = true</script>"
IMAGE = "<img src=x onerror='window.hacked = true'>"
_ONE_TO_ZERO = {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0, "bytes": 4_096}


def recording(kernels=40):
    """Two devices, many kernels, copies of several kinds and sizes."""
    names = [SCRIPT, IMAGE, '"><b>bold', "x" * 2_000, "{{ 7 * 7 }}", "\x1b[31m\x00"]
    drawn = draw(
        kernels=[
            (n * 100, n * 100 + 60 + n % 7, {"name": names[n % len(names)] + str(n)})
            for n in range(kernels)
        ],
        memcpys=[
            *((n * 100, n * 100 + 30, {"bytes": 1 << n % 20}) for n in range(kernels)),
            *((n * 90, n * 90 + 50, _ONE_TO_ZERO) for n in range(kernels)),
        ],
        memsets=[(0, 10)],
    )
    origin = Origin(
        Path(f"{IMAGE}.sqlite"),
        "drawn",
        "by hand",
        command=f"./train {SCRIPT}",
        warnings=(f"the tool says {SCRIPT} and {IMAGE}",),
    )
    return Profile(origin, drawn.sources)
