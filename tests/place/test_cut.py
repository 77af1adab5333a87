"""The placement that copies least, beside all placements tried out and SciPy's maximum flow."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from step_graphs import graphs, step

from gpuprof.place.cut import fewest_bytes
from gpuprof.place.proposal import proposal_of
from gpuprof.place.step_graph import CONSTANT, GRADIENT


def of_all(graph, free):
    """The least bytes and copies of all placements whose units stay together."""
    movable = [u for u in set(graph.units) if set(np.flatnonzero(graph.units == u)) <= free]
    trials = []
    for devices in product(range(len(graph.devices)), repeat=len(movable)):
        place = graph.place.copy()
        for unit, device in zip(movable, devices, strict=True):
            place[graph.units == unit] = device
        trials.append(graph.copies(place))
    return min(trials)


def is_least(graph, free):
    """Whether nothing copies less, to a millionth of the largest tensor where that is large."""
    copies, least = graph.copies(fewest_bytes(graph, free)), of_all(graph, free)
    largest = max((tensor.bytes for tensor in graph.tensors), default=0)
    return copies == least if largest < 1 << 20 else copies.bytes <= least.bytes + largest / 10**6


def known(graph):
    return all(tensor.bytes is not None for tensor in graph.tensors)


class TestFewestBytes:
    def test_a_tensor_is_sent_once_to_each_device(self):
        graph = step([0, 1, 1, 2], [(0, (1, 2, 3), 100)])

        assert graph.copies() == (200, 0, 2)

    def test_a_constant_is_sent_only_where_it_was_recorded(self):
        graph = step([0, 1], [(0, (1,), 8)], op0={"role": CONSTANT})

        assert graph.copies() == (0, 0, 0)
        # A recording has them all the same, and `gpuprof report` counts them.
        assert graph.recorded_copies == (8, 0, 1)
        assert proposal_of(graph).today == graph.recorded_copies

    def test_what_may_move_goes_where_it_copies_least(self):
        graph = step([1, 0, 1], [(0, (1,), 100), (1, (2,), 10)])

        assert fewest_bytes(graph, {1}).tolist() == [1, 1, 1]

    def test_of_equal_bytes_what_stays_counts(self):
        graph = step([0, 1, 1], [(0, (1,), 10), (1, (2,), 10)])

        assert fewest_bytes(graph, {1}).tolist() == [0, 1, 1]

    def test_of_equal_bytes_fewer_copies_count(self):
        two = [(0, (3,), 5), (1, (3,), 5), (3, (2,), 10)]

        assert fewest_bytes(step([0, 0, 1, 1], two), {3}).tolist() == [0, 0, 1, 0]

    def test_gradients_of_a_tower_stay_together_where_that_costs_nothing(self):
        change = {"role": GRADIENT, "scope": "item"}
        graph = step(
            [0, 0, 0, 0, 1],
            [(0, (1,), 10), (1, (2,), 10), (2, (3,), 99), (4, (2, 3), 99)],
            **{f"op{n}": change for n in (1, 2, 3)},
        )

        assert fewest_bytes(graph, {1, 2, 3}).tolist() == [0, 1, 1, 1, 1]

    def test_what_must_run_with_what_stays_does_not_move(self):
        graph = step([0, 1, 1], [(1, (2,), 0), (0, (1,), 10)], together=[(1, 2)])

        assert fewest_bytes(graph, {1}).tolist() == [0, 1, 1]

    def test_nothing_moves_to_the_host_where_there_are_gpus(self):
        graph = replace(
            step([0, 1, 2], [(0, (1,), 100), (1, (2,), 10)]), devices=("CPU:0", "GPU:0", "GPU:1")
        )

        assert fewest_bytes(graph, {1}).tolist() == [0, 2, 2]
        assert graph.on_targets().place.tolist() == [0, 0, 1]

    @settings(max_examples=40, deadline=None)
    @given(graphs(), st.sets(st.integers(0, 6)))
    def test_it_is_the_least_of_all_placements_on_two_devices(self, graph, free):
        free = {n for n in free if n < len(graph.operations)}
        if not known(graph):
            return
        assert is_least(graph, free)

    @settings(max_examples=30, deadline=None)
    @given(graphs(most=6, devices=3))
    def test_it_is_the_least_of_all_placements_on_three_devices(self, graph):
        free = set(range(2, len(graph.operations)))
        if not known(graph):
            return
        assert is_least(graph, free)

    @settings(max_examples=40, deadline=None)
    @given(graphs(devices=3), st.sets(st.integers(0, 6)))
    def test_it_never_copies_more_than_today_nor_moves_what_must_stay(self, graph, free):
        free = {n for n in free if n < len(graph.operations)}
        place = fewest_bytes(graph, free)

        assert graph.copies(place).bytes <= graph.copies().bytes
        assert graph.copies(place).unknown <= graph.copies().unknown
        assert set(np.flatnonzero(place != graph.place)) <= free

    def test_sizes_beyond_32_bits_are_exact(self):
        size = (1 << 40) + 1
        graph = step([0, 1, 1], [(0, (1,), size), (1, (2,), size - 1)])

        assert fewest_bytes(graph, {1}).tolist() == [0, 0, 1]

    def test_it_is_the_maximum_flow_with_a_node_for_each_tensor(self):
        random = np.random.default_rng(3)
        count = 12
        tensors = [
            (n, tuple({*random.integers(n + 1, count, 2).tolist()}), int(random.integers(1, 99)))
            for n in range(count - 1)
        ]
        graph = step([0] + [0] * (count - 2) + [1], tensors)
        best = graph.copies(fewest_bytes(graph, set(range(1, count - 1)))).bytes

        # Sent to the second device: maker on the first, a taker on the second; and back.
        everything, nodes = 10_000, count + 2 * len(tensors)
        flow = np.zeros((nodes, nodes), np.int32)
        for number, (maker, takers, size) in enumerate(tensors):
            out, back = count + 2 * number, count + 2 * number + 1
            flow[maker, out] = flow[back, maker] = size
            for taker in takers:
                flow[out, taker] = flow[taker, back] = everything
        assert maximum_flow(csr_array(flow), 0, count - 1).flow_value == best


@pytest.mark.parametrize("free", [set(), {0, 1}])
def test_one_device_and_an_empty_graph_stay_as_they_are(free):
    assert fewest_bytes(step([0, 0], [(0, (1,), 8)]), free).tolist() == [0, 0]
