"""Recordings at addresses, through fsspec's file systems and a server of S3's protocol."""

import builtins
import functools
import http.server
import os
import pickle
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from commands import gpuprof, printed_by
from recording_checks import refusal, rows
from test_merged_ranks import rank_file

from gpuprof.base.errors import InputError, MissingToolError, OutputError, UnknownFormatError
from gpuprof.cli.terminal import Progress
from gpuprof.readers import inputs, read_profile, recording_files, remote
from gpuprof.readers.gpuprof.write_data_set import write
from gpuprof.readers.inputs import Address, path_of
from gpuprof.show.output import prepare

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install -e .[storage]")


@pytest.fixture
def ranks(tmp_path):
    for rank in range(3):
        rank_file(tmp_path, f"rank{rank}.json", rank=rank, device=rank, pid=100 + rank)
    return tmp_path


@pytest.fixture
def memory(ranks):
    """The same files in fsspec's file system in memory."""
    system = fsspec.filesystem("memory")
    for file in ranks.glob("*.json"):
        system.pipe(f"/run/{file.name}", file.read_bytes())
    yield system
    system.rm("/", recursive=True)


def ranks_of(profile):
    return [rank for (rank,) in rows(profile, "runs", "rank")]


def test_a_file_at_an_address_is_read(memory):  # noqa: ARG001 - it holds the file
    profile = read_profile("memory://run/rank1.json")

    assert rows(profile, "kernels", "name", "device_id") == [("k", 1)]
    assert str(profile.origin.source) == "memory://run/rank1.json"
    assert profile.origin.source.name == "rank1.json"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("memory://run/rank*.json", [0, 1, 2], id="glob"),
        pytest.param("memory://run/rank[02].json", [0, 2], id="choice"),
        pytest.param("memory://run", [0, 1, 2], id="folder"),
        pytest.param("memory://run/", [0, 1, 2], id="folder-with-slash"),
    ],
)
def test_a_glob_and_a_folder_at_an_address_are_all_ranks(memory, address, expected):  # noqa: ARG001
    profile = read_profile(address)

    assert ranks_of(profile) == expected
    assert str(profile.origin.source) == address.rstrip("/")


def test_addresses_stand_beside_files_and_in_lists(memory, ranks):  # noqa: ARG001
    (ranks / "list.txt").write_text("memory://run/rank1.json\nrank0.json\n", encoding="utf-8")

    assert ranks_of(read_profile(["memory://run/rank2.json", ranks / "rank0.json"])) == [0, 2]
    assert ranks_of(read_profile(f"@{ranks}/list.txt")) == [0, 1]
    assert [file.name for file in recording_files([f"@{ranks}/list.txt"])] == [
        "rank1.json",
        "rank0.json",
    ]


def test_a_local_file_system_of_fsspec_is_read(ranks):
    assert ranks_of(read_profile(f"local://{ranks}/rank*.json")) == [0, 1, 2]


def test_a_file_address_is_a_path(ranks):
    profile = read_profile(f"file://{ranks}/rank0.json")

    assert profile.origin.source == ranks / "rank0.json"


def test_a_data_set_at_an_address_is_read(memory, ranks, tmp_path):
    (tmp_path / "job.gpuprof").mkdir()
    write(read_profile(ranks / "rank*.json"), tmp_path / "job.gpuprof")
    memory.put(str(tmp_path / "job.gpuprof"), "/sets/job.gpuprof", recursive=True)

    profile = read_profile("memory://sets/job.gpuprof")

    assert ranks_of(profile) == [0, 1, 2]
    assert str(profile.origin.source) == "memory://sets/job.gpuprof"


def test_what_is_left_out_is_named_by_its_address(memory):
    memory.pipe("/run/notes.md", b"# Notes\n")

    assert read_profile("memory://run").origin.warnings == (
        "Left out: memory://run/notes.md is in no known format.",
    )


def test_an_error_names_the_address(memory):
    memory.pipe("/notes.md", b"# Notes\n")

    with pytest.raises(UnknownFormatError) as caught:
        read_profile("memory://notes.md")

    assert caught.value.message == "memory://notes.md is in no known format"


def test_files_at_addresses_are_listed_without_copies(memory, ranks):
    files = recording_files(["memory://run/rank*.json", ranks / "rank0.json"], are_fetched=False)

    assert [*map(str, files[:3])] == [f"memory://run/rank{rank}.json" for rank in range(3)]
    assert files[3] == ranks / "rank0.json"
    memory.rm("/run/rank0.json")
    other_process = pickle.loads(pickle.dumps(files[1]))  # noqa: S301 - as a worker gets it
    assert ranks_of(read_profile(other_process)) == [1]
    (single,) = recording_files(["memory://run/rank2.json"], are_fetched=False)
    assert isinstance(single, Address)


