import json
import shutil

import pytest
from commands import CORPUS, DUAL, SINGLE, gpuprof, started

NVPROF = CORPUS / "nvprof-text"
needs_corpus = pytest.mark.skipif(
    not NVPROF.is_dir(), reason="the corpus of real logs is not beside this repository"
)
LOGS = [
    str(NVPROF / f"dlprof_{name}_profile.txt")
    for name in ("single_gpu", "dual_gpu_reasonable_placement", "dual_gpu_bad_placement")
]


def _compared(*arguments):
    done = gpuprof("compare", *arguments, "--format", "json")
    assert done.stderr == ""
    return json.loads(done.stdout)


# Seconds and calls as the three published logs give them.
DEEPCONN = {
    "gpu_activity_ns": (39.452, 50.294, 53.275),
    "kernel_ns": (36.499, 37.230, 37.232),
    "peer_transfer_ns": (0, 10.0978, 13.0696),
    "local_copy_ns": (2.327, 2.320, 2.320),
    "htod_ns": (0.410, 0.430, 0.436),
    "dtoh_ns": (0.118, 0.120, 0.121),
    "memset_ns": (0.098, 0.096, 0.096),
}


@needs_corpus
def test_the_deepconn_logs_give_what_they_printed():
    variants = list(_compared(*LOGS)["variants"].values())

    for metric, seconds in DEEPCONN.items():
        found = [variant[metric] / 1e9 for variant in variants]
        assert found == pytest.approx(seconds, abs=0.0005), metric
    assert [v["peer_transfer_calls"] for v in variants] == [0, 78_292, 94_774]
    shares = [v["peer_share"] for v in variants]
    assert shares == pytest.approx([0, 0.2008, 0.2453], abs=0.00005)


@pytest.fixture
def article(tmp_path):
    """The rows of three runs in one text, told apart by comments, as an article quotes them."""
    rows = [
        ("# exaggerated", "24.53%  13.0696s  94774  137.90us  4.3190us  994.70us"),
        ("# dual", "20.08%  10.0978s  78292  128.98us  4.3190us  893.33us"),
    ]
    head = "Time(%) Time Calls Avg Min Max Name\n"
    lines = "".join(f"{comment}\n{row}  [CUDA memcpy PtoP]\n" for comment, row in rows)
    path = tmp_path / "article.md"
    path.write_text(head + lines, encoding="utf-8")
    return path


def test_runs_of_one_text_are_compared_by_their_labels(article):
    labels = [f"--label={name}={article}" for name in ("far", "near")]

    document = _compared(*labels, "--section", "far=1", "--section", "near=dual")

    variants = document["variants"]
    assert {name: row["peer_transfer_ns"] for name, row in variants.items()} == {
        "far": 13_069_600_000,
        "near": 10_097_800_000,
    }


def test_runs_of_one_text_are_not_added_up_to_be_compared(article):
    done = gpuprof("compare", SINGLE, article)

    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {article} holds 2 recordings, which are not added up\n"
        "Hint: Name one with --section: 1 (exaggerated, 13.1 s of GPU time), "
        "2 (dual, 10.1 s of GPU time) or all.\n"
    )


def test_a_section_is_named_by_its_file(article):
    variants = _compared(SINGLE, article, "--section", f"{article}=2")["variants"]

    assert variants["article"]["peer_transfer_ns"] == 10_097_800_000


def test_a_section_of_what_is_not_compared_is_refused(article):
    done = gpuprof("compare", SINGLE, article, "--section", "atricle=2")

    assert done.returncode == 2
    assert done.stderr == (
        "Error: section of atricle: no recording has this label or path\n"
        "Hint: Name the file: --section FILE=N.\n"
    )


@needs_corpus
def test_the_first_file_is_the_baseline_and_an_option_names_another():
    labels = ["--label", f"one={LOGS[0]}", "--label", f"two={LOGS[1]}"]

    assert _compared(*labels)["baseline"] == "one"
    assert _compared(*labels, "--baseline", "two")["baseline"] == "two"


def test_a_label_and_a_file_may_hold_the_sign_between_them(tmp_path):
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    shutil.copy(SINGLE, folder / "single.txt")

    result = _compared(
        *("--label", f"lr=0.001={DUAL}", "--label", f"b={folder}/single.txt"),
        *("--epoch-seconds", "lr=0.001=2.5"),
    )

    assert [*result["variants"]] == ["lr=0.001", "b"]
    assert result["variants"]["lr=0.001"]["seconds_per_epoch"] == 2.5


def test_one_file_may_have_two_labels():
    result = _compared(DUAL, SINGLE, "--label", f"a={SINGLE}", "--label", f"b={SINGLE}")

    assert list(result["variants"]) == ["dual", "a", "b"]


def test_the_same_file_twice_is_said_to_be_the_same():
    result = _compared(SINGLE, SINGLE)

    assert result["verdict"] == "single (2) is the same recording as single: nothing differs."


def test_a_chart_is_drawn_into_a_file_but_not_over_another(tmp_path):
    chart = tmp_path / "chart.svg"
    chart.write_text("mine")

    refused = gpuprof("compare", SINGLE, DUAL, "--chart", chart)
    forced = gpuprof("compare", SINGLE, DUAL, "--chart", chart, "--force")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{chart} exists already" in refused.stderr
    assert forced.returncode == 0
    assert chart.read_bytes().startswith(b"<?xml")
    assert list(tmp_path.iterdir()) == [chart]


def test_a_gate_prints_the_result_and_ends_with_status_three(tmp_path):
    tests = tmp_path / "tests.xml"
    condition = "implied_gpu_activity_ns > 1.2x"

    done = gpuprof("compare", SINGLE, DUAL, "--fail-if", condition, "--junit", tests)

    assert done.returncode == 3
    assert done.stderr == (
        "Error: dual fails implied_gpu_activity_ns > 1.2x: it is 50.288 s, 1.274x of 39.459 s\n"
    )
    assert done.stdout.startswith("By the totals that the printed shares imply")
    assert 'failures="1"' in tests.read_text()


def test_a_gate_that_nothing_fails_ends_well():
    done = gpuprof("compare", SINGLE, DUAL, "--fail-if", "implied_gpu_activity_ns > 1.3x")

    assert (done.returncode, done.stderr) == (0, "")


def test_kernels_are_listed_as_csv():
    done = gpuprof("compare", SINGLE, DUAL, "--kernels", "--format", "csv")

    header, row = done.stdout.splitlines()
    assert header.startswith("variant,name,short_name,grid,block,status,")
    name = "void tensorflow::UnsortedSegmentCustomKernel..."
    assert row.startswith(f"dual,{name},{name},,,unlisted,")


def test_a_condition_that_is_true_is_said_though_nobody_reads_the_comparison():
    condition = ("--fail-if", "peer_transfer_calls > 0")
    with started("compare", SINGLE, DUAL, *condition) as compared:
        compared.stdout.close()
        said = compared.stderr.read()

    assert compared.returncode == 3
    assert said.startswith("Error: dual fails peer_transfer_calls > 0")
