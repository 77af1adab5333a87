"""The nodes of drawn recordings in which nothing need make sense."""

import numpy as np
from hypothesis import given
from test_replay import CALLS, OPERATIONS, SMALL, scrambled

from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.predict.build import graph_of
from gpuprof.predict.nodes import CALL, OPERATION, WAIT, WORK, ranks_of


@SMALL
@given(OPERATIONS, CALLS)
def test_nodes_wait_for_earlier_ones_only(operations, calls):
    for nodes in ranks_of(graph_of(scrambled(operations, calls))).nodes:
        waiting = np.repeat(np.arange(len(nodes.item)), np.diff(nodes.bounds))

        assert (nodes.waits_for < waiting).all()
        assert (nodes.duration_ns >= 0).all()
        assert (nodes.start_ns >= 0).all()


@SMALL
@given(OPERATIONS, CALLS)
def test_each_operation_is_on_its_device_and_a_message_on_both(operations, calls):
    graph = graph_of(scrambled(operations, calls))
    ranks, o = ranks_of(graph), graph.operations

    for number, (device, nodes) in enumerate(zip(ranks.devices, ranks.nodes, strict=True)):
        of_rank = nodes.item[nodes.kind == OPERATION] - len(graph.calls)
        is_message = ranks.message != NOT_FOUND
        is_end = (ranks.sender == number) | (ranks.receiver == number)
        expected = np.flatnonzero(np.where(is_message, is_end, o.device == device))
        assert sorted(of_rank.tolist()) == expected.tolist()


@SMALL
@given(OPERATIONS, CALLS)
def test_a_call_comes_after_the_work_before_it_and_before_its_wait(operations, calls):
    for nodes in ranks_of(graph_of(scrambled(operations, calls))).nodes:
        before = [set(part) for part in np.split(nodes.waits_for, nodes.bounds[1:-1])]
        numbers = enumerate(nodes.item.tolist())
        call = {item: number for number, item in numbers if nodes.kind[number] == CALL}
        for number, (kind, item) in enumerate(zip(nodes.kind, nodes.item.tolist(), strict=True)):
            if kind == WORK:
                assert number in before[call[item]]
            elif kind == WAIT:
                assert call[item] in before[number]
                assert len(before[number]) > 1
