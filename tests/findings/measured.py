"""Where a finding is measured in a recording drawn by hand."""

import numpy as np

from gpuprof.facts.timeline import timeline_of
from gpuprof.findings.scope import Scope


def scope_of(profile, steps=(), device=0):
    """A device in some steps, given as start and end; in all that it did where there are none."""
    timeline = timeline_of(profile, device)
    start, end = np.array(steps or [(timeline.span.start[0], timeline.span.end[-1])], np.int64).T
    return Scope(profile, timeline, "step #" if steps else "", start, end, len(start))
