import re

from gpuprof.model.data_model import ACTIVITY_SUMMARY, RUNS
from gpuprof.show.listing import schemas_text


def test_a_number_without_a_unit_is_listed_as_what_it_is():
    listed = re.sub(r" {2,}", " ", schemas_text([RUNS, ACTIVITY_SUMMARY]))

    assert "process_id [process id] Operating-system process." in listed
    assert "calls [count] How often." in listed
    assert "printed_share [share] Share of its section" in listed
    assert "total_ns [ns] Sum of durations" in listed
    assert "command [text]" not in listed
