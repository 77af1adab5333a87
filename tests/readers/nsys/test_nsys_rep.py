import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from nsys_export import KERNEL, MEMCPY, NVTX, PTOP, kernel, memcpy, pid, write
from recording_checks import refusal

from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    GpuprofError,
    InputError,
    MissingToolError,
    UnknownFormatError,
)
from gpuprof.readers import find_reader, read_profile

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "nsys-rep"
JACOBI = CORPUS / "openhackathons__gpubootcamp__jacobi_memcpy_nvlink_report.qdrep"
STREAMS = sorted(CORPUS.glob("*.qdstrm"))[-2:]
JACOBI_STAGED = CORPUS / "openhackathons__gpubootcamp__jacobi_memcpy_sys_report.qdrep"

TRACED = [
    {"name": "PROCESS_0:COLLECT_CUDA_TRACE", "value": "true"},
    {"name": "PROCESS_0:COLLECT_NVTX_TRACE", "value": "true"},
]
STEP = {"start": 0, "end": 9, "eventType": 59, "text": "step", "globalTid": pid(9) + 1}

has_recordings = pytest.mark.skipif(
    not JACOBI.exists(), reason="the recordings are not on this machine"
)


def runs_nsys(test):
    """Mark a test that runs the real nsys."""
    is_missing = shutil.which("nsys") is None
    return pytest.mark.profilers(pytest.mark.skipif(is_missing, reason="no nsys here")(test))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("GPUPROF_CACHE", str(folder))
    return folder


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2023@4@1@84" + bytes(100))
    return path


