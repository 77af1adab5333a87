"""What a query can ask of a recording, and what it cannot."""

import itertools
import json
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import CORPUS, ROOT, gpuprof
from recordings import copy, kernel, trace

from gpuprof import report
from gpuprof.base.errors import GpuprofError, MissingTableError, UsageError
from gpuprof.model import data_model
from gpuprof.readers import read_profile
from gpuprof.sql import query

STAGED = ROOT / "gpuprof" / "docs" / "recordings" / "staged.gpuprof"
RECORDING = trace(
    kernels=[
        kernel("add", 10, 14, device_id=0),
        kernel("ncclKernel_AllReduce", 0, 8, device_id=1),
        kernel("add", 2, 3, device_id=1),
    ],
    memcpys=[copy("PtoP", 3, 5, bytes=7, src_device_id=0, dst_device_id=1), copy("HtoD", 0, 1)],
    memsets=[],
)


def test_a_query_answers_as_the_tables_say():
    names, rows = query(
        RECORDING,
        "SELECT name, count(*) AS calls, sum(end_ns - start_ns) AS total_ns FROM kernels"
        " WHERE device_id = 1 GROUP BY name ORDER BY total_ns DESC",
    )

    assert names == ["name", "calls", "total_ns"]
    assert rows == [("ncclKernel_AllReduce", 1, 8), ("add", 1, 1)]


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        pytest.param("SELECT start_ns FROM kernels", [(0,), (2,), (10,)], id="rows-by-start"),
        pytest.param("SELECT count(*) FROM kernels", [(3,)], id="no-column"),
        pytest.param("SELECT bytes FROM memcpys", [(None,), (7,)], id="unknown-is-null"),
        pytest.param("SELECT count(*) FROM memsets", [(0,)], id="recorded-and-empty"),
        pytest.param("SELECT sum(bytes) FROM memcpys WHERE is_peer", [(7,)], id="derived-column"),
        pytest.param("SELECT count(*) FROM kernels WHERE is_communication", [(1,)], id="of-names"),
        pytest.param("SELECT sum(duration_ns) FROM copies", [(3,)], id="derived-table"),
        pytest.param("SELECT max(calls) FROM kernel_summary", [(2,)], id="analysis"),
        pytest.param("SELECT count(DISTINCT k) FROM kernels k", [(3,)], id="whole-rows"),
        pytest.param(
            "SELECT a.start_ns FROM kernels a JOIN memcpys b ON a.start_ns < b.end_ns AND"
            " b.bytes = 7 ORDER BY 1", [(0,), (2,)], id="join",
        ),
        pytest.param(
            "SELECT * EXCLUDE (start_ns, end_ns) FROM"
            " (SELECT * FROM kernels ORDER BY 1 DESC) LIMIT 1",
            [(0, None, None, None, None, "add", *[None] * 10, False)],
            id="exclude",
        ),
        pytest.param(
            "SELECT count(DISTINCT hash(columns('^name$|device'))) FROM kernels",
            [(2, 2)],
            id="columns",
        ),
        pytest.param("WITH kernels AS (SELECT 1 AS a) SELECT a FROM kernels", [(1,)], id="with"),
        pytest.param("SELECT max(Calls) FROM Kernel_Summary", [(2,)], id="any-case"),
        pytest.param(
            "SHOW TABLES",
            [("copies",), ("copies_by_device",), ("kernels",), ("memcpys",), ("memsets",)],
            id="show",
        ),
    ],
)  # fmt: skip
def test_a_statement_may_read_any_part_of_a_recording(sql, answer):
    assert query(RECORDING, sql)[1] == answer


