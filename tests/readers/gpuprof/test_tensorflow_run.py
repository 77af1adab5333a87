import pytest
from tensorflow_runs import copy, document, graphs, taken, written

from gpuprof.base.errors import CorruptFileError
from gpuprof.readers import read_profile


def summary(folder, *copies):
    profile = read_profile(written(folder, document(*copies)))
    rows = profile.table("activity_summary").to_pylist()
    return {row["name"]: (row["calls"], row["total_ns"], row["bytes"]) for row in rows}


def test_no_copies_are_known_to_be_none(tmp_path):
    assert summary(tmp_path) == {"PtoP": (0, 0, 0)}


def test_copies_between_logical_devices_are_peer_transfers_of_unknown_time(tmp_path):
    copies = copy("a", 100), copy("b", 8, 5, function=None)

    assert summary(tmp_path, *copies) == {"PtoP": (15, None, 1040)}


def test_one_unknown_size_makes_the_sum_unknown(tmp_path):
    assert summary(tmp_path, copy("a", 100), copy("b", None)) == {"PtoP": (20, None, None)}


def test_control_edges_are_no_copies(tmp_path):
    assert summary(tmp_path, copy("a", None, is_control=True)) == {"PtoP": (0, 0, 0)}


def test_copies_between_host_and_gpu_have_a_direction(tmp_path):
    copies = (
        copy("a", 1, src_device="CPU:0", dst_device="GPU:1"),
        copy("b", 2, src_device="GPU:1", dst_device="CPU:0"),
        copy("c", 3, src_device="GPU:1", dst_device="GPU:0"),
    )

    assert summary(tmp_path, *copies) == {
        "PtoP": (10, None, 30),
        "HtoD": (10, None, 10),
        "DtoH": (10, None, 20),
    }


def test_tables_keep_every_column(tmp_path):
    profile = read_profile(written(tmp_path, document(copy("a", 100))))

    assert profile.table("tensor_copies").to_pylist() == [copy("a", 100) | {"bytes": 1000}]
    assert profile.table("operations").to_pylist() == document()["operations"]
    assert profile.table("functions").to_pylist() == document()["functions"]
    names = profile.table("devices").column("name").to_pylist()
    assert names == ["CPU:0", "CPU:1"]
    assert profile.origin.tool_version == "2.21.0"


def test_numbers_of_a_graph_become_the_names_that_they_stand_for(tmp_path):
    [graph] = graphs(
        [taken("w:0", "read", is_variable=True), taken("read:1", "b", "CPU:1", size=8)]
    )
    graph["variables"] = [[0, 400]]
    profile = read_profile(written(tmp_path, document(graphs=[graph])))

    assert profile.table("operation_inputs").to_pylist() == [
        taken("w:0", "read", is_variable=True),
        taken("read:1", "b", "CPU:1", size=8),
    ]
    assert profile.table("variables").to_pylist() == [
        {"function": "step", "variable": "w", "device": "CPU:0", "bytes": 400}
    ]


@pytest.mark.parametrize("number", [-1, 3])
def test_a_number_that_stands_for_no_operation_is_refused(tmp_path, number):
    [graph] = graphs([taken("a:0", "b")])
    graph["inputs"][0][2] = number
    with pytest.raises(CorruptFileError, match="a graph of 2 operations has none of the number"):
        read_profile(written(tmp_path, document(graphs=[graph])))


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        pytest.param({"notes": ["killed"]}, "killed", id="the-recorders-own"),
        pytest.param(
            {"windows": {"count": 3, "recorded_ns": 9, "span_ns": 10}},
            "TensorFlow's profiler ran for 90% of the time, in 3 windows. Calls are "
            "those within them; numbers per step are exact.",
            id="pauses",
        ),
        pytest.param(
            {"tensor_copies": [copy("a", None, 3), copy("b", 1, 4)]},
            "Sizes of 3 of 7 copies between devices are unknown.",
            id="unknown-sizes",
        ),
    ],
)
def test_what_limits_the_numbers_is_a_warning(tmp_path, changes, warning):
    profile = read_profile(written(tmp_path, document(**changes)))

    assert profile.origin.warnings == (warning,)


def test_what_is_not_needed_refuses_nothing_and_is_unknown(tmp_path):
    made = document(copy("a", "big"), process=[], windows=None, notes="killed")
    profile = read_profile(written(tmp_path, made))

    assert profile.table("tensor_copies").column("bytes").to_pylist() == [None]
    assert profile.table("devices").num_rows == 0
    assert profile.origin.warnings == (
        "It is unknown for which part of the time TensorFlow's profiler ran.",
        "Sizes of 10 of 10 copies between devices are unknown.",
    )


def test_a_whole_recording_has_no_warning(tmp_path):
    profile = read_profile(written(tmp_path, document(copy("a", 1))))

    assert profile.origin.warnings == ()


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(document(functions={"function": "step"}), id="not-a-list"),
        pytest.param(document(functions=["step"]), id="not-an-object"),
        pytest.param(document(copy("a", 1, calls=None)), id="calls-missing"),
        pytest.param({"format": "gpuprof-tensorflow", "format_version": 1}, id="tables-missing"),
    ],
)
def test_a_broken_document_is_an_error(tmp_path, broken):
    path = written(tmp_path, broken)

    with pytest.raises(CorruptFileError, match="breaks the rules of the format"):
        read_profile(path)