@pytest.fixture
def install_nsys(tmp_path, monkeypatch):
    """Put a program of this name on PATH in place of nsys; its calls are kept in a file."""

    def install(export, options="--tables", name="nsys"):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(
            f"""#!/bin/sh
            case "$*" in
                --version) echo "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0";;
                "export --help") echo "{options}";;
                *) echo "$*" >> {tmp_path}/calls
                   for output; do :; done
                   {export};;
            esac
            """
        )
        (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return tmp_path / "calls"

    return install


def test_without_nsys_a_report_says_how_to_go_on(report, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingToolError) as caught:
        read_profile(report, "nsys-export")

    assert caught.value.message == f"{report} can only be opened by nsys, which is not installed"
    assert caught.value.hint == (
        "Install Nsight Systems, or export the report where it was recorded: "
        "nsys export --type sqlite FILE."
    )


def test_a_report_of_a_newer_nsys_names_both_versions(report, install_nsys):
    install_nsys(
        'echo "Exportation error: Report was created in Nsight Systems version '
        "(2025.5.1.121-255136380782v0), newer than your current version "
        '(2023.4.4.54-234433681190v0)."; echo "Please update."; exit 1'
    )

    with pytest.raises(InputError) as caught:
        read_profile(report, "nsys-export")

    assert caught.value.message == (
        f"{report}: nsys 2025.5.1.121 recorded it, and the installed nsys 2023.4.4.54 is older"
    )


@pytest.mark.parametrize(
    ("export", "why"),
    [
        ('echo "ProtobufParseException"; touch "$output"; exit 1', "ProtobufParseException"),
        ("exit 0", "exit status 0"),
        ("kill -9 $$", "exit status -9"),
        ("printf 'not a \\200 report'; exit 1", "not a \N{REPLACEMENT CHARACTER} report"),
    ],
    ids=["fails-and-leaves-a-file", "leaves-nothing", "is-killed", "says-no-text"],
)
def test_an_export_that_fails_leaves_no_cache_and_says_why(
    report, install_nsys, cache, export, why
):
    install_nsys(export, options="sqlite")

    with pytest.raises(CorruptFileError) as caught:
        read_profile(report, "nsys-export")

    assert caught.value.message == f"{report}: nsys cannot open it ({why})"
    assert list(cache.iterdir()) == []


def exported(tmp_path):
    versions = [{"name": "EXPORT_PRODUCT_VERSION", "value": "2023.4.4.54"}]
    tables = {KERNEL: [kernel(0, 9)], "META_DATA_EXPORT": versions}
    return write(tmp_path / "made.sqlite", tables)


TRAILER = (
    b'"\x132020-11-07T03:35:30*\x03dgx2\x12%s-027534f:\x122023.4.4.54-x0v0'
    b"\xa2\x01\x04abcd\xaa\x01\x122023.4.4.54-x0v0"
)


def test_the_version_is_that_of_the_nsys_that_recorded(report, install_nsys, tmp_path):
    install_nsys(f'cp {exported(tmp_path)} "$output"', options="sqlite")
    assert read_profile(report, "nsys-export").origin.recorder == "nsys (exported by 2023.4.4.54)"

    report.write_bytes(report.read_bytes() + TRAILER % b"2020.5.1.85")

    origin = read_profile(report, "nsys-export").origin
    assert (origin.tool_version, origin.exporter_version) == ("2020.5.1.85", "2023.4.4.54")


def test_a_report_is_exported_as_sqlite(report, install_nsys, tmp_path):
    calls = install_nsys(f'cp {exported(tmp_path)} "$output"', options="sqlite")

    profile = read_profile(report, "nsys-export")

    assert profile.table("kernels").num_rows == 1
    assert (profile.origin.source, profile.origin.reader) == (report, "nsys-rep")
    assert calls.read_text().startswith(f"export --type=sqlite {report} -q true")


def test_an_export_is_made_once_for_a_content_wherever_it_lies(report, install_nsys, tmp_path):
    calls = install_nsys(f'cp {exported(tmp_path)} "$output"', options="sqlite")
    copy = tmp_path / "elsewhere" / "other-name.nsys-rep"
    copy.parent.mkdir()
    shutil.copy(report, copy)

    for path in (report, report, copy):
        read_profile(path, "nsys-export")

    assert len(calls.read_text().splitlines()) == 1


def test_a_new_report_under_an_old_name_is_exported_anew(report, install_nsys, tmp_path):
    calls = install_nsys(f'cp {exported(tmp_path)} "$output"', options="sqlite")
    read_profile(report, "nsys-export")
    before = report.stat()
    report.write_bytes(report.read_bytes()[:-1] + b"x")
    os.utime(report, ns=(before.st_atime_ns, before.st_mtime_ns))

    read_profile(report, "nsys-export")

    assert len(calls.read_text().splitlines()) == 2


def test_only_the_tables_that_are_read_are_exported(report, install_nsys):
    calls = install_nsys("exit 1", options="--tables")

    with pytest.raises(CorruptFileError):
        read_profile(report, "nsys-export")

    (call,) = calls.read_text().splitlines()
    tables = call.split("--tables=")[1].split()[0].split(",")
    assert f"^{KERNEL}$" in tables
    assert not any("ENV" in table for table in tables)


def test_an_export_keeps_only_the_settings_that_are_read(report, install_nsys, tmp_path, cache):
    settings = [*TRACED, {"name": "PROCESS_0:ENVIRONMENT_0", "value": "TOKEN=hunter2"}]
    tables = {KERNEL: [kernel(0, 9)], "META_DATA_CAPTURE": settings}
    install_nsys(f'cp {write(tmp_path / "made.sqlite", tables)} "$output"', options="sqlite")

    read_profile(report, "nsys-export")

    (database,) = cache.rglob("*.sqlite")
    with closing(sqlite3.connect(database)) as export:
        kept = export.execute("SELECT name, value FROM META_DATA_CAPTURE").fetchall()
    assert kept == [(row["name"], row["value"]) for row in TRACED]


EVENTS = """{"data":["\\"DiagnosticEvent\\"","CUDA injection initialization failed."]}
{"Type":49,"DiagnosticEvent":{"Level":"Info","Text":"CUDA was traced."}}
{"Type":80,"TraceProcessEvent":{"name":"4"}}
{"Type":49,"DiagnosticEvent":{"Level":"Warning","Text":"CUDA injection initialization failed."}}
"""


@pytest.mark.parametrize(
    ("tables", "is_known"),
    [
        pytest.param({NVTX: [STEP]}, False, id="no-gpu-work"),
        pytest.param({NVTX: [STEP], KERNEL: [kernel(0, 9)]}, True, id="gpu-work"),
    ],
)
def test_why_no_gpu_work_was_collected_is_found_in_the_report_itself(
    report, install_nsys, tmp_path, tables, is_known
):
    made = write(tmp_path / "made.sqlite", tables | {"META_DATA_CAPTURE": TRACED})
    (tmp_path / "events.json").write_text(EVENTS)
    calls = install_nsys(
        f"""case "$*" in
            *sqlite*) cp {made} "$output";;
            *json*) cp {tmp_path}/events.json "$output";;
        esac"""
    )

    profile = read_profile(report, "nsys-export")

    assert profile.has("kernels") == is_known
    assert ("--type=json" in calls.read_text()) != is_known
    assert profile.origin.warnings == (
        ()
        if is_known
        else (
            'nsys reported: "CUDA injection initialization failed."',
            (
                "What GPUs did is unknown: nsys could not collect it "
                '("CUDA injection initialization failed.")'
            ),
        )
    )


def test_a_stream_without_the_importer_says_so(tmp_path, install_nsys):
    install_nsys("exit 1")
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"\x00\xff\x00\xff\x00\xff\x00\xffNVIDIA Nsight Systems Stream 2019.6.1")

    message = refusal(path, MissingToolError)

    assert message == f"{path} is a stream, and nsys' QdstrmImporter is not installed"


