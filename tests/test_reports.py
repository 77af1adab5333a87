from pathlib import Path

import pytest
from commands import printed_by
from recordings import DUAL, PUBLISHED_DUAL, copy, kernel, summary, trace
from tensorflow_runs import copy as tensor_copy
from tensorflow_runs import document, written

from gpuprof.analyses import ANALYSES
from gpuprof.analyses.notes import cannot
from gpuprof.analyses.reports import report
from gpuprof.base.errors import UsageError
from gpuprof.model.data_model import BY_NAME
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.model.table import Selection
from gpuprof.readers import read_profile


def test_every_analysis_has_a_place_in_every_report():
    assert list(report(summary(*DUAL)).tables) == [*ANALYSES]


def test_what_a_summary_cannot_tell_is_none_with_the_reason():
    result = report(summary(*DUAL), ["totals", "breakdown", "peer_matrix"])

    assert result.tables["breakdown"] is None
    assert result.tables["peer_matrix"] is None
    (note,) = result.notes
    assert note.startswith("breakdown")
    assert "are n/a: the recording has no kernels or memcpys" in note
    assert "A printed nvprof summary has no timestamps, so overlap" in note


def test_a_trace_answers_what_a_summary_cannot():
    profile = trace(kernels=[kernel("a", 0, 5, device_id=0)], memcpys=[copy("HtoD", 3, 9)])

    assert report(profile).tables["breakdown"] is not None


def test_doubts_of_tool_and_reader_come_first_in_their_own_words():
    made = summary(*PUBLISHED_DUAL)
    told = ('nvprof reported: "dropped"', "sizes of 3 copies are unknown")
    origin = Origin(made.origin.source, "nvprof-text", "nvprof", warnings=told)

    notes = report(Profile(origin, made.sources)).notes

    assert notes[:2] == ('nvprof reported: "dropped".', "Sizes of 3 copies are unknown.")


def early(*milliseconds):
    """Kernels that start so many ms before the call that launched them."""
    kernels = [kernel("a", 0, 5, device_id=0, correlation_id=n) for n in range(len(milliseconds))]
    calls = [
        {"name": "launch", "start_ns": ms * 1_000_000, "end_ns": ms * 1_000_000 + 1}
        | {"correlation_id": n}
        for n, ms in enumerate(milliseconds)
    ]
    return trace(kernels=kernels, memcpys=[], api_calls=calls)


def test_clocks_that_disagree_are_said_where_the_host_is_asked_for():
    profile = early(1, 3, 2)

    [note] = report(profile, ["gaps", "utilisation"]).notes
    assert note == (
        "3 of 3 kernels and copies start before the call that launched them, by 2.00 ms in the "
        "median: the clocks of GPU and host disagree in this recording. Host activity is n/a in "
        "utilisation, gaps; all other figures are valid."
    )
    assert report(profile, ["breakdown"]).notes == ()
    assert report(early(-1, -3, 0), ["gaps"]).notes == ()


def test_graphs_recorded_as_a_whole_are_said_to_be_missing():
    for launches, said in (
        (1, "1 launch of a CUDA graph was recorded as a whole"),
        (1200, "1,200 launches of CUDA graphs were recorded as a whole"),
    ):
        profile = trace(kernels=[], memcpys=[], graph_launches=[{"graph_id": 1}] * launches)

        assert report(profile).notes[0].startswith(said)


