"""Reports read without nsys: drawn ones, damaged ones, and real ones beside what nsys exports."""

import random
import shutil
import tracemalloc
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import commands
import nsys_report_file as drawn
import pytest
from recording_checks import rows

from gpuprof import native
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, GpuprofError, InputError
from gpuprof.model.words import Words
from gpuprof.native import nsys_reports
from gpuprof.native.nsys_reports import ReportError
from gpuprof.readers import read_profile
from gpuprof.readers.nsys_report import reader
from gpuprof.readers.nsys_report.file import LAYOUT, Report

SHARED = Path(__file__).parents[4] / "shared"
# One is a database with the suffix of a report.
CORPUS = sorted(
    path for path in SHARED.glob("corpus/nsys-rep/*rep") if not path.name.endswith("net.nsys-rep")
)
PAIRS = sorted(SHARED.glob("nsys-pairs/*.nsys-rep"))
SAMPLE = Path(__file__).parents[3] / "sample_logs/nsys/2023.4.4/steps.nsys-rep"
KERNEL, COPY, SYNC = drawn.KERNEL, drawn.COPY, drawn.SYNCHRONIZATION
DEVICE_MEMORY = ((4, 2), (5, 2))
_size, _name = (lambda path: path.stat().st_size), (lambda path: path.name)
compiled = pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")


@pytest.fixture(autouse=True)
def no_nsys(request, tmp_path, monkeypatch):
    """No second process: nsys is not there, but for tests that run it."""
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "cache"))
    if "profilers" not in request.keywords:
        monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def read(tmp_path):
    def of(*events, **options):
        path = tmp_path / "drawn.nsys-rep"
        path.write_bytes(drawn.report(events or drawn.EVENTS, **options))
        return read_profile(path)

    return of


def test_a_report_gives_its_tables_and_where_it_came_from(read):
    profile = read()

    assert rows(profile, "kernels", "start_ns", "end_ns", "name", "grid_x", "block_x") == [
        (10, 30, "void work(int)", 4, 128)
    ]
    assert rows(profile, "api_calls", "name", "api", "process_id", "thread_id") == [
        ("cudaLaunchKernel", "runtime", drawn.PROCESS, 9)
    ]
    assert rows(profile, "nvtx_ranges", "text", "domain", "range_kind") == [
        ("step", "", "push_pop")
    ]
    assert rows(profile, "devices", "name", "compute_capability") == [("Drawn GPU", "8.6")]
    assert rows(profile, "runs", "process_id", "command") == [(drawn.PROCESS, "train")]
    origin = profile.origin
    assert (origin.tool_version, origin.command, origin.host) == (
        "2023.4.1.1", "./train --fast", "drawn",
    )  # fmt: skip
    assert (origin.epoch_ns, origin.recorded_at) == (
        1_700_000_000_000_000_020, "2023-11-14T22:13:20Z",
    )  # fmt: skip
    assert origin.warnings == ()


def test_rows_are_in_the_order_of_their_start(read):
    profile = read(drawn.kernel(50, 60), drawn.kernel(10, 30), drawn.kernel(-5, 8))

    assert profile.table("kernels")["start_ns"].to_pylist() == [-5, 10, 50]


def copy(start, end, kind, size, *fields, **place):
    return drawn.activity(COPY, start, end, (1, size), (2, kind), *fields, **place)


def test_copies_name_both_devices_and_how_they_went(read):
    profile = read(
        copy(0, 1, 1, 10, (4, 0), (5, 2)),
        copy(2, 3, 2, 20, (4, 2), (5, 1)),
        copy(4, 5, 10, 30, *DEVICE_MEMORY, (6, 2), (8, 0)),
        copy(6, 7, 8, 40, *DEVICE_MEMORY),
        copy(8, 9, 2, 50, *DEVICE_MEMORY, correlation=9),
        copy(10, 11, 1, 50, *DEVICE_MEMORY, correlation=9, device=1),
        tail=[(14, ((4, drawn.PROCESS), (5, 1))), (14, ((4, drawn.PROCESS), (5, 2)))],
    )

    assert rows(
        profile, "memcpys", "memcpy_kind", "bytes", "src_device_id", "dst_device_id", "path"
    ) == [
        ("HtoD", 10, None, 0, None),
        ("DtoH", 20, 0, None, None),
        ("PtoP", 30, 2, 0, "direct"),
        ("DtoD", 40, 0, 0, None),
        ("DtoH", 50, 0, 1, "staged"),
        ("HtoD", 50, 0, 1, "staged"),
    ]
    assert profile.table("memcpys")["src_memory_kind"].to_pylist()[:2] == ["pageable", "device"]