def test_a_stream_is_imported_first(tmp_path, install_nsys):
    install_nsys('echo report > "$output"', name="QdstrmImporter")
    install_nsys(f'cp {exported(tmp_path)} "$output"', options="sqlite")
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"\x00\xff" * 4 + b"NVIDIA Nsight Systems Stream 2019.6.1.85-1548171!")

    profile = read_profile(path)

    assert profile.table("kernels").num_rows == 1
    assert profile.origin.tool_version == "2019.6.1.85"


PROGRESS = "\\rProcessing [0%%     ]\\rProcessing [==7%%   ]\\rProcessing [=====100%%]"


@pytest.mark.parametrize(
    ("version", "kind", "newer"),
    [
        pytest.param("2021.3.2.4", CorruptFileError, "", id="older"),
        pytest.param("2023.4.4.54", CorruptFileError, "", id="the-same"),
        pytest.param(
            "2023.11.1.2",
            InputError,
            "; nsys 2023.11.1.2 recorded it, and the installed nsys 2023.4.4.54 is older",
            id="newer",
        ),
    ],
)
def test_a_stream_that_cannot_be_imported_has_the_importers_reason(
    tmp_path, install_nsys, version, kind, newer
):
    failed = f"printf '{PROGRESS}\\n'; echo 'File is corrupted.' >&2; exit 2"
    install_nsys(failed, name="QdstrmImporter")
    install_nsys("exit 1")
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"U3w[END]NVIDIA Nsight Systems Stream " + version.encode() + b"-027534f!")

    assert refusal(path, kind) == f"{path}: nsys cannot open it (File is corrupted.){newer}"


def test_the_importer_is_found_where_the_help_of_nsys_points(tmp_path, install_nsys):
    install_nsys('echo report > "$output"', name="QdstrmImporter")
    host = tmp_path / "elsewhere" / "host-linux-x64"
    host.parent.mkdir()
    (tmp_path / "bin").rename(host)
    export = f"case $1 in profile) echo \"See '{host}/PythonNvtx/annotations.json'\";;"
    install_nsys(f'{export} *) cp {exported(tmp_path)} "$output";; esac', options="sqlite")
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54")

    assert read_profile(path).table("kernels").num_rows == 1


