"""The rows of one table in pieces, as exporters of tables write them."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from gpuprof import __version__
from gpuprof.model import schema
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.write_gpuprof_file import alone, batches_by_start, row_select

# As queries show a number that has no name.
_NO_NAME: Final = "unknown"
_NUMBER: Final = "name_id"


def table_rows(profile: Profile, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a table by their start, so that they need not fit into memory.

    Returns:
        Batches with exactly the columns of `described`; null where unknown.

    Raises:
        GpuprofError: The recording breaks its format's rules.
    """
    profile = alone(profile, name)
    spec, select = schema.BY_NAME[name], row_select(profile, name)
    names = None if select.names is None else profile.query(select.names)
    for batch in batches_by_start(profile, name, select):
        columns = {column: batch.column(column) for column in batch.schema.names}
        if names is not None:
            columns |= _of_names(columns.pop(_NUMBER), names)
        arrays = [
            columns[column].cast(kind) if column in columns else pa.nulls(len(batch), kind)
            for column, kind in spec.kinds.items()
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=described(spec))


def described(spec: schema.Schema) -> pa.Schema:
    """The columns of a table with unit and meaning as metadata."""
    fields = [
        pa.field(
            name,
            kind,
            nullable=not spec.columns[name].required,
            metadata={"unit": spec.columns[name].unit, "description": spec.columns[name].meaning},
        )
        for name, kind in spec.kinds.items()
    ]
    return pa.schema(fields, {"table": spec.name, "written_by": f"gpuprof {__version__}"})


def _of_names(numbers: pa.Array, names: pa.Table) -> dict[str, pa.Array]:
    """What depends on the name, for the number of the name in each row."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that other exporters do not need

    rows = pc.index_in(numbers.cast(pa.int64()), names[_NUMBER].cast(pa.int64()))
    columns = {
        column: names[column].combine_chunks().take(rows)
        for column in names.column_names
        if column != _NUMBER
    }
    return columns | {"name": pc.fill_null(columns["name"].cast(pa.string()), _NO_NAME)}
