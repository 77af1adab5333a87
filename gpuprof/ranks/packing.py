"""A partial result as bytes: Arrow's own format, which any version of Python or Arrow reads."""

import pyarrow as pa

from gpuprof.ranks.engine_contract import Partial


def pack(partial: Partial) -> bytes:
    """Its tables as one Arrow stream: a row for each, with its name and its own stream."""
    streams = [_stream(table) for table in partial.values()]
    outer = pa.table(
        {"name": pa.array(partial.keys(), pa.string()), "stream": pa.array(streams, pa.binary())}
    )
    return _stream(outer)


def unpack(packed: bytes) -> Partial:
    """The tables of `pack`.

    Raises:
        pa.ArrowInvalid: The bytes are something else.
    """
    outer = _table(packed)
    streams = zip(outer["name"].to_pylist(), outer["stream"], strict=True)
    return {name: _table(stream.as_buffer()) for name, stream in streams}


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _table(stream: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
