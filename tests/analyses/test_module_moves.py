"""What is no longer copied between devices if a module runs on another one."""

import pytest
from drawing import draw

from gpuprof.analyses.module_moves import module_moves

US = 1_000
PYTHON = {"library": "python", "process_id": 100, "thread_id": 1}


def model(*modules, steps=4, has_modules=True, around=""):
    """A model whose modules run one after the other, each of them a kernel of 100 us.

    Args:
        modules: Name and device; what another device made is copied first, 1 MB in 20 us.
        steps: How often.
        has_modules: Whether calls of Python were recorded.
        around: Name of the module that runs another one, which does all its work.
    """
    kernels, copies, calls, ranges, python, at, number = [], [], [], [], [], 0, 0
    for step in range(steps):
        begin, before = at, modules[0][1]
        for name, device in modules:
            python.append((at, at + 150 * US, PYTHON | {"name": f"nn.Module: {name}"}))
            if name == around:
                inner = PYTHON | {"name": "nn.Module: Inner_0"}
                python.append((at + 1_000, at + 149 * US, inner))
            ends = {"src_device_id": before, "dst_device_id": device, "bytes": 1_000_000}
            work = [(kernels, 20, 120, {"device_id": device})]
            if device != before:
                copy = ends | {"device_id": before, "memcpy_kind": "PtoP"}
                work.insert(0, (copies, 0, 20, copy))
            for table, start, end, row in work:
                number += 1
                of_call = {"correlation_id": number}
                table.append((at + (start + 10) * US, at + (end + 10) * US, row | of_call))
                calls.append((at + (start + 1) * US, at + (start + 2) * US, of_call))
            before, at = device, at + 150 * US
        ranges.append((begin, at, {"text": f"step {step}"}))
        python.append((begin, at, PYTHON | {"name": "nn.Module: Net_0"}))
        at += 50 * US
    return draw(
        kernels=kernels,
        memcpys=copies,
        api_calls=calls,
        nvtx_ranges=ranges,
        host_calls=python if has_modules else [],
    )


def told(profile):
    names = ("device_id", "target_device_id", "copies_per_step", "bytes_per_step", "is_enclosed")
    return {
        row["program_part"].removeprefix("step */Net_0/"): tuple(row[name] for name in names)
        for row in module_moves(profile).to_pylist()
    }


def test_a_module_between_two_of_another_device_moves_with_both_copies():
    profile = model(("Linear_0", 0), ("Block_1", 1), ("Linear_2", 0))

    assert told(profile)["Block_1"] == (1, 0, 2, 2_000_000, True)
    row = module_moves(profile).to_pylist()[0]
    assert (row["program_part"], row["steps"]) == ("step */Net_0/Block_1", 4)
    assert (row["kernel_ns_per_step"], row["exposed_ns_per_step"]) == (100 * US, 40 * US)
    assert row["suggestion"] == (
        "run Block_1 on device 0 (device_map): 2 copies of 2.000 MB a step less"
    )


def test_a_module_within_another_one_of_its_device_moves_with_that():
    found = told(model(("Linear_0", 0), ("Block_1", 1), ("Linear_2", 0), around="Block_1"))

    assert found["Block_1"] == (1, 0, 2, 2_000_000, True)
    assert not [part for part in found if "Inner" in part]


def test_at_the_only_border_of_two_devices_a_copy_takes_the_place_of_another():
    found = told(model(("A_0", 0), ("B_1", 0), ("C_2", 1), ("D_3", 1)))

    assert found["C_2"] == (1, 0, 1, 1_000_000, False)
    assert found["B_1"] == (0, 1, 1, 1_000_000, False)
    assert "A_0" not in found
    assert "D_3" not in found


def test_the_last_module_alone_on_its_device_moves_with_its_copy():
    assert told(model(("A_0", 0), ("Head_1", 1)))["Head_1"] == (1, 0, 1, 1_000_000, True)


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(draw(api_calls=[], nvtx_ranges=[]), id="empty"),
        pytest.param(model(("A_0", 0), ("B_1", 0)), id="one-device"),
        pytest.param(model(("A_0", 0), ("B_1", 1), steps=2), id="too-few-steps"),
        pytest.param(model(("A_0", 0), ("B_1", 1), has_modules=False), id="no-modules"),
    ],
)
def test_nothing_is_said_where_nothing_follows(profile):
    assert told(profile) == {}
