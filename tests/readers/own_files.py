"""gpuprof's own files as another program would write them: any header, any member."""

import io
import json
import zipfile

from pyarrow import parquet

HEADER = "gpuprof.json"


def changed(path, header=None, **tables):
    """Other tables, by name, or other fields of the origin in a file; None takes a table out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if header is not None:
        document = json.loads(members[HEADER])
        members[HEADER] = json.dumps(document | {"origin": document["origin"] | header}).encode()
    members |= {f"{name}.parquet": _stored(table) for name, table in tables.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)
    return path


def _stored(table):
    if table is None:
        return None
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
