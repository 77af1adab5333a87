"""Estimated steps: known ones by hand, bounds of all others, and what is never proposed."""

import numpy as np
import pytest
from hypothesis import given, settings
from step_graphs import graphs, step

from gpuprof.base.errors import UsageError
from gpuprof.base.gpu_models import GpuModel
from gpuprof.place.proposal import candidates
from gpuprof.place.schedules import Search, fastest
from gpuprof.place.simulate import LAUNCH_S, GpuMachine, machine
from gpuprof.place.step_graph import crossings_of

# At half its peak a second for 1e9 operations, and for 1e9 bytes.
SLOW = GpuModel("slow", 2e9, 2e9, 10**12)
LINK = ("link", 0.5, 1e9)
PAIR = GpuMachine((SLOW, SLOW), *LINK)
SECOND = {"flops": 1e9}
HALF = 1


def seconds(graph, place=None, on=PAIR):
    search = Search(graph, on)
    return search.timed("", graph.place if place is None else np.array(place)).runs[HALF].seconds


class TestSimulated:
    def test_a_chain_on_one_device_takes_its_sum(self):
        graph = step([0, 0, 0], [(0, (1,), 8), (1, (2,), 8)], op0=SECOND, op1=SECOND, op2=SECOND)

        assert seconds(graph) == pytest.approx(3)

    def test_a_copy_takes_its_latency_and_its_bytes(self):
        graph = step([0, 1], [(0, (1,), 250_000_000)], op0=SECOND, op1=SECOND)

        # The bytes of one tensor take less time than the operations.
        assert seconds(graph) == pytest.approx(1 + 0.5 + 0.25 + 1)

    def test_a_tensor_that_two_take_is_copied_once(self):
        graph = step([0, 1, 1], [(0, (1, 2), 8)], op0=SECOND, op1=SECOND, op2=SECOND)
        run = Search(graph, PAIR).timed("", graph.place).runs[HALF]

        assert [span.src for span in run.spans].count(0) == 1
        assert run.seconds == pytest.approx(1 + 0.5 + 2)

    def test_what_does_not_wait_runs_at_the_same_time(self):
        assert seconds(step([0, 1], [], op0=SECOND, op1=SECOND)) == pytest.approx(1)

    def test_a_link_makes_one_copy_at_a_time(self):
        graph = step([0, 0, 1], [(0, (2,), 0), (1, (2,), 0)], op0={"flops": 0}, op2=SECOND)

        assert seconds(graph) == pytest.approx(0.5 + 0.5 + 1, abs=1e-3)

    def test_a_kernel_is_bound_by_its_launch_its_bytes_or_its_operations(self):
        launch = step([0], [])
        moving = step([0, 0], [(0, (1,), 10**9)], op0={"kind": "Tanh"}, op1={"kind": "Reshape"})

        assert seconds(launch) == LAUNCH_S
        assert seconds(moving) == pytest.approx(1)

    def test_memory_is_variables_and_tensors_until_they_are_taken(self):
        graph = step(
            [0, 0, 0, 1],
            [(0, (1,), 100), (1, (2,), 10), (2, (3,), 1)],
            op3={"bytes": 7, "role": "variable"},
        )
        run = Search(graph, PAIR).timed("", graph.place).runs[HALF]

        assert run.peak_bytes == (110, 7 + 1)

    def test_what_a_loop_hands_back_ends_the_estimate(self):
        assert Search(step([0, 0], [(0, (1,), 8), (1, (0,), 8)]), PAIR).work.has_loops

    @settings(max_examples=40, deadline=None)
    @given(graphs())
    def test_a_step_lies_between_its_longest_way_and_all_one_after_another(self, graph):
        search = Search(graph, PAIR)
        run = search.timed("", graph.place).runs[HALF]
        took = search.work.seconds(PAIR, 0.5)[:, 0]
        copies = sum(PAIR.copy_s(t.bytes or 0) for t, _ in crossings_of(graph.sent, graph.place))

        assert len([span for span in run.spans if span.src is None]) == len(graph.operations)
        assert took.max() - 1e-9 <= run.seconds <= took.sum() + copies + 1e-9