def test_a_device_that_only_others_copied_to_is_not_said_to_idle():
    pulled = {"memcpy_kind": "PtoP", "src_device_id": 2, "dst_device_id": 0}
    profile = trace(
        kernels=[kernel("a", 0, 95, device_id=0)],
        memcpys=[
            {"start_ns": start, "end_ns": start + 1, "device_id": 0, **pulled} for start in (0, 99)
        ],
    )

    made = report(profile, ["findings", "breakdown"])

    assert [row["device_id"] for row in made.tables["breakdown"].to_pylist()] == [0, 2]
    assert {row["device_id"] for row in made.tables["findings"].to_pylist()} == {0}
    (note,) = made.notes
    assert note == (
        "Device 2 ran nothing in this recording; other devices copied from or to it. Its other"
        " activity, for example for another process, is unknown."
    )


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"kernels": [kernel("a", 0, 1, device_id=2)]}, id="kernel"),
        pytest.param({"memcpys": [{"device_id": 2, "memcpy_kind": "HtoD"}]}, id="copy"),
        pytest.param({"memcpys": [{"memcpy_kind": "PtoP", "src_device_id": 2}]}, id="unknown"),
    ],
)
def test_a_device_that_did_anything_itself_is_told_of(own):
    copy = {"device_id": 0, "memcpy_kind": "PtoP", "src_device_id": 2, "dst_device_id": 0}
    copies = [{"start_ns": 5, "end_ns": 9} | c for c in (copy, *own.get("memcpys", []))]
    profile = trace(kernels=own.get("kernels", []), memcpys=copies)

    assert report(profile, ["breakdown"]).notes == ()


def test_a_device_that_only_copies_beside_others_that_compute_waits_for_nothing():
    profile = trace(
        kernels=[kernel("a", 0, 100, device_id=0)],
        memcpys=[
            {"start_ns": start, "end_ns": start + 5, "device_id": 1, "memcpy_kind": "HtoD"}
            for start in (0, 90)
        ],
    )

    made = report(profile, ["findings", "breakdown"])
    of_one = report(profile.restricted(Selection(device_id=1)), ["findings", "breakdown"])

    assert made.tables["breakdown"].column("device_id").to_pylist() == [0, 1]
    assert made.tables["findings"].num_rows == 0
    (note,) = made.notes
    assert note == (
        "Device 1 ran no kernel in this recording, only copies or memsets: findings are about the"
        " others."
    )
    assert {row["device_id"] for row in of_one.tables["findings"].to_pylist()} == {1}


def test_what_few_recordings_know_is_told_missing_only_where_it_is_asked_for():
    (asked,) = report(trace(kernels=[kernel("a", 0, 5)]), ["tensor_transfers", "breakdown"]).notes
    of_all = report(trace(kernels=[kernel("a", 0, 5)])).notes

    assert "tensor_transfers" in asked
    assert not any("tensor_transfers" in note or "marked_epochs" in note for note in of_all)


def test_an_analysis_is_run_by_name():
    assert list(report(summary(*DUAL), ["totals"]).tables) == ["totals"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("total", "Did you mean totals?"), ("nothing", "Tables: bottom_line, findings, totals, ")],
)
def test_an_unknown_name_is_refused_with_the_near_ones_or_all(name, hint):
    with pytest.raises(UsageError, match=f"(?m)^there is no table {name}$") as caught:
        report(summary(*DUAL), [name])

    assert caught.value.hint.startswith(hint)


def test_a_recording_without_any_table_is_all_notes():
    result = report(Profile(summary().origin, {}))

    assert set(result.tables.values()) == {None}
    assert len(result.notes) == 1


def test_a_recording_of_tensors_answers_with_them(tmp_path):
    made = written(tmp_path, document(tensor_copy("item/flat", 1000)))

    tables = report(read_profile(made)).tables

    assert tables["tensor_transfers_per_step"].to_pylist()[0]["bytes_per_step"] == 1000
    assert tables["breakdown"] is None


def test_the_functions_are_public_even_after_their_modules_were_imported():
    code = (
        "import gpuprof.comparisons, gpuprof.analyses.reports, gpuprof.cli.comparing;"
        "import gpuprof.cli.reporting;"
        "print(callable(gpuprof.compare), callable(gpuprof.report))"
    )

    assert printed_by(code) == "True True\n"


@pytest.mark.parametrize(
    ("calls", "is_said"),
    [
        (["cudaLaunchKernel_v7000"], False),
        (["cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000"], True),
        (None, True),
    ],
)
def test_graphs_are_named_as_the_reason_only_where_some_were_launched(calls, is_said):
    rows = [{"start_ns": 0, "end_ns": 1, "name": name} for name in calls or ()]
    table = BY_NAME["api_calls"].table(rows)
    origin = Origin(Path("drawn.sqlite"), "nsys-sqlite", "nsys")
    profile = Profile(origin, {} if calls is None else {"api_calls": table})

    assert ("CUDA graphs" in cannot(profile)) is is_said