def test_every_documented_table_and_column_can_be_named():
    listed = gpuprof("formats", "--schema").stdout.split("\n\n")
    recording = trace(**{name: [] for name in data_model.BY_NAME})
    tables = {
        table.partition(":")[0]: re.findall(r"^  (\w+)", table, re.MULTILINE) for table in listed
    }
    del tables["variants"]  # of comparisons
    named = [
        f't{number}."{column}"'
        for number, columns in enumerate(tables.values())
        for column in columns
    ]
    joined = ", ".join(f"{table} AS t{number}" for number, table in enumerate(tables))

    described = query(recording, f"DESCRIBE SELECT {', '.join(named)} FROM {joined}")[1]

    assert len(tables) > 60
    assert [row[0] for row in described] == [*itertools.chain(*tables.values())]


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT * FROM kernel", "there is no table kernel", "Did you mean kernels"),
        ("SELECT strat_ns FROM kernels", "there is no column strat_ns", "Did you mean start_ns?"),
        ("SELECT k.nam FROM kernels k", "there is no column nam", "Did you mean name?"),
        ("SELECT is_per FROM memcpys", "there is no column is_per", "Did you mean is_peer"),
        ("SELECT name, name FROM kernels", "two columns of the result are called name", "AS other"),
        ("SELEC 1", 'the query fails: syntax error at or near "SELEC"', None),
        ("SELECT name::INT FROM kernels", "the query fails: Could not convert string", None),
        ("", "a query is one SELECT, not nothing", "changes nothing"),
        ("SELECT 1; SELECT 2", "a query is one SELECT, not SELECT and SELECT", "changes nothing"),
    ],
)
def test_an_error_is_one_line_with_the_nearest_names(sql, message, hint):
    with pytest.raises(UsageError) as caught:
        query(RECORDING, sql)

    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message
    assert (caught.value.hint or "").find(hint or "") >= 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{0}')",
        "SELECT * FROM read_text('{0}')",
        "SELECT * FROM '{0}'",
        "SELECT * FROM glob('{0}')",
        "SELECT * FROM read_parquet('s3://bucket/file')",
        "SELECT * FROM 'https://example.com/file.csv'",
        "COPY kernels TO '{0}'",
        "COPY kernels FROM '{0}'",
        "EXPORT DATABASE '{0}'",
        "ATTACH '{0}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "RESET threads",
        "PRAGMA database_size",
        "CREATE TABLE copy AS SELECT * FROM kernels",
        "INSERT INTO kernels (name) VALUES ('add')",
        "UPDATE kernels SET name = 'add'",
        "DELETE FROM kernels",
        "DROP TABLE kernels",
        "CALL pragma_version()",
        "SELECT * FROM query('COPY kernels TO ''{0}''')",
        "SELECT * FROM RECORDING",
    ],
)
def test_all_but_the_recording_is_closed(sql, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("password\n")

    with pytest.raises(UsageError) as caught:
        query(RECORDING, sql.format(secret))

    assert "\n" not in caught.value.message
    assert "Traceback" not in caught.value.message
    assert [path.read_text() for path in tmp_path.iterdir()] == ["password\n"]


def test_a_table_that_was_not_recorded_is_not_an_empty_one():
    with pytest.raises(MissingTableError) as caught:
        query(RECORDING, "SELECT * FROM api_calls")
    assert caught.value.message == "trace.sqlite has no api_calls table"
    assert caught.value.hint == "It has kernels, memcpys, memsets."

    with pytest.raises(GpuprofError) as caught:
        query(RECORDING, "SELECT * FROM launch_latency")
    assert caught.value.message == (
        "trace.sqlite has no api_calls table, which launch_latency needs"
    )


def test_the_command_shows_an_answer_in_every_format():
    sql = "SELECT name, count(*) AS calls FROM kernels GROUP BY name ORDER BY calls, name LIMIT 2"
    shown = {
        form: gpuprof("query", STAGED, sql, "--format", form).stdout
        for form in ("terminal", "markdown", "csv", "json")
    }

    assert shown["csv"] == "name,calls\nupdate_kernel,80\nbackward_kernel,480\n"
    assert re.search(r"^backward_kernel +480$", shown["terminal"], re.MULTILINE)
    assert "| update\\_kernel | 80 |" in shown["markdown"]
    assert '"rows": [\n    {\n      "name": "update_kernel",\n      "calls": 80' in shown["json"]


def test_the_command_fails_in_two_lines(tmp_path):
    done = gpuprof("query", STAGED, "SELECT strat_ns FROM kernels", "-o", tmp_path / "out.txt")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: there is no column strat_ns\nHint: Did you mean start_ns?\n"
    assert not (tmp_path / "out.txt").exists()


def test_ctrl_c_ends_a_query():
    endless = "SELECT count(*) FROM range(100000000000) t(i) WHERE hash(i) = 1"
    words = [sys.executable, "-m", "gpuprof", "query", STAGED, endless]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(3)
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, message = running.communicate(timeout=20)

    assert running.returncode == 130
    assert "Traceback" not in message


def test_files_of_a_job_are_one_recording():
    sql = "SELECT count(*) AS kernels FROM kernels"
    single = int(gpuprof("query", STAGED, sql, "--format", "csv").stdout.split()[1])
    files = [str(STAGED.with_name(f"{name}.gpuprof")) for name in ("staged", "direct")]

    both = gpuprof("query", *files, sql, "--format", "csv").stdout.split()

    assert both == ["kernels", str(2 * single)]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
@pytest.mark.parametrize(
    "name",
    [
        "nsys-sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite",
        "kineto/hta_trace_diff__test__test.json.gz",
    ],
)
def test_sums_of_a_real_recording_are_those_of_the_kernel_summary(name):
    profile = read_profile(CORPUS / name)

    _, rows = query(
        profile,
        "SELECT k.n - s.calls, k.t - s.total_ns FROM (SELECT name, count(*) AS n,"
        " sum(end_ns - start_ns) AS t FROM kernels GROUP BY name) k"
        " FULL JOIN kernel_summary s USING (name)",
    )

    assert {*rows} == {(0, 0)}


QUESTIONS = re.findall(
    r"^-- .+?;$",
    re.search(r"```sql\n(.*?)```", (ROOT / "gpuprof/docs/query.md").read_text(), re.DOTALL)[1],
    re.DOTALL | re.MULTILINE,
)


def test_the_documentation_asks_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda text: text.partition("\n")[0])
def test_the_questions_of_the_documentation_have_answers(question):
    recording = read_profile(STAGED)

    names, rows = query(recording, question)

    assert len(names) > 1
    # The drawn recording has no grids of kernels.
    assert rows or "grid_x" in question


