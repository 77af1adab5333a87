"""Time of PyTorch traces is split as HolisticTraceAnalysis splits it, but for what it leaves out.

The figures are those of HolisticTraceAnalysis 0.5.0 (pandas 3.1.1, Python 3.11), had by

    analysis = TraceAnalysis(trace_files={rank: path}, include_last_profiler_step=...)
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)

Where a trace has several ``ProfilerStep`` ranges, HTA leaves out what was launched in the last of
them (unless asked not to), and always what no recorded call launched: both are the case at the
ends of a trace. gpuprof counts everything that ran.
"""

from pathlib import Path

import pytest

from gpuprof.analyses.breakdown import breakdown
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "kineto"
DLRM = "param_dlrm_worker{}_step_12.{}.pt.trace.json"
INDEX = "hta_df_index_resolver__df_index_resolver.json.gz"
NEGATIVE = "hta_negative_queue_length_values_check__rank0.json.gz"
TIMELINE = "hta_timeline_analysis__sampled_rank-0.json.gz"
DIFF = "hta_trace_diff__test__test.json.gz"
FILTER = "hta_trace_filter__sampled_rank-1.json.gz"
# Idle, compute and other busy time in us; share of communication beside compute in percent.
WITHOUT_LAST_STEP = {
    INDEX: (643_612, 496_485, 256_572, 0.0),
    NEGATIVE: (705_853, 143_836, 166_865, 1.37),
    TIMELINE: (321_378, 106_252, 172_428, 11.81),
    DIFF: (46_910, 429_216, 152_245, 68.8),
    FILTER: (328_671, 135_548, 136_455, 20.05),
}
LAUNCHED = {
    NEGATIVE: (848_216, 179_676, 201_180, 1.47),
    DIFF: (51_692, 514_576, 178_246, 69.07),
}
ALL = {
    DLRM.format(0, 1694128201545): (6_419, 1_034, 5_556, 4.5),
    DLRM.format(7, 1694128201553): (8_308, 1_059, 1_600, 9.51),
    INDEX: (732_352, 620_516, 380_097, 0.0),
    TIMELINE: (675_191, 210_320, 337_336, 14.95),
    FILTER: (651_136, 271_973, 308_077, 19.93),
}
LAST_STEP = """
    SELECT max({edge}) FROM nvtx_ranges WHERE starts_with(text, 'ProfilerStep')"""


def figures(profile):
    [row] = breakdown(profile).to_pylist()
    busy = row["busy_communication_ns"]
    assert busy
    other = row["span_ns"] - row["idle_ns"] - row["compute_ns"]
    times = (row["idle_ns"], row["compute_ns"], other)
    assert all(ns % 1000 == 0 for ns in times)
    return *(ns // 1000 for ns in times), round(100 * row["hidden_communication_ns"] / busy, 2)


def launched(profile, limit):
    """Only what a recorded call launched that began before a limit."""
    for name in ("kernels", "memcpys", "memsets"):
        kept = profile.query(f"""
            SELECT a.* FROM {name} a SEMI JOIN (
                SELECT correlation_id FROM api_calls WHERE start_ns < ({limit})
            ) c ON c.correlation_id = a.correlation_id""")
        profile = profile.with_table(name, kept)
    return profile


def read(name):
    if not (CORPUS / name).exists():
        pytest.skip("the recordings are not on this machine")
    return read_profile(CORPUS / name)


@pytest.mark.parametrize("name", ALL)
def test_times_are_those_of_hta(name):
    assert figures(read(name)) == ALL[name]


@pytest.mark.parametrize("name", LAUNCHED)
def test_hta_leaves_out_what_no_recorded_call_launched(name):
    profile = read(name)

    assert figures(launched(profile, LAST_STEP.format(edge="end_ns"))) == LAUNCHED[name]
    assert figures(profile) != LAUNCHED[name]


@pytest.mark.parametrize("name", WITHOUT_LAST_STEP)
def test_hta_leaves_out_the_last_step(name):
    limit = LAST_STEP.format(edge="start_ns")

    assert figures(launched(read(name), limit)) == WITHOUT_LAST_STEP[name]
