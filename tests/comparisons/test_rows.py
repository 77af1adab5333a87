import pytest

from gpuprof.comparisons import rows, tables


@pytest.mark.parametrize(
    ("row", "schema"),
    [
        (rows.Difference, tables.DIFFERENCES),
        (rows.DifferencePart, tables.SPLIT),
        (rows.KernelPair, tables.KERNELS),
        (rows.Mismatch, tables.COMPARABILITY),
        (rows.Outcome, tables.OUTCOMES),
    ],
)
def test_the_fields_of_a_row_are_the_columns_of_its_table(row, schema):
    assert row._fields == tuple(schema.columns)