def test_a_wait_names_where_its_event_was_recorded_last_before(read):
    profile = read(
        drawn.activity(drawn.CUDA_EVENT, 0, 0, (1, 5), stream=11, correlation=1),
        drawn.activity(drawn.CUDA_EVENT, 0, 0, (1, 5), stream=12, correlation=3),
        drawn.activity(drawn.CUDA_EVENT, 0, 0, (1, 5), stream=13, correlation=9),
        drawn.activity(SYNC, 1, 2, (1, 5), (2, 2), correlation=4),
        drawn.activity(SYNC, 3, 4, (1, 5), (3, 5), (4, 1), correlation=1),
        drawn.activity(SYNC, 5, 6, (1, 2**32 - 1), (2, 4), stream=2**32 - 1, correlation=4),
    )

    assert rows(profile, "synchronizations", "sync_kind", "event_id", "src_stream_id") == [
        ("stream_wait", 5, 12), ("event", 5, None), ("context", None, None),
    ]  # fmt: skip
    assert profile.table("synchronizations")["stream_id"].to_pylist() == [7, 7, None]


def test_ranges_have_the_names_of_their_domains_and_those_of_mpi_are_calls(read):
    profile = read(
        drawn.nvtx(0, None, (7, "MPI"), event_type=75, domain=1),
        drawn.nvtx(0, None, (12, 4), event_type=75, domain=2),
        drawn.nvtx(1, 5, (7, "MPI_Send"), domain=1),
        drawn.nvtx(1, 5, (7, "MPI_Send"), domain=1),
        drawn.nvtx(2, 9, (12, 2), event_type=60, domain=2),
        drawn.nvtx(3, None, (7, "never ends")),
        drawn.call(2, 6, name=4, event_class=27),
    )

    assert rows(profile, "nvtx_ranges", "text", "domain", "range_kind") == [
        ("work", "read", "start_end")
    ]
    assert rows(profile, "host_calls", "start_ns", "library", "name") == [
        (1, "mpi", "MPI_Send"), (2, "os", "read"),
    ]  # fmt: skip


def test_a_device_is_the_gpu_that_its_process_calls_by_that_number(read):
    gpu = (2, ((7, ((1, 1), (2, "Other GPU"))), (9, ((1, 1), (2, 0), (3, drawn.PROCESS)))))

    profile = read(drawn.kernel(1, 2), tail=[(1, (gpu,))])

    assert profile.table("kernels")["device_id"].to_pylist() == [0]
    assert rows(profile, "devices", "device_id", "name") == [(0, "Other GPU")]


def test_processes_that_number_gpus_in_their_own_ways_get_the_numbers_of_the_machine(read):
    uses = ((9, ((1, 1), (2, 0), (3, 7))), (9, ((1, 0), (2, 0), (3, 8))))
    gpu = (2, ((7, ((1, 1), (2, "Other GPU"))), *uses))
    context = (14, ((4, 8), (5, 0), (6, 1)))

    profile = read(drawn.kernel(1, 2), drawn.kernel(3, 4, process=8), tail=[(1, (gpu,)), context])

    assert profile.table("kernels")["device_id"].to_pylist() == [1, 0]
    assert rows(profile, "devices", "device_id", "process_id", "name") == [
        (0, 8, "Drawn GPU"), (1, 7, "Other GPU"),
    ]  # fmt: skip
    assert any("devices have the numbers of the machine" in n for n in profile.origin.warnings)


def test_activities_without_times_are_counted_and_left_out(read):
    profile = read(drawn.kernel(0, 0), drawn.kernel(9, 3), drawn.kernel(1, 2))

    assert profile.table("kernels").num_rows == 1
    assert any(note.startswith("2 records without times") for note in profile.origin.warnings)


