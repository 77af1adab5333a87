"""The rows of one table in pieces, as exporters of tables write them."""

from collections.abc import Iterator

import pyarrow as pa

from gpuprof import __version__
from gpuprof.model import schema
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.write_gpuprof_file import alone, batches_by_start


def table_rows(profile: Profile, name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a table by their start, so that they need not fit into memory.

    Returns:
        Batches with exactly the columns of `described`; null where unknown.

    Raises:
        GpuprofError: The recording breaks its format's rules.
    """
    spec = schema.BY_NAME[name]
    for batch in batches_by_start(alone(profile, name), name, spec.columns):
        arrays = [batch.column(column).cast(kind) for column, kind in spec.kinds.items()]
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