def test_a_database_with_the_suffix_of_a_report_is_read_as_a_database(tmp_path):
    between = {"srcDeviceId": 0, "dstDeviceId": 1}
    path = write(tmp_path / "net.nsys-rep", {MEMCPY: [memcpy(0, 5, PTOP, **between)]})

    assert find_reader(path).name == "nsys-sqlite"


def recorded_stream(folder):
    """What the real nsys leaves of a marked step where it finds no importer beside itself."""
    said = subprocess.run(["nsys", "profile", "--help"], capture_output=True, text=True, check=True)
    host = Path(re.search(r"'(/\S+/host-[\w-]+)/", said.stdout)[1])
    alone = folder / "nsys" / "target-linux-x64"
    alone.mkdir(parents=True)
    for part in (host.parent / alone.name).iterdir():
        (shutil.copy if part.name == "nsys" else os.symlink)(part, alone / part.name)
    stream = folder / "home" / "run.qdstrm"
    stream.parent.mkdir()
    marked = "import nvtx\nwith nvtx.annotate('step'): pass"
    quiet = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", "-o", stream.with_suffix("")]
    command = [alone / "nsys", "profile", *quiet, sys.executable, "-c", marked]
    subprocess.run(command, env={**os.environ, "TMPDIR": str(folder)}, check=True)
    shutil.rmtree(alone.parent)
    return stream


@runs_nsys
@has_recordings
class TestRealReports:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (
                "AIYoungcino__ysyx__report1.qdrep",
                "CUDA profiling stopped unexpectedly: Cannot initialize CUDA event collection.",
            ),
            (
                "Yandong-Luo__parallel_diff_evolution__report1.qdrep",
                (
                    "Installed CUDA driver version (11.4) is not supported by this build of Nsight "
                    "Systems. CUDA trace will be collected using libraries for driver version 11.1"
                ),
            ),
        ],
    )
    def test_what_nsys_could_not_collect_is_unknown(self, name, text):
        profile = read_profile(CORPUS / name)

        assert not profile.has("kernels")
        assert f'nsys reported: "{text}"' in profile.origin.warnings
        assert profile.origin.warnings[-1] == (
            f'What GPUs did is unknown: nsys could not collect it ("{text}")'
        )

    def test_each_report_names_the_version_that_recorded_it(self):
        versions = {
            "AIYoungcino__ysyx__report1.qdrep": "2021.3.2.4",
            "gartangh__Master-s-Dissertation__Darknet-19.qdrep": "2020.1.1.65",
            "jcamachado__gpu_practice__report4.nsys-rep": "2023.4.1.84",
            JACOBI.name: "2020.5.1.85",
        }

        origins = {name: read_profile(CORPUS / name).origin for name in versions}

        assert {name: origin.tool_version for name, origin in origins.items()} == versions

    @pytest.mark.parametrize("kept", [1_000, -1])
    def test_a_report_cut_short_is_refused(self, tmp_path, kept, cache):
        path = tmp_path / "cut.nsys-rep"
        path.write_bytes(JACOBI.read_bytes()[:kept])

        with pytest.raises(GpuprofError) as caught:
            read_profile(path)

        assert caught.value.message.startswith(
            f"{path}: it does not end as a complete report does; nsys cannot open it ("
        )
        assert list(cache.iterdir()) == []

    def test_a_real_stream_is_imported_and_left_as_it_was(self, tmp_path):
        path = recorded_stream(tmp_path)
        before = path.read_bytes()

        ranges = read_profile(path).table("nvtx_ranges")

        assert ranges["text"].to_pylist() == ["step"]
        assert path.read_bytes() == before
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    @pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
    def test_the_importers_refusal_of_a_stream_is_one_line(self, path):
        with pytest.raises(CorruptFileError) as caught:
            read_profile(path)

        assert caught.value.message == (
            f"{path}: nsys cannot open it (Qdstrm file is incomplete or invalid. Please ensure "
            "that the CLI ran to completion and provide a valid qdstrm file.)"
        )

    def test_the_users_folder_stays_as_it_was(self, tmp_path):
        path = tmp_path / "home" / "run.qdrep"
        path.parent.mkdir()
        shutil.copy(JACOBI, path)

        read_profile(path).table("kernels")

        assert [file.name for file in path.parent.iterdir()] == ["run.qdrep"]