def test_copies_of_a_folder_are_made_where_files_are_listed(memory):  # noqa: ARG001
    files = recording_files(["memory://run"], are_fetched=False)

    assert [file.name for file in files] == ["rank0.json", "rank1.json", "rank2.json"]
    assert all(file.is_file() for file in files)


def test_copies_are_discarded_when_they_are_done_with(memory, tmp_path, monkeypatch):  # noqa: ARG001
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))
    with inputs.copies_discarded():
        read_profile("memory://run/rank0.json")
        assert len([*copies.iterdir()]) == 1

    assert [*copies.iterdir()] == []


def test_no_name_leads_out_of_the_folder_of_copies(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    memory.store["/run/../../../evil.json"] = memory.store["/run/rank0.json"]

    read_profile("memory://run")

    assert [path.name[:8] for path in (tmp_path / "copies").iterdir()] == ["gpuprof-"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param(
            "memory://run/rank7.json", "there is no such file, folder or bucket", id="no-file"
        ),
        pytest.param("memory://run/*.sqlite", "no file has such a name", id="glob"),
        pytest.param("nope://run/a.json", "nope is no protocol that fsspec knows", id="protocol"),
    ],
)
def test_an_address_of_nothing_is_named(memory, address, message):  # noqa: ARG001
    assert refusal(address, InputError) == f"{address}: {message}"


def _raising(error):
    def info(*_args, **_more):
        raise error

    return info


class NoCredentialsError(Exception):
    """As that of botocore is called."""


class EndpointConnectionError(Exception):
    """As that of botocore is called."""


def not_found(cause):
    """As the package for https raises it."""
    error = FileNotFoundError("https://host/a")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        pytest.param(
            NoCredentialsError("Unable to locate credentials"),
            "access is refused (Unable to locate credentials)",
            "Check the credentials",
            id="no-credentials",
        ),
        pytest.param(
            PermissionError("Forbidden"),
            "access is refused (Forbidden)",
            "credentials",
            id="forbidden",
        ),
        pytest.param(
            EndpointConnectionError("Could not connect"),
            "the server cannot be reached (Could not connect)",
            "Check the network",
            id="no-server",
        ),
        pytest.param(
            not_found(ConnectionRefusedError(111, "Connection refused")),
            "the server cannot be reached (https://host/a)",
            "Check the network",
            id="no-server-of-https",
        ),
        pytest.param(
            RuntimeError("odd\nand more"),
            "it cannot be fetched (RuntimeError: odd)",
            None,
            id="other",
        ),
    ],
)
def test_what_a_protocol_raises_is_said_in_a_line(memory, monkeypatch, error, message, hint):
    monkeypatch.setattr(type(memory), "info", _raising(error))

    with pytest.raises(InputError) as caught:
        read_profile("memory://run/rank0.json")

    assert caught.value.message == f"memory://run/rank0.json: {message}"
    assert (hint or "") in (caught.value.hint or "")


def test_a_connection_that_breaks_while_files_are_fetched_is_said(memory, monkeypatch):
    monkeypatch.setattr(type(memory), "get", _raising(ConnectionResetError("Connection reset")))

    with pytest.raises(InputError, match="the server cannot be reached"):
        read_profile("memory://run/rank*.json")
    assert remote.now() is None


def test_copies_that_do_not_fit_are_not_begun(memory, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000))

    with pytest.raises(InputError, match=r"3 files of .* do not fit into .*, which has .* free"):
        read_profile("memory://run/rank*.json")


def without(package, monkeypatch):
    real = builtins.__import__

    def failing(name, *args, **more):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", failing)


def test_fsspec_is_asked_for_where_it_is_not_installed(monkeypatch):
    without("fsspec", monkeypatch)

    with pytest.raises(MissingToolError) as caught:
        read_profile("s3://bucket/rank0.sqlite")

    assert caught.value.message == "s3://bucket/rank0.sqlite: the package fsspec is not installed"
    assert caught.value.hint == "Install it: pip install 'fsspec>=2024.2' 's3fs>=2024.2'"


def test_the_package_of_a_protocol_is_asked_for(monkeypatch):
    message = "Please install gcsfs to access Google Storage"
    monkeypatch.setattr("fsspec.core.url_to_fs", _raising(ImportError(message)))

    with pytest.raises(MissingToolError) as caught:
        read_profile("gs://bucket/rank0.sqlite")

    assert caught.value.message == "gs://bucket/rank0.sqlite: the package for gs is not installed"
    assert caught.value.hint == f"{message}."


def test_local_paths_import_no_fsspec(ranks):
    code = (
        "import sys; from gpuprof.readers import read_profile;"
        f"read_profile({str(ranks / 'rank*.json')!r});"
        "print('fsspec' in sys.modules, 'gpuprof.readers.remote' in sys.modules)"
    )

    assert printed_by(code).split() == ["False", "False"]


