import pytest

from gpuprof.comparisons import result_tables as tables


@pytest.mark.parametrize(
    ("row", "schema"),
    [
        (tables.DifferencePart, tables.SPLIT),
        (tables.KernelPair, tables.KERNELS),
        (tables.Outcome, tables.OUTCOMES),
    ],
)
def test_the_fields_of_a_row_are_the_columns_of_its_table(row, schema):
    assert row._fields == tuple(schema.columns)