@pytest.mark.parametrize(
    ("events", "options", "note"),
    [
        pytest.param(
            [drawn.diagnostic("CUDA injection initialization failed.")], {},
            'What GPUs did is unknown: nsys could not collect it ("CUDA injection initialization '
            'failed.")', id="why-nothing-was-collected",
        ),
        pytest.param(
            [drawn.call(1, 2)], {}, "What GPUs did is unknown: cudaLaunchKernel was called, and "
            "nsys recorded no work that calls started", id="launched-and-not-recorded",
        ),
        pytest.param(
            [drawn.nvtx(1, 2, (7, "a"))], {"traced": 0},
            "What GPUs did is unknown: CUDA was not traced", id="not-traced",
        ),
        pytest.param(
            [((1, 119), (120, b"")), drawn.kernel(1, 2)], {},
            "Not read, since their layout is unknown: 1 page faults of the CPU", id="page-faults",
        ),
        pytest.param(
            [((1, 200), (150, b"")), drawn.kernel(1, 2)], {},
            "Not read, since their layout is unknown: 1 events of type 200", id="unknown-events",
        ),
        pytest.param(
            [((1, 79), (107, ((1, 1), (2, 2), (109, b"")))), drawn.kernel(1, 2)], {},
            "Not read, since their layout is unknown: 1 CUDA activities", id="unknown-activity",
        ),
        pytest.param(
            [((1, 41), (106, b"")), ((1, 31), (104, b"")), ((1, 41), (106, b"")),
             drawn.call(1, 2, event_class=48), drawn.call(1, 2, event_class=6)], {},
            "Not read, since gpuprof has no table of them: scheduling events (2), CPU samples (1), "
            "calls of other libraries (1)", id="no-table",
        ),
        pytest.param(
            [drawn.kernel(5, 9), drawn.kernel(1, 2)], {},
            "1 time is out of order, as in no report of nsys 2023.4.1.1: it may be damaged",
            id="order",
        ),
        pytest.param(
            [drawn.call(5, 9), drawn.call(12, 10, event_class=27)], {},
            "1 call or range ends before it starts or crosses another of its thread: "
            "it may be damaged", id="reversed",
        ),
        pytest.param(
            [drawn.call(1, 9), drawn.call(5, 12, correlation=2), drawn.call(6, 8, correlation=3)],
            {}, "1 call or range ends before it starts or crosses another of its thread: "
            "it may be damaged", id="calls-cross",
        ),
        pytest.param(
            [drawn.nvtx(1, 9, (7, "a")), drawn.nvtx(5, 12, (7, "b")), drawn.kernel(1, 2)], {},
            "1 call or range ends before it starts or crosses another of its thread: "
            "it may be damaged", id="ranges-cross",
        ),
        pytest.param(
            [drawn.nvtx(1, 9, (7, "a")), drawn.nvtx(5, 12, (7, "b"), domain=1)], {},
            "What GPUs did is unknown: no CUDA call was recorded", id="domains-cross",
        ),
        pytest.param(
            [drawn.call(1, 2), drawn.call(3, 4)], {},
            "1 CUDA call has the correlation id of another: it may be damaged", id="two-of-one-id",
        ),
        pytest.param(
            [drawn.kernel(1, 2)], {"version": "2031.2.1-x"},
            "Reports of nsys 2031.2.1 were never compared with what nsys makes of them",
            id="a-version-never-seen",
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_said(read, events, options, note):
    assert read(*events, **options).origin.warnings[-1] == note


def test_a_recording_of_nothing_is_empty(tmp_path):
    path = tmp_path / "empty.nsys-rep"
    program = (2, ((26, ((1, 4), (20, 0), (21, 1))),))
    path.write_bytes(drawn.report([], head=[program]).replace(b"\xa0\x01\x01", b"\xa0\x01\x00"))

    with pytest.raises(EmptyRecordingError, match="nothing to report, what GPUs did is unknown"):
        read_profile(path)


BOMB = drawn.varint(12) + drawn.varint(1 << 60) + b"\0" * 12
WHOLE = drawn.report()
SECTIONS = [("Raw Sampling Data", b"QDTEXT00" + bytes(40)), ("UI Data", b"\x32\x011")]


def raw(data, size=None):
    """Bytes as a block of literals, of a declared size."""
    packed = drawn.lz4(data)
    return drawn.varint(len(packed)) + drawn.varint(size or len(data)) + packed


def of(inner):
    return drawn.report(blocks=raw(drawn.varint(len(inner)) + inner), declared=(1, None, None))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(WHOLE[:-1], "it does not end as a complete report does", id="cut"),
        pytest.param(WHOLE[:60], "it does not end as a complete report does", id="being-written"),
        pytest.param(
            WHOLE[:-16] + b"\xff" * 8 + drawn.END, "its footer lies outside of the file",
            id="footer",
        ),
        pytest.param(
            drawn.container(SECTIONS[:1]), 'it has no section "UI Data"', id="section-missing"
        ),
        pytest.param(
            drawn.container([*SECTIONS, SECTIONS[1]]), 'its section "UI Data" is there twice',
            id="section-doubled",
        ),
        pytest.param(
            drawn.container(SECTIONS, {"UI Data": (40, 9)}),
            'its section "UI Data" overlaps another one, or lies outside of the file',
            id="sections-overlap",
        ),
        pytest.param(
            drawn.container(SECTIONS, {"UI Data": (40, 1 << 60)}),
            'its section "UI Data" overlaps another one, or lies outside of the file',
            id="section-beyond",
        ),
        pytest.param(drawn.container([("Raw Sampling Data", b"x" * 20), SECTIONS[1]]),
                     "its events are of an unknown form", id="other-form"),
        pytest.param(drawn.report(codec="zstd"), "its events are packed as zstd", id="codec"),
        pytest.param(drawn.report(end=1 << 40), "its events end outside of their section",
                     id="end-of-events"),
        pytest.param(
            drawn.report(blocks=2 * drawn.block((1, drawn.EVENTS[2])), declared=(2, None, None)),
            "a block of events is there twice", id="block-twice",
        ),
        pytest.param(drawn.report(blocks=BOMB), "the size of a block is impossible", id="bomb"),
        pytest.param(
            drawn.report(blocks=drawn.varint(1 << 60) + b"\x01" + bytes(8)),
            "a block of events goes beyond the end of its section", id="packed-size",
        ),
        pytest.param(
            drawn.report(blocks=b"\x03\x20\x00\x00\x00"), "a block does not inflate", id="lz4"
        ),
        pytest.param(
            drawn.report(blocks=raw(b"\x02\x0a\x00\x00", 4)), "a field goes beyond its end",
            id="length-of-a-block",
        ),
        pytest.param(of(b"\x0a\x7f\x08"), "a field goes beyond its end", id="length-of-a-field"),
        pytest.param(
            of(drawn.message((1, b"\x0b"))), "a field is of no kind, or of another than it has",
            id="wire-type",
        ),
        pytest.param(
            of(drawn.message((1, b"\x0a\x01\x01"))),
            "a field is of no kind, or of another than it has", id="other-wire-type",
        ),
        pytest.param(of(drawn.message((1, b"\x08" + b"\xff" * 11))), "a number has no end",
                     id="number"),
        pytest.param(
            of(drawn.message((1, ((3, 4),)))), "an event has no type, or is of two kinds",
            id="no-type",
        ),
        pytest.param(
            of(drawn.message((1, (*drawn.EVENTS[2], drawn.EVENTS[3][1])))),
            "an event has no type, or is of two kinds", id="two-kinds",
        ),
        pytest.param(drawn.report(declared=(9, None, None)), "it declares 9 events and has 4",
                     id="count-of-events"),
        pytest.param(drawn.report(declared=(None, 4, None)), "it declares 4 texts and has 5",
                     id="count-of-texts"),
        pytest.param(drawn.report(declared=(None, None, 3)), "it declares 3 threads and has 1",
                     id="count-of-threads"),
        pytest.param(drawn.report([drawn.call(1, 2, name=77)]), "a text has a number beyond 4",
                     id="text"),
        pytest.param(drawn.report([drawn.kernel(1, 1 << 55)]),
                     "a time of CUPTI_ACTIVITY_KIND_KERNEL lies outside of the recording",
                     id="time"),
        pytest.param(drawn.report(strings=(*drawn.STRINGS, "work")),
                     "it declares 6 different texts and has 5", id="text-twice"),
        pytest.param(drawn.report([drawn.call(1, 2, name=5)], (*drawn.STRINGS, "cuda\x01Free")),
                     "a name has characters that no name has", id="name"),
        pytest.param(drawn.report([drawn.call(1, 2, name=5)], (*drawn.STRINGS, b"cuda\xffFree")),
                     "a name has characters that no name has", id="no-utf-8"),
        pytest.param(drawn.report(tail=[(15, ((1, 11), (4, 9), (6, 0)))]),
                     "a stream is of a process that has no context", id="stream"),
        pytest.param(drawn.report([drawn.kernel(1, 2 * 10**9 + 1)]),
                     "a time of CUPTI_ACTIVITY_KIND_KERNEL lies outside of the recording",
                     id="time-after-the-end"),
        pytest.param(drawn.report([drawn.kernel(1, 2, process=8)]),
                     "CUPTI_ACTIVITY_KIND_KERNEL has a context that the report does not list",
                     id="context"),
        pytest.param(drawn.report([((1, 48), (108, ((1, 1), (2, 2), (7, 3), (8, 0), (13, 9))))]),
                     "1 event of CALLS has no eventClass", id="field-missing"),
        pytest.param(drawn.report([drawn.kernel(1, 2, device=5)]),
                     "CUPTI_ACTIVITY_KIND_KERNEL has a device that the report does not list",
                     id="device"),
    ],
)  # fmt: skip
def test_damage_is_one_clear_error(tmp_path, data, fault):
    path = tmp_path / "damaged.nsys-rep"
    path.write_bytes(data)

    with pytest.raises(CorruptFileError) as caught:
        read_profile(path)

    assert caught.value.message == f"{path}: {fault}"
    assert caught.value.hint == "Copy it again from where it was recorded."


def test_whole_blocks_that_changed_places_are_noted_and_are_read_as_before(read):
    first, second = drawn.kernel(1, 2), drawn.kernel(5, 9)
    blocks = [drawn.block((1, event)) for event in (second, first)]

    profile = read(first, second, blocks=b"".join(blocks))

    assert rows(profile, "kernels", "start_ns") == [(1,), (5,)]
    assert profile.origin.warnings == (
        "1 time is out of order, as in no report of nsys 2023.4.1.1: it may be damaged",
    )


def test_a_report_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "cut.nsys-rep"
    for kept in range(1, len(WHOLE)):
        path.write_bytes(WHOLE[:kept])
        with pytest.raises(GpuprofError):
            read_profile(path, "nsys-rep")


def test_what_a_block_declares_takes_no_memory(tmp_path):
    path = tmp_path / "bomb.nsys-rep"
    path.write_bytes(drawn.report(blocks=BOMB))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError):
            read_profile(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_report_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(WHOLE)

    class Changing(Report):
        def __init__(self, path):
            super().__init__(path)
            path.write_bytes(WHOLE + b"\0")

    monkeypatch.setattr(reader, "Report", Changing)

    with pytest.raises(InputError, match="changed while it was read"):
        read_profile(path)


def test_a_report_that_changes_before_its_columns_are_asked_for_is_refused(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(WHOLE)
    profile = read_profile(path)
    path.write_bytes(drawn.report(drawn.EVENTS[:2]))

    with pytest.raises(InputError, match="changed while it was read"):
        profile.table("kernels")


def test_columns_that_are_expected_are_decoded_at_once_and_no_others(read, monkeypatch):
    profile, asked, decode = read(), [], nsys_reports.events

    def noted(data, layout):
        asked.append((layout.names, layout.members))
        return decode(data, layout)

    monkeypatch.setattr(nsys_reports, "events", noted)
    profile.expect({"kernels": ["start_ns"], "nvtx_ranges": ["range_kind"]})
    starts = [*profile.columns("kernels", "start_ns")]
    again = [*profile.columns("nvtx_ranges", "range_kind", texts={"range_kind": Words()})]

    assert [piece[0].tolist() for piece in starts + again] == [[10], [0]]
    assert [(sorted(names), sorted(map(len, members))) for names, members in asked] == [
        (["CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"], [2, 3]),
    ]


def test_where_a_check_fails_the_installed_nsys_is_asked(tmp_path, monkeypatch):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(drawn.report(declared=(9, None, None)))
    other = tmp_path / "other.nsys-rep"
    other.write_bytes(WHOLE)
    (tmp_path / "nsys").touch(mode=0o755)
    expected = read_profile(other)
    monkeypatch.setattr(reader, "reader_named", lambda _: SimpleNamespace(read=lambda _: expected))

    profile = read_profile(path)

    assert profile.origin.warnings == (
        "Read through nsys, since a check of the report failed: it declares 9 events and has 4",
    )


def test_nsys_is_asked_on_request(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(WHOLE)

    refused = commands.gpuprof("report", "--via", "nsys", path, PATH=str(tmp_path))

    assert refused.returncode == 1
    assert "can only be opened by nsys, which is not installed" in refused.stderr


class TestDecoders:
    """The compiled functions and those in Python give the same answers."""

    pytestmark = compiled

    def both(self, function, twin, data):
        answers = []
        for decode in (function, twin):
            try:
                answers.append(decode(data))
            except ReportError as error:
                answers.append(str(error))
        return answers

    def in_python(self, data):
        return nsys_reports._Decoder(nsys_reports.Layout(LAYOUT)).events(data)  # noqa: SLF001

    def check(self, data):
        one, other = self.both(
            lambda data: nsys_reports.events(data, nsys_reports.Layout(LAYOUT)),
            self.in_python,
            data,
        )
        if isinstance(one, str):
            assert one == other
            return False
        assert one.texts == other.texts
        assert one.without_table.tolist() == other.without_table.tolist()
        assert {n: c.tolist() for n, c in one.columns.items()} == {
            n: c.tolist() for n, c in other.columns.items()
        }
        return True

    def test_damaged_blocks_have_equal_answers(self):
        chance = random.Random(5)  # noqa: S311 - inputs of a test
        whole = drawn.block(*((1, event) for event in (*drawn.EVENTS, *drawn.EVENTS)))
        outcomes = Counter()
        for _ in range(1_000):
            data = bytearray(whole * chance.randint(1, 2))
            for _ in range(chance.randint(0, 3)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            del data[chance.randint(len(data) // 2, 3 * len(data)) :]
            outcomes[self.check(bytes(data))] += 1
        assert min(outcomes[True], outcomes[False]) > 100

    def test_matches_of_lz4_that_overlap_are_unpacked(self):
        packed = b"\x1fa\x01\x00\xff\x05" + b"\x50bcdef"
        size = 1 + 15 + 255 + 5 + 4 + 5
        inflated = nsys_reports.inflated(packed, size)

        assert inflated == b"a" * (size - 5) + b"bcdef"

    # Python takes a quarter of a minute for larger ones.
    @pytest.mark.parametrize("path", sorted([*CORPUS, *PAIRS], key=_size)[:6], ids=_name)
    def test_real_reports_have_equal_answers(self, path, monkeypatch):
        expected = read_profile(path)
        monkeypatch.setattr(nsys_reports, "library", lambda: None)

        again = read_profile(path)

        for name in expected.sources:
            assert again.table(name) == expected.table(name)


def counted(table):
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check_equal(profile, truth):
    assert profile.sources.keys() == truth.sources.keys()
    for name in truth.sources:
        assert counted(profile.table(name)) == counted(truth.table(name)), name


@pytest.mark.profilers
@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
@pytest.mark.parametrize("path", [*CORPUS, *([SAMPLE] if SAMPLE.exists() else [])], ids=_name)
def test_every_table_equals_what_nsys_exports(path):
    try:
        truth = read_profile(path, "nsys-export")
    except InputError:
        pytest.skip("a newer nsys recorded it")
    except GpuprofError as refusal:
        with pytest.raises(type(refusal)):
            read_profile(path)
        return
    profile = read_profile(path)

    check_equal(profile, truth)
    names = ("tool_version", "command", "epoch_ns", "recorded_at")
    for name in names:
        assert getattr(profile.origin, name) == getattr(truth.origin, name)


@pytest.mark.skipif(not PAIRS, reason="the recordings are not on this machine")
@pytest.mark.parametrize("path", PAIRS, ids=_name)
def test_every_table_equals_the_export_of_the_nsys_that_recorded(path):
    profile, truth = read_profile(path), read_profile(path.with_suffix(".sqlite"))

    check_equal(profile, truth)
    assert (profile.origin.epoch_ns, profile.origin.command) == (
        truth.origin.epoch_ns, truth.origin.command,
    )  # fmt: skip
