"""The changes of ``--what``: each gives edges other times, or removes or adds edges."""

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.units import say_ns
from gpuprof.model.profile import Profile
from gpuprof.predict.build import graph_of
from gpuprof.predict.collective_changes import balance, merge
from gpuprof.predict.graph import holds
from gpuprof.predict.host_changes import drop_host, no_launch_cost
from gpuprof.predict.link_models import with_link
from gpuprof.predict.operation_changes import faults, gpu, hide, scale, streams
from gpuprof.predict.replay import Changed
from gpuprof.predict.selected import calls_of, calls_within, named, without

_LINK: Final = re.compile(r"link(?:\[(.+)\])?=(.+)")
# Changes that leave open what something takes: the range is from their slow to their fast times.
OPEN: Final = ("link", "merge=", "faults=", "gpu=")


def apply(profile: Profile, changes: Sequence[str], bound: int) -> Changed:
    """Apply changes to the graph of a recording, one after the other.

    Args:
        profile: The recording.
        changes: As given with ``--what``.
        bound: `USUAL`, `SLOW` or `FAST` links.

    Raises:
        UsageError: A change is unknown, or matches nothing.
    """
    graph = graph_of(profile)
    changed = Changed(graph, graph.weights, bound)
    for text in changes:
        name, _, value = text.partition("=")
        if (link := _LINK.fullmatch(text)) is not None:
            changed = with_link(changed, link[1], link[2])
        elif name in _WITH_VALUE and value:
            changed = _WITH_VALUE[name](profile, changed, value)
        elif text in _ALONE:
            changed = _ALONE[text](profile, changed)
        else:
            msg = f"there is no change {text}"
            raise UsageError(msg, "See `gpuprof predict --help` for the list of changes.")
    return changed


def _drop(profile: Profile, changed: Changed, text: str) -> Changed:
    graph = changed.graph
    o = graph.operations
    is_within = calls_within(profile, graph, text)
    pattern, _, name = text.rpartition("@")
    if is_within.any():
        chosen = holds(is_within, o.call)
    elif pattern and (is_inside := calls_within(profile, graph, name)).any():
        # Only these of a range: its calls that launch other work stay.
        chosen = named(o, pattern) & holds(is_inside, o.call)
        if not chosen.any():
            msg = f"{name} launches no kernel or copy that matches {pattern}"
            raise UsageError(msg, "See gpuprof report --table ranges for what ranges launch.")
    else:
        chosen = named(o, text)
    is_gone = is_within | calls_of(graph, chosen)
    changed = without(changed, chosen, is_gone)
    words = (
        f"operations of {text} ({chosen.sum():,}) and their calls ({is_gone.sum():,}) are removed"
    )
    first_ns = int(o.start_ns.min())
    later_ns = int(o.start_ns.min(where=~chosen, initial=np.iinfo(np.int64).max)) - first_ns
    if later_ns and not chosen.all():
        words += f"; the recording begins {say_ns(later_ns)} later, with the first one that is left"
    return changed.saying(f"{words}; operations that use their results take as long as before")


_WITH_VALUE: Final[dict[str, Callable[[Profile, Changed, str], Changed]]] = {
    "hide": hide,
    "drop": _drop,
    "drop-host": drop_host,
    "merge": merge,
    "faults": faults,
    "gpu": gpu,
    "scale": scale,
    "streams": streams,
}
_ALONE: Final[dict[str, Callable[[Profile, Changed], Changed]]] = {
    "balance": balance,
    "no-launch-cost": no_launch_cost,
}
