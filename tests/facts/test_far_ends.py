"""Devices that only others copy from or to."""

import pytest
from recordings import copy, kernel, trace

from gpuprof.facts.timeline import far_ends

PUSHED = copy("PtoP", 0, 4, device_id=0, src_device_id=0, dst_device_id=1)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        pytest.param({}, (1,), id="nothing"),
        pytest.param({"memsets": [{"device_id": 0}]}, (1,), id="on the other one"),
        pytest.param({"memsets": [{"device_id": 1}]}, (), id="a memset"),
        pytest.param({"kernels": [kernel("k", 2, 2, device_id=1)]}, (), id="a kernel of no length"),
        pytest.param({"kernels": [kernel("k", 2, 3)]}, (), id="a kernel of an unknown device"),
    ],
)
def test_a_device_is_a_far_end_where_it_ran_nothing_itself_for_certain(tables, expected):
    assert far_ends(trace(memcpys=[PUSHED], **tables)) == expected
