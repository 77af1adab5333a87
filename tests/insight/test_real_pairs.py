"""What an expert says of pairs of real recordings: the sign, the size, and of what."""

from pathlib import Path

import pytest

from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
GINDA = "nsys-sqlite/GindaChen__"


def compared(before, after):
    paths = [CORPUS / name for name in (before, after)]
    if not all(path.exists() for path in paths):
        pytest.skip("the corpus of real recordings is not here")
    return comparison({"before": read_profile(paths[0]), "after": read_profile(paths[1])})


def test_cuts_of_equal_length_are_compared_by_call():
    result = compared(
        f"{GINDA}nsys-ai__mfu_2gpu_before.sqlite", f"{GINDA}nsys-ai__mfu_2gpu_after.sqlite"
    )

    assert result.verdict.startswith("after does a different amount of work than before")
    assert result.outcomes.to_pylist()[0]["percent"] == pytest.approx(5, rel=0.05)
    assert "flash_fwd_kernel" in result.verdict


def test_sides_that_lack_kernels_and_have_few_in_common_are_compared_by_marked_steps():
    result = compared(
        "kineto/hta_timeline_analysis__sampled_rank-0.json.gz",
        "kineto/hta_trace_filter__sampled_rank-1.json.gz",
    )

    # The framework marks steps, whichever kernels were recorded.
    assert result.verdict.startswith("Against before, after takes 654 µs (0.1 %) more per step;")
    assert "Kernels are missing from before and after, so idle times and sums" in result.verdict
    # Kernels that both launch in equal shapes are less than what a time per call stands for.
    assert "after and before have too few kernels in common to compare calls." in result.verdict
    assert result.split.num_rows == 0
