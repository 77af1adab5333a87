"""Each field of the JSON that is read, replaced by every other type: no field that is not needed
refuses a file, and numbers that do not depend on it stay as they are.
"""

import copy
import gzip
import json
from collections import Counter
from dataclasses import replace

import pytest
import rocm
import test_kineto
import test_run_folder
import test_tf1_timeline
from contract import CORPUS, SAMPLES
from recording_checks import contents, differing
from tensorflow_runs import copy as tensor_copy
from tensorflow_runs import document

from gpuprof.base.errors import GpuprofError
from gpuprof.base.manifest import MANIFEST, MONITOR, finish_manifest

OTHERS = (None, True, 7, "text", [1], {"a": 1})


def kind(value):
    """JSON's type of a value; every number is of one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value)
    return float


def places(value, place=(), pattern=()):
    """The place of one value of each pattern, of those alike the last."""
    found = {pattern: place}
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= places(inner, (*place, key), (*pattern, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            label = inner.get("cat", "") if isinstance(inner, dict) else "*"
            found |= places(inner, (*place, number), (*pattern, f"[{label}]"))
    return found


def at(tree, place):
    for key in place:
        tree = tree[key]
    return tree


def changed(tree, place, value):
    if not place:
        return value
    made = copy.deepcopy(tree)
    at(made, place[:-1])[place[-1]] = value
    return made


class Document:
    """JSON in a file, how it is read, and what is needed of it.

    Args:
        tree: The document.
        path: Where it is written.
        reader: The format.
        needed: Last keys of places that may refuse the file.
        many: Last keys of places on which more than one row depends, with those rows' tables.
    """

    def __init__(self, tree, path, reader, needed, many=None):
        # No list or object of it is in two places.
        self.tree = json.loads(json.dumps(tree))
        self.path, self.reader = path, reader
        self.needed, self.many = needed, many or {}

    def write(self, tree):
        self.path.write_text(json.dumps(tree), encoding="utf-8")

    def read(self):
        source = self.path.parent if self.path.name in (MANIFEST, MONITOR) else self.path
        return contents(source, self.reader)

    def check_other_types(self, others=OTHERS):
        self.write(self.tree)
        before = self.read()
        for pattern, place in places(self.tree).items():
            for value in others:
                if kind(value) is not kind(at(self.tree, place)):
                    self.write(changed(self.tree, place, value))
                    self._check(pattern, value, before)

    def _check(self, pattern, value, before):
        last = pattern[-1] if pattern else ""
        after, message = self.outcome()
        if after is None:
            assert last in self.needed, (pattern, value, message)
            assert "\n" not in message
            return
        different = differing(before, after)
        for table, count in different.items():
            assert count <= 1 or table in self.many.get(last, ()), (pattern, value, different)

    def outcome(self):
        """The tables, or why there are none."""
        try:
            return self.read(), None
        except GpuprofError as error:
            return None, error.message

    def check_numbers_as_texts(self):
        self.write(self.tree)
        before = self.read()
        for pattern, place in places(self.tree).items():
            value = at(self.tree, place)
            if kind(value) is float:
                self.write(changed(self.tree, place, json.dumps(value)))
                assert differing(before, self.read()) == {}, pattern


def kineto(folder, tree):
    needed = {"", "traceEvents", "ts", "dur", *(f"[{c}]" for c in ("", *test_kineto.TABLE_OF))}
    events = tree if isinstance(tree, list) else tree["traceEvents"]
    needed |= {f"[{event.get('cat', '')}]" for event in events}
    many = {"deviceProperties": ("devices",)}
    return Document(tree, folder / "trace.json", "kineto", needed, many)


def excerpt(path):
    """A few events of each category and set of arguments of a real trace."""
    data = path.read_bytes()
    tree = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    events = tree if isinstance(tree, list) else tree["traceEvents"]
    kept, seen = [], Counter()
    for event in events:
        alike = (event.get("cat"), event.get("ph"), *sorted(event.get("args", {})))
        seen[alike] += 1
        if seen[alike] <= 2:
            kept.append(event)
    return kept if isinstance(tree, list) else {**tree, "traceEvents": kept}


def drawn_kineto():
    more = {
        "grid": [1, 2, 3], "block": [4, 5, 6], "registers per thread": 9, "graph node id": 4,
        "Collective name": "allreduce", "In msg nelems": 5, "Out msg nelems": 5,
        "Group size": 2, "Process Group Name": "0", "dtype": "Float", "correlation": 3,
    }  # fmt: skip
    where = test_kineto.WHERE
    event = test_kineto.event
    calls = [event("cuda_runtime", "cudaLaunchKernel", 5 + n, 1, correlation=n) for n in range(3)]
    peer = {"fromDevice": 0, "toDevice": 1, "inDevice": 0, "inContext": 1, "bytes": 64}
    events = [
        *calls,
        event("cuda_driver", "cuLaunchKernel", 9, 1, correlation=4),
        *(event("kernel", "nccl", 10 + n, 5, **where, **more) for n in range(2)),
        *(event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 20, 5, **peer) for _ in range(2)),
        *(event("gpu_memset", "Memset (Device)", 30, 5, **where, bytes=8) for _ in range(2)),
        *(event("cuda_sync", "Stream Sync", 40, 5, **where) for _ in range(2)),
        *(event("cpu_op", "aten::add", 3, 5) for _ in range(2)),
        *(event("user_annotation", "step", 2, 50) for _ in range(2)),
    ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, **rocm.DEVICE}, {"id": 1, **rocm.DEVICE}],
        "distributedInfo": {"rank": 1, "backend": "nccl"},
        "baseTimeNanoseconds": 1_719_853_884_000_000_000,
        "INFO": ["said"], "WARNING": ["warned"], "ERROR": ["failed"],
        "traceEvents": events,
    }  # fmt: skip


KINETO = {"cuda": drawn_kineto, "rocm": lambda: rocm.trace(*rocm.EVENTS)}
# A bare list with capitalised categories, one with synchronisations and one in nanoseconds.
REAL = [
    CORPUS / "kineto" / name
    for name in (
        "tb_resnet50_oldest_worker0.pt.trace.json.gz",
        "hta_critical_path__cuda_event_sync_multi_stream__event_sync_trace.json.gz",
        "kineto_docs_after_fix_trace.json",
    )
    if (CORPUS / "kineto").is_dir()
]


@pytest.mark.parametrize("name", KINETO)
def test_fields_of_a_drawn_trace_of_pytorch(tmp_path, name):
    trace = kineto(tmp_path, KINETO[name]())

    trace.check_other_types()
    trace.check_numbers_as_texts()


@pytest.mark.skipif(not REAL, reason="the corpus of real files is not here")
@pytest.mark.parametrize("path", REAL, ids=[p.name for p in REAL])
def test_fields_of_a_real_trace_of_pytorch(tmp_path, path):
    trace = kineto(tmp_path, excerpt(path))

    trace.check_other_types(("text", 7))
    trace.check_numbers_as_texts()


def test_fields_of_a_timeline_of_tensorflow_1(tmp_path):
    lane = test_tf1_timeline.event
    events = (
        lane(1, "MatMul", 100, 5), lane(1, "MEMCPYHtoD", 107, 3), lane(1, "MEMSET", 111, 1),
        lane(2, "MEMCPYHtoD", 107, 3), lane(1, "Assign", 120, 1), lane(2, "Assign", 120, 1),
    )  # fmt: skip
    path = test_tf1_timeline.written(tmp_path, *events)
    tree = json.loads(path.read_text(encoding="utf-8"))
    timeline = Document(tree, path, "tf1-timeline", {"", "traceEvents", "[]", "[Op]", "ts", "dur"})

    timeline.check_other_types()
    timeline.check_numbers_as_texts()


STATS = [
    {"Time (%)": 60.0, "Total Time (ns)": 6000, "Instances": 2, "Avg (ns)": 3000.0}
    | {"Med (ns)": 3000.0, "Min (ns)": 2900, "Max (ns)": 3100, "StdDev (ns)": 141.4, "Name": name}
    for name in ("gemm", "init", "scale")
]


def test_fields_of_a_table_of_nsys(tmp_path):
    needed = {"", "[]", "Total Time (ns)", "Instances"}
    table = Document(STATS, tmp_path / "stats.json", "nsys-stats", needed)

    table.check_other_types()
    table.check_numbers_as_texts()


def tensorflow():
    copies = [tensor_copy("a", 100), tensor_copy("b", 8, 5, function=None), tensor_copy("c", None)]
    return document(*copies)


SAMPLE = json.loads((SAMPLES / "tensorflow/2.21.0/deepconn-dual.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("tree", [tensorflow(), SAMPLE], ids=["drawn", "sample"])
def test_fields_of_a_recording_of_tensorflow(tmp_path, tree):
    needed = {
        "", "format_version", "functions", "operations", "tensor_copies", "[]", "function",
        "executions", "is_step", "operation", "device", "src_device", "dst_device", "tensor",
        "calls",
    }  # fmt: skip
    many = {
        "devices": ("devices",), "process": ("devices",), "is_control": ("activity_summary",),
        "calls": ("activity_summary",), "bytes_per_call": ("activity_summary",),
        "src_device": ("activity_summary",), "dst_device": ("activity_summary",),
    }  # fmt: skip
    recording = Document(tree, tmp_path / "tensorflow-7.json", "tensorflow-run", needed, many)

    recording.check_other_types()
    recording.check_numbers_as_texts()


def test_fields_of_a_manifest(tmp_path):
    (tmp_path / "log.txt").write_text(test_run_folder.LOG, encoding="utf-8")
    epoch = {"seconds": 1.5, "steps": 16, "started_at_unix_ns": 1_700_000_000_000_000_000}
    run = replace(
        test_run_folder.RUN,
        wall_seconds=4.5,
        versions={"nsys": "2023.4"},
        packages={"torch": "2.4"},
        environment={"RANK": "0"},
        git={"commit": "abc", "is_dirty": False},
        devices=({"name": "V100", "index": 0},),
        epochs=({"epoch": 0, **epoch}, {"epoch": 1, **epoch}),
        processes=({"process_id": 7, "rank": 0, "epochs": 2, "seconds_per_epoch": 1.5},),
        seconds_per_epoch=1.5,
        seconds_per_step=0.1,
        warnings=("Something to know.",),
    )
    finish_manifest(tmp_path, run)
    path = tmp_path / MANIFEST
    needed = {
        "", "format", "recorder", "command", "started_at", "recordings", "[*]",
        "epochs", "[]", "epoch", "seconds", "nothing_recorded",
    }  # fmt: skip
    tree = json.loads(path.read_text(encoding="utf-8"))
    manifest = Document(tree, path, "run", needed, {"epochs": ("epochs",)})

    manifest.check_other_types()
    manifest.check_numbers_as_texts()


def test_fields_of_a_sample_of_the_monitor(tmp_path):
    (tmp_path / "log.txt").write_text(test_run_folder.LOG, encoding="utf-8")
    finish_manifest(tmp_path, test_run_folder.RUN)
    sample = {"unix_ns": 1_700_000_000_000_000_000, "device_id": 0, "power_w": 70.5}
    sample |= {"memory_used_bytes": 5, "more": [1]}
    monitor = Document(sample, tmp_path / MONITOR, "run", {"unix_ns"})

    monitor.check_other_types()
    monitor.check_numbers_as_texts()