@pytest.fixture
def install_before_nsys(tmp_path, monkeypatch):
    """Put a line of a shell before each export of the real nsys."""

    def install(line):
        folder = tmp_path / "before"
        folder.mkdir()
        export = f'case "$*" in *"export --type"*) {line};; esac; exec {shutil.which("nsys")} "$@"'
        (folder / "nsys").write_text(f"#!/bin/sh\n{export}\n")
        (folder / "nsys").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return install


@pytest.mark.parametrize(
    "change", ["cp other new; mv new run.nsys-rep", "cp other run.nsys-rep"], ids=["mv", "cp"]
)
@runs_nsys
@has_recordings
def test_a_report_that_is_replaced_while_nsys_exports_it_is_not_kept_as_the_old_one(
    tmp_path, install_before_nsys, change
):
    report, other = tmp_path / "run.nsys-rep", tmp_path / "other"
    shutil.copyfile(JACOBI, report)
    shutil.copyfile(JACOBI_STAGED, other)
    expected = (
        read_profile(report, "nsys-export").origin.command,
        read_profile(other, "nsys-export").origin.command,
    )
    shutil.rmtree(os.environ["GPUPROF_CACHE"])
    install_before_nsys(f"cd {tmp_path}; test -e other && {change}; rm -f other")

    with pytest.raises(InputError, match="changed while it was read"):
        read_profile(report, "nsys-export")

    commands = [read_profile(report, "nsys-export").origin.command]
    shutil.copyfile(JACOBI, report)
    assert (read_profile(report, "nsys-export").origin.command, *commands) == expected


@runs_nsys
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="CUDA can be traced here")
@pytest.mark.parametrize("traced", ["cuda,nvtx", "nvtx", "cuda"])
def test_a_program_that_called_no_cuda_leaves_gpus_unknown_in_every_export(tmp_path, traced):
    command = ["nsys", "profile", "--sample=none", f"--trace={traced}", "--export=sqlite"]
    program = [sys.executable, "-c", "pass"]
    subprocess.run([*command, "-o", "run", *program], cwd=tmp_path, check=True, capture_output=True)

    for path in (tmp_path / "run.nsys-rep", tmp_path / "run.sqlite"):
        if traced == "cuda":
            with pytest.raises(EmptyRecordingError, match="what GPUs did is unknown: "):
                read_profile(path)
        else:
            profile = read_profile(path)
            assert not any(map(profile.has, ("kernels", "memcpys", "api_calls")))
            notes = profile.origin.warnings
            assert [n for n in notes if n.startswith("What GPUs did is unknown: ")]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A report of a program that did nothing."""
    output = tmp_path_factory.mktemp("recorded") / "run.nsys-rep"
    record = ["nsys", "profile", "--sample=none", "--trace=nvtx", "-o", str(output)]
    subprocess.run([*record, sys.executable, "-c", "pass"], check=True, capture_output=True)
    return output


@runs_nsys
@pytest.mark.parametrize("kind", ["json", "text", "info", "hdf", "arrow"])
def test_other_exports_of_nsys_are_named_and_sqlite_is_suggested(tmp_path, recorded, kind):
    exported = tmp_path / f"run.{kind}"
    command = ["nsys", "export", f"--type={kind}", "-o", str(exported), str(recorded)]
    subprocess.run(command, check=True, capture_output=True)

    with pytest.raises(UnknownFormatError) as caught:
        read_profile(exported)

    assert caught.value.hint == (
        "Export the report as SQLite: `nsys export --type sqlite FILE.nsys-rep`."
    )
