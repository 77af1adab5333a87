"""A call, the operation that it launches 5 ns later, and another one, by hand."""

import numpy as np
import pytest

from gpuprof.native import replay_core

LAUNCH_NS, STREAM_NS = 5, 2


def swept(duration_ns, recorded_ns=(10, 20)):
    """The replay with other durations of the two operations."""
    first, second = recorded_ns
    time = np.array([0, 3, 5, 5 + first, 8 + first, 8 + first + second])
    items = replay_core.Items(1, 2, time, np.arange(3), 0)
    usual = np.zeros((3, 5), np.int64)
    usual[:2] = [[LAUNCH_NS], [STREAM_NS]]
    no_edge = np.empty(0, np.int64)

    def edges(durations):
        return replay_core.ReplayEdges(
            np.array([-1]), np.array([3]), np.array(durations), np.array([0, -1]),
            np.array([0, 1]), np.zeros(2, np.int8), *[no_edge] * 4, usual,
        )  # fmt: skip

    recorded, changed = edges(recorded_ns), edges(duration_ns)
    moved_ns, *lag = replay_core.replayed(items, recorded, changed, None, is_usual=False)
    return time + moved_ns, lag, replay_core.walk_back(items, changed, moved_ns, 5)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("longer_ns", [0, 90, 3_000_000_000])
def test_what_follows_comes_later_by_as_much_also_beyond_32_bits(
    longer_ns, is_compiled, monkeypatch
):
    if not is_compiled:
        monkeypatch.setattr(replay_core, "library", lambda: None)

    times, lag, (instants, kinds) = swept((10 + longer_ns, 20))

    assert times.tolist() == [0, 3, 5, 15 + longer_ns, 18 + longer_ns, 38 + longer_ns]
    # The second operation starts 3 ns after the first, of which streams take 2.
    assert lag == [1, 4]
    # Duration, stream, duration, launch, and the call's start, which waits for nothing.
    assert instants.tolist() == [5, 4, 3, 2, 0]
    assert kinds.tolist() == [0, 4, 0, 3, -1]


def test_times_beyond_64_bits_are_refused():
    with pytest.raises(OverflowError):
        swept((2**63 - 1, 2**62))