def test_parquet_and_dataframes_have_the_types_of_the_answer(tmp_path):
    sql = "SELECT movement, sum(bytes) AS bytes, NULL AS nothing FROM memcpys GROUP BY 1 ORDER BY 1"
    output = tmp_path / "answer.parquet"

    done = gpuprof("query", STAGED, sql, "-o", output)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    table = pq.read_table(output)
    assert table.column("bytes").type == pa.int64()
    frame = report(STAGED).query(sql)
    pd.testing.assert_frame_equal(frame, table.to_pandas(types_mapper=pd.ArrowDtype))
    assert sorted(frame["movement"]) == ["HtoD", "PtoP_staged"]
    with pytest.raises(UsageError, match="there is no column nonsense"):
        report(STAGED).query("SELECT nonsense FROM kernels")


def test_texts_some_of_which_are_unknown_keep_their_values():
    starts = range(0, 3_000_000, 10)
    ranges = [
        {"start_ns": s, "end_ns": s + 5, "text": None if s % 70 else f"range {s // 500_000}"}
        for s in starts
    ]
    recording = trace(nvtx_ranges=[{"range_kind": "push_pop"} | of for of in ranges])

    _, counts = query(recording, "SELECT text, count(*) FROM nvtx_ranges GROUP BY 1")

    assert len(counts) == 7
    assert sum(count for _, count in counts) == len(ranges)
    assert dict(counts)[None] == sum(s % 70 != 0 for s in starts)


def test_the_schema_lists_what_a_recording_has():
    done = gpuprof("query", STAGED, "--schema", "--format", "csv")
    shown = gpuprof("query", STAGED, "--schema")
    of_any = gpuprof("query", "--schema", "--format", "json")

    assert done.stderr == shown.stderr == of_any.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "table,column,type,unit,meaning"
    assert 'kernels,start_ns,int64,ns,"Start, since the recording\'s origin."' in lines
    tables = {line.partition(",")[0] for line in lines[1:]}
    assert {"kernels", "copies", "steps"} <= tables
    assert "tensor_copies" not in tables
    assert shown.stdout.split()[3:10] == [
        "table",
        "column",
        "type",
        "unit",
        "kernels",
        "start_ns",
        "int64",
    ]
    every = {row["table"] for row in json.loads(of_any.stdout)["rows"]}
    assert tables < every
    assert "tensor_copies" in every


def test_the_schema_is_a_table_in_parquet(tmp_path):
    done = gpuprof("query", STAGED, "--schema", "-o", tmp_path / "schema.parquet")

    assert (done.returncode, done.stdout) == (0, "")
    columns = pq.read_table(tmp_path / "schema.parquet").column("column").to_pylist()
    assert "start_ns" in columns


@pytest.mark.parametrize("words", [[], [str(STAGED)]], ids=["nothing", "no-sql"])
def test_without_a_schema_a_query_needs_a_file_and_sql(words):
    done = gpuprof("query", *words, "--format", "csv")

    assert done.returncode == 2
    assert "query needs a FILE and a SELECT." in done.stderr


def test_a_select_may_stand_below_a_comment_as_in_the_documentation():
    sql = "-- How many kernels?\n-- All.\nSELECT count(*) AS n FROM kernels;"

    done = gpuprof("query", STAGED, sql, "--format", "csv")

    assert (done.returncode, done.stdout) == (0, "n\n1040\n")
