"""What `gpuprof.compare` takes and returns."""

import pandas as pd
import pytest
from commands import DUAL, ROOT, SINGLE

import gpuprof
from gpuprof.base.errors import GateError, TableNameError, UsageError

DIRECT, STAGED = (
    ROOT / "gpuprof" / "docs" / "recordings" / f"{name}.gpuprof" for name in ("direct", "staged")
)


@pytest.fixture(scope="module")
def compared():
    return gpuprof.compare(DIRECT, STAGED)


@pytest.mark.parametrize(
    "recordings",
    [
        (("one", SINGLE), ("two", DUAL)),
        ([("one", SINGLE), ("two", DUAL)],),
        ({"one": SINGLE, "two": DUAL},),
        ({"one": [SINGLE], "two": gpuprof.read_profile(DUAL)},),
        (("one", gpuprof.report(SINGLE)), ("two", DUAL)),
        ({"one": SINGLE, "two": gpuprof.report(DUAL)},),
    ],
    ids=["pairs", "list", "mapping", "runs", "report", "mapping-of-report"],
)
def test_labels_come_with_recordings_in_any_form(recordings):
    result = gpuprof.compare(*recordings)

    assert list(result.variants.index) == ["one", "two"]
    assert result.baseline == "one"


def test_recordings_without_labels_are_named_after_their_files(compared):
    assert list(compared.variants.index) == ["direct", "staged"]
    assert compared.verdict.startswith("Against direct, staged takes 1.17 ms (34.2 %) more")
    assert compared.unit == "step"
    assert compared.other_phases == ()


def test_variants_have_their_figures_with_the_differences(compared):
    difference_ns = compared.variants.loc["staged", "step_ns_difference"]

    rows = compared["differences"].set_index("metric")
    assert difference_ns == rows.loc["step_ns", "difference"] == pytest.approx(1_165_000, rel=1e-3)
    assert pd.isna(compared.variants.loc["direct", "step_ns_difference"])
    assert str(compared.variants["kernel_ns"].dtype) == "int64[pyarrow]"


def test_every_table_of_the_command_s_json_is_there(compared):
    assert len(compared["split"]) == compared.arrow("split").num_rows > 0
    assert set(compared.tables) == {
        "variants", "runs", "figures", "differences", "split", "kernels", "comparability",
        "outcomes", "uncompared",
    }  # fmt: skip
    with pytest.raises(TableNameError, match=r"^there is no table splits") as caught:
        compared["splits"]
    assert caught.value.hint == "Did you mean split?"


def test_the_baseline_and_the_steps_are_chosen_in_the_command_s_words():
    result = gpuprof.compare(DIRECT, STAGED, baseline="staged", skip_steps=10)

    assert result.verdict.startswith("Against staged, direct takes")
    assert any("(direct 29, staged 29)" in note for note in result.notes)


def test_a_condition_that_is_true_is_an_error(compared):
    compared.fail_if("step_ns > 2x")

    with pytest.raises(GateError, match="step_ns"):
        compared.fail_if("step_ns > 2x", "step_ns > 1.05x")


def test_fewer_than_no_steps_are_not_left_out():
    with pytest.raises(UsageError, match=r"^skip_steps must be at least 0, not -1"):
        gpuprof.compare(DIRECT, STAGED, skip_steps=-1)


def test_a_page_and_charts_are_those_of_the_command(compared, tmp_path):
    compared.to_html(tmp_path / "page.html")

    assert "From direct to staged" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert compared.plot("waterfall").get_suptitle().startswith("staged takes 1.17 ms (34.2 %)")
    with pytest.raises(UsageError, match=r"^chart matrix shows a recording, not a comparison"):
        compared.plot("matrix")


def test_the_section_of_a_file_with_several_recordings_is_named_for_all_or_by_label():
    with pytest.raises(UsageError, match=r"^section of three: no recording has this label"):
        gpuprof.compare({"one": SINGLE, "two": DUAL}, section={"three": 1})


def test_a_notebook_shows_verdict_bars_and_tables(compared):
    fragment = compared._repr_html_()

    assert "Against direct, staged takes" in fragment
    assert "A step by the clock" in fragment
    assert "PtoP through the host" in fragment