def test_copies_are_gone_when_the_program_ends(ranks, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    done = gpuprof("report", f"local://{ranks}/rank0.json", TMPDIR=str(copies))

    assert done.returncode == 0
    assert [*copies.iterdir()] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/run/rank0.sqlite", "s3://bucket/run/rank0.sqlite"),
        ("https://user:secret@host/a.json", "https://host/a.json"),
        ("https://user:se@cr/et@host/a.json", "https://host/a.json"),
        ("http://host:8080/a@2.json", "http://host:8080/a@2.json"),
        ("https://host/a.json?X-Amz-Signature=secret", "https://host/a.json"),
        ("s3://bucket/what?.json", "s3://bucket/what?.json"),
    ],
)
def test_an_address_shows_no_secret(text, shown):
    address = path_of(text)

    assert isinstance(address, Address)
    assert (str(address), address.full_text) == (shown, text)


@pytest.mark.parametrize("text", ["run/rank0.sqlite", "C:\\run", "C://run", "a:b/c", "./x://y"])
def test_a_path_is_no_address(text):
    assert not isinstance(path_of(text), Address)


def test_outputs_are_no_addresses():
    with pytest.raises(OutputError, match="outputs are files of this machine"):
        prepare("s3://bucket/train.gpuprof")


def test_progress_tells_what_is_being_fetched(memory, monkeypatch):
    seen = []
    real = type(memory).get

    def watched(self, names, paths, **more):
        real(self, names[:1], paths[:1], **more)
        seen.append(Progress("Reading", []).line())
        real(self, names[1:], paths[1:], **more)

    monkeypatch.setattr(type(memory), "get", watched)
    read_profile("memory://run/rank*.json")

    (line,) = seen
    assert line.startswith("Fetching 3 files [######              ] ")


def test_a_signed_address_of_a_web_server_is_read(ranks):
    handler = functools.partial(_Quiet, directory=str(ranks))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rank1.json?signature=secret"
        profile = read_profile(address)
        server.shutdown()

    assert ranks_of(profile) == [1]
    assert "secret" not in str(profile.origin.source)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args):
        """Nothing on stderr."""


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """How commands find a server of S3's protocol, with a bucket of ranks."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install -e .[storage]")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server.ThreadedMotoServer("127.0.0.1", port, verbose=False)
    running.start()
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }
    ranks = tmp_path_factory.mktemp("ranks")
    for rank in range(3):
        rank_file(ranks, f"rank{rank}.json", rank=rank, device=rank, pid=100 + rank)
    code = (
        "import sys, fsspec; s = fsspec.filesystem('s3'); s.mkdir('bucket');"
        "s.put(sys.argv[1] + '/', 'bucket/run/', recursive=True)"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(ranks)], env=os.environ | env, check=True, timeout=60
    )
    yield env
    running.stop()


def test_ranks_in_a_bucket_are_read(bucket):
    done = gpuprof("report", "s3://bucket/run/rank*.json", "--table", "totals", **bucket)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("s3://bucket/run/rank*.json: ")


def test_a_bucket_that_is_not_there_is_named(bucket):
    done = gpuprof("report", "s3://nowhere/rank0.json", **bucket)

    assert (done.returncode, done.stderr) == (
        1,
        "Error: s3://nowhere/rank0.json: there is no such file, folder or bucket\n",
    )


def test_missing_credentials_are_asked_for(bucket, tmp_path):
    nothing = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(tmp_path)}
    done = gpuprof("report", "s3://bucket/run/rank0.json", **(bucket | nothing))

    assert done.returncode == 1
    assert done.stderr.startswith("Error: s3://bucket/run/rank0.json: access is refused")
    assert "Hint: Check the credentials" in done.stderr


def test_a_server_that_is_gone_is_named(bucket):
    done = gpuprof(
        "report",
        "s3://bucket/run/rank0.json",
        **(bucket | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
    )

    assert done.returncode == 1
    assert "the server cannot be reached" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_places_keep_copies_of_other_programs_as_they_are():
    assert inputs.shown("/data/other/a.json is empty") == "/data/other/a.json is empty"


def test_workers_fetch_their_files_themselves(ranks, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    (ranks / "rank7.json").write_text("nothing known", encoding="utf-8")
    done = gpuprof(
        *("report", f"local://{ranks}/rank*.json", "--workers", "2", "--table", "kernel_summary"),
        TMPDIR=str(copies),
    )

    assert done.returncode == 4
    assert done.stderr == "Partial result: 1 of 4 files could not be read.\n"
    assert "rank7.json" in done.stdout.replace("\n", "")
    assert [*copies.iterdir()] == []


def test_a_file_at_an_address_has_a_size_and_a_time(memory):
    memory.pipe("/run/new.json", b"12345")
    size_bytes, modified_ns = remote.size_and_time(path_of("memory://run/new.json"))

    assert size_bytes == 5
    assert modified_ns > 1_700_000_000 * 10**9
    assert remote.size_and_time(path_of("memory://run/none.json")) == (0, 0)
