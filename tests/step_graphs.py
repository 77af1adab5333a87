"""Graphs of training steps, made by hand and drawn at random."""

from hypothesis import strategies as st

from gpuprof.place.step_graph import (
    FORWARD,
    GRADIENT,
    INPUT,
    VARIABLE,
    Operation,
    StepGraph,
    Tensor,
)

ROLES = (INPUT, VARIABLE, FORWARD, GRADIENT)


def step(devices, tensors, together=(), **changes):
    """A graph of operations on the devices of these numbers; tensors: maker, takers, bytes."""
    operations = [Operation(f"op{n}", "MatMul", FORWARD, "", d) for n, d in enumerate(devices)]
    for number, change in changes.items():
        place = int(number.removeprefix("op"))
        operations[place] = operations[place]._replace(**change)
    names = tuple(f"GPU:{n}" for n in range(max(devices) + 1))
    made = tuple(Tensor(maker, tuple(takers), size) for maker, takers, size in tensors)
    return StepGraph(tuple(operations), made, tuple(together), names)


@st.composite
def graphs(draw, most=7, devices=2):
    """Small graphs without loops, some of whose sizes may be unknown or beyond 32 bits."""
    count = draw(st.integers(2, most))
    places = draw(st.lists(st.integers(0, devices - 1), min_size=count, max_size=count))
    sizes = st.one_of(st.none(), st.integers(0, 40), st.integers(1 << 33, 1 << 40))
    operations = []
    for number, device in enumerate(places):
        role = draw(st.sampled_from(ROLES))
        flops = draw(st.one_of(st.none(), st.integers(0, 10**11)))
        kind = draw(st.sampled_from(("MatMul", "Reshape", "Tanh")))
        scope = draw(st.sampled_from(("", "user", "item/dense")))
        operations.append(Operation(f"op{number}", kind, role, scope, device, flops))
    tensors = []
    for maker in range(count - 1):
        takers = draw(st.sets(st.integers(maker + 1, count - 1), max_size=3))
        if takers:
            tensors.append(Tensor(maker, tuple(sorted(takers)), draw(sizes)))
    ends = st.integers(0, count - 1)
    together = draw(st.lists(st.tuples(ends, ends), max_size=1))
    for first, second in together:
        operations[second] = operations[second]._replace(device=operations[first].device)
    names = tuple(f"GPU:{n}" for n in range(devices))
    return StepGraph(tuple(operations), tuple(tensors), tuple(together), names)