class TestProposed:
    def test_two_devices_where_the_work_is_apart(self):
        graph = step([0, 0], [], op0=SECOND, op1=SECOND)
        best = fastest(list(candidates(Search(graph, PAIR), graph.place)))

        assert (best.devices, best.seconds) == (2, pytest.approx(1))

    def test_one_device_where_each_operation_waits_for_the_one_before(self):
        graph = step([0, 1, 0], [(0, (1,), 8), (1, (2,), 8)], op0=SECOND, op1=SECOND, op2=SECOND)
        best = fastest(list(candidates(Search(graph, PAIR), graph.place)))

        assert (best.devices, best.name) == (1, "all on one slow")

    def test_what_does_not_fit_is_not_proposed(self):
        small = SLOW._replace(memory_bytes=150)
        graph = step(
            [0, 0, 0, 0],
            [(0, (1,), 8), (2, (3,), 8)],
            op0={"bytes": 100, "role": "variable"},
            op2={"bytes": 100, "role": "variable"},
        )
        both = fastest(
            list(candidates(Search(graph, GpuMachine((small, small), *LINK)), graph.place))
        )
        alone = fastest(list(candidates(Search(graph, GpuMachine((small,), *LINK)), graph.place)))

        assert sorted(both.place[[0, 2]]) == [0, 1]
        assert alone is None

    @settings(max_examples=25, deadline=None)
    @given(graphs())
    def test_more_devices_are_never_proposed_where_they_lose(self, graph):
        search = Search(graph, PAIR)
        best = fastest(list(candidates(search, graph.place)))
        for alone in search.alone():
            if best is not None and best.devices > 1 and alone.fits:
                pairs = zip(best.runs, alone.runs, strict=True)
                assert all(mine.seconds <= theirs.seconds for mine, theirs in pairs)

    @settings(max_examples=25, deadline=None)
    @given(graphs())
    def test_what_must_be_together_is_together(self, graph):
        for one in candidates(Search(graph, PAIR), graph.place):
            assert all(one.place[a] == one.place[b] for a, b in graph.together)


class TestMachine:
    @pytest.mark.parametrize(
        ("gpus", "link", "name"),
        [
            ("2xK80", "pcie3", "2 x K80 over pcie3"),
            ("K80, v100", "NVLink2", "1 x K80, 1 x V100 over nvlink2"),
            ("gtx1080ti", "4us,24GB/s", "1 x GTX1080Ti over 4us,24GB/s"),
        ],
    )
    def test_a_machine_is_read_from_its_name(self, gpus, link, name):
        assert machine(gpus, link).name == name

    def test_a_copy_through_the_host_takes_both_halves_over_pcie(self):
        staged, half = machine("K80", "staged"), machine("K80", "pcie3")

        assert staged.copy_s(0) == pytest.approx(3 * half.copy_s(0))
        assert staged.bytes_per_s == half.bytes_per_s / 2

    def test_a_link_in_numbers(self):
        assert machine("K80", "4us,24GB/s").copy_s(24_000) == pytest.approx(5e-6)

    @pytest.mark.parametrize(
        ("gpus", "link", "message", "hint"),
        [
            ("2xK8", "pcie3", "--gpus 2xK8: unknown GPU K8", "Did you mean K80?"),
            ("0xK80", "pcie3", "--gpus 0xK80: expected 1 to 16 GPUs", None),
            ("99999999999xK80", "pcie3", "--gpus 99999999999xK80: expected 1 to 16 GPUs", None),
            ("", "pcie3", "--gpus : unknown GPU ", None),
            ("K80", "4us", "there is no link 4us", None),
            ("K80", "4us,0GB/s", "there is no link 4us,0GB/s", None),
            ("K80", "x", "there is no link x", None),
        ],
    )
    def test_what_is_no_machine_is_refused(self, gpus, link, message, hint):
        with pytest.raises(UsageError) as error:
            machine(gpus, link)
        assert error.value.message == message
        assert hint is None or error.value.hint == hint
