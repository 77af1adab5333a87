import asyncio
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import ROOT, gpuprof

mcp = pytest.importorskip("mcp", reason="the package mcp is not installed")

NAMES = ("direct.gpuprof", "staged.gpuprof")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name in NAMES:
        shutil.copy(ROOT / "gpuprof" / "docs" / "recordings" / name, folder)
    (folder / "empty.sqlite").write_bytes(b"")
    (folder / "outside").symlink_to(ROOT / "README.md")
    return folder


def _calls(folder, *calls):
    """What the server, started as an assistant starts it, answers to some calls."""
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "gpuprof", "mcp", str(folder)], cwd=str(ROOT)
    )

    async def ask():
        async with mcp.Client(command) as client:
            tools = (await client.list_tools()).tools
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
            return tools, answers

    # In a thread of its own: a browser of other tests may have left a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        tools, answers = pool.submit(asyncio.run, ask()).result()
    return tools, [(answer.is_error, answer.content[0].text) for answer in answers]


def test_an_assistant_is_answered_as_the_commands_answer(folder):
    direct, staged = (folder / name for name in NAMES)

    tools, answers = _calls(
        folder,
        ("recordings", {}),
        ("report", {"file": "staged.gpuprof"}),
        ("compare", {"files": [str(direct), "staged.gpuprof"]}),
        ("predict", {"file": "staged.gpuprof", "changes": ["link=3us,40GB/s"]}),
        ("table", {"file": "staged.gpuprof", "name": "breakdown"}),
        ("table", {"file": "staged.gpuprof", "name": "steps", "rows": 3}),
        ("query", {"file": "staged.gpuprof", "sql": "SELECT count(*) AS kernels FROM kernels"}),
    )

    assert [tool.name for tool in tools] == [
        "recordings", "report", "table", "compare", "predict", "query"
    ]  # fmt: skip
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools)
    assert not any(is_error for is_error, _ in answers)
    listed, report, compared, predicted, breakdown, steps, counted = (text for _, text in answers)
    assert all(str(folder / name) in listed for name in NAMES)
    for text, words in (
        (report, ("report", staged)),
        (compared, ("compare", direct, staged)),
        (predicted, ("predict", staged, "--what", "link=3us,40GB/s")),
    ):
        assert text == gpuprof(*words, COLUMNS="120").stdout
    assert breakdown.splitlines()[0].startswith("device_id,span_ns,compute_ns,")
    assert len(breakdown.splitlines()) == 3
    assert steps.splitlines()[4:] == ["... and 77 rows more"]
    kernels = gpuprof("query", staged, "SELECT count(*) AS kernels FROM kernels", "--format", "csv")
    assert counted == kernels.stdout


def test_notes_stand_behind_rows_that_are_cut(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    for name in NAMES:
        shutil.copy(ROOT / "gpuprof" / "docs" / "recordings" / name, job)
    (job / "damaged.gpuprof").write_bytes((job / NAMES[0]).read_bytes()[:5_000])

    _, ((is_error, text),) = _calls(
        tmp_path, ("query", {"file": "job", "sql": "SELECT start_ns FROM kernels", "rows": 1})
    )

    assert not is_error
    assert text.splitlines()[2].startswith("... and ")
    assert "Partial result: 1 of 3 files could not be read." in text.splitlines()[3:]


REFUSED = (
    ("report", {"file": "/etc/passwd"}, "outside of the folders"),
    ("report", {"file": "../x.sqlite"}, "outside of the folders"),
    ("report", {"file": "outside"}, "outside of the folders"),
    ("report", {"file": "s3://bucket/x.sqlite"}, "no such file"),
    ("report", {"file": "empty.sqlite"}, "Error: "),
    ("query", {"file": NAMES[0], "sql": "SELECT * FROM '/etc/passwd'"}, "no table /etc/passwd"),
    ("query", {"file": NAMES[0], "sql": "DROP TABLE kernels"}, "a query is one SELECT"),
    ("query", {"file": NAMES[0], "sql": "--format=json"}, "a query is one SELECT"),
    ("predict", {"file": NAMES[0], "changes": ["nonsense"]}, "Error: "),
    ("table", {"file": NAMES[0], "name": "nonsense"}, "there is no table nonsense"),
)


def test_what_an_assistant_may_not_or_cannot_read_is_an_error(folder):
    _, answers = _calls(folder, *((tool, arguments) for tool, arguments, _ in REFUSED))

    for (*call, message), (is_error, text) in zip(REFUSED, answers, strict=True):
        assert is_error, call
        assert message in text, call
        assert "Traceback" not in text, call


def test_what_is_no_folder_is_refused(folder):
    done = gpuprof("mcp", folder / NAMES[0])

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {folder / NAMES[0]} is no folder\n")


def test_without_the_package_it_says_what_to_install(tmp_path):
    (tmp_path / "mcp.py").write_text("raise ImportError\n")

    done = gpuprof("mcp", tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")

    assert done.returncode == 1
    assert "the package mcp (2.0 or newer) is not installed" in done.stderr
