"""The example notebook runs from its first cell to its last, and shows what its text says."""

import pytest
from commands import ROOT, python

NOTEBOOK = ROOT / "scripts" / "notebook.ipynb"
# In a process of its own: a kernel leaves threads and warnings behind.
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
place = {"metadata": {"path": sys.argv[2]}}
NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
nbformat.write(notebook, sys.argv[3])
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Source of each cell of code, and its outputs."""
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    executed = tmp_path_factory.mktemp("notebook") / "executed.ipynb"
    # The kernel captures the output of programs only where it does not know of a test.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST")
        done = python("-c", EXECUTE, NOTEBOOK, NOTEBOOK.parent, executed, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    notebook = nbformat.read(executed, as_version=4)
    return {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def _shown(cells, source):
    """What the cell that ends with a line shows, by media type."""
    (outputs,) = (outputs for cell, outputs in cells.items() if cell.endswith(source))
    return outputs[-1].data


@pytest.mark.parametrize("source", ["report", "comparison", "printed", "run", "sweep"])
def test_a_result_is_shown_as_html_and_as_text(cells, source):
    shown = _shown(cells, f"\n{source}")

    assert '<div class="gpuprof">' in shown["text/html"]
    assert "<div" not in shown["text/plain"]


@pytest.mark.parametrize(
    "source",
    ['report.plot("timeline")', 'comparison.plot("waterfall")', 'sweep.plot("scaling")'],
)
def test_a_chart_is_shown_as_a_picture(cells, source):
    assert len(_shown(cells, source)["image/png"]) > 10_000


def test_the_output_of_a_recorded_program_is_shown_in_its_cell(cells):
    (outputs,) = (outputs for cell, outputs in cells.items() if "gpuprof.record(" in cell)

    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "trained with a batch size of 1" in printed


def test_a_missing_table_is_told_with_its_reason(cells):
    (outputs,) = (outputs for cell, outputs in cells.items() if 'printed["breakdown"]' in cell)

    assert outputs[0].text.startswith("breakdown is n/a: the recording has no kernels and memcpys")


def test_the_notebook_is_stored_without_outputs():
    text = NOTEBOOK.read_text(encoding="utf-8")

    assert '"outputs": []' in text
    assert "image/png" not in text
