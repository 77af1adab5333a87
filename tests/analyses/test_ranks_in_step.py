"""What each device does in slices of a typical step, against steps whose parts are drawn."""

import pytest
from drawing import draw
from drawn_jobs import STEP_NS, job
from ranks.joint import job_report, ranks_of

from gpuprof.analyses.ranks_in_step import ranks_in_step
from gpuprof.readers.merged_ranks import joined

TABLE = "ranks_in_step"


def rows_of(files):
    """The rows of the joined recording, which are those of the job read in parts."""
    table = ranks_in_step(joined(files))
    assert job_report(files, [TABLE]).tables[TABLE].equals(table)
    return table.to_pylist()


@pytest.mark.parametrize("compute_ns", [[300, 300], [300, 300, 500]])
def test_slices_add_up_to_the_parts_of_a_step(compute_ns):
    copies = [
        # A half of each is beside compute, which ends 350 ns after the start of a step.
        (STEP_NS * step + 250, STEP_NS * step + 450, {"device_id": 0, "correlation_id": None})
        for step in range(8)
    ]
    rows = rows_of(ranks_of(job(compute_ns, memcpys=copies)))

    for device, took_ns in enumerate(compute_ns):
        of_device = [row for row in rows if row["device_id"] == device]
        sums = {
            name: sum(row[name] for row in of_device)
            for name in of_device[0]
            if "start" not in name
        }
        assert sums["compute_ns"] == took_ns
        assert sums["communication_ns"] == 600 - 50 - took_ns
        assert sums["hidden_compute_ns"] == sums["hidden_communication_ns"] == 0
        # Collectives run meanwhile, too.
        copied = sums["transfer_ns"], sums["hidden_transfer_ns"]
        assert copied == ((0, 200) if device == 0 else (0, 0))
        assert len(of_device) == 96
        assert of_device[-1]["end_ns"] - of_device[0]["start_ns"] <= STEP_NS


def test_a_recording_without_steps_has_no_rows():
    assert ranks_in_step(draw(kernels=[(0, 10)], memcpys=[])).num_rows == 0
    assert ranks_in_step(draw(kernels=[], memcpys=[])).num_rows == 0
