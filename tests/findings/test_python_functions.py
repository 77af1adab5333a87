"""Pauses in which the host was in functions of the program, where calls of Python were recorded."""

import pytest
from drawing import draw

from gpuprof.findings.findings import findings

US = 1_000
PYTHON = {"library": "python", "process_id": 100, "thread_id": 1}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
TORCH = "site-packages/torch/utils/data/dataloader.py(600): __next__"


def training(*functions, thread=1):
    """Steps of 1 ms: a kernel runs for 400 us, then the host loads for 500 us before it launches.

    Args:
        functions: Name, start and end in us of what Python is in, from where the step begins; of
            the whole recording without these.
        thread: The thread that launches.
    """
    kernels, calls, ranges, python = [], [], [], []
    for step in range(20):
        at, row = step * 1_000 * US, {"correlation_id": step}
        kernels.append((at + 550 * US, at + 950 * US, row))
        calls.append((at + 530 * US, at + 535 * US, row | {"thread_id": thread}))
        ranges.append((at, at + 1_000 * US, {"text": f"ProfilerStep#{step}"}))
        ranges.append((at + 10 * US, at + 510 * US, {"text": LOADER, "thread_id": thread}))
        python += [
            (at + start * US, at + end * US, PYTHON | {"name": name})
            for name, start, end in (of for of in functions if len(of) > 1)
        ]
    python += [
        (0, 20_000 * US, PYTHON | {"name": name})
        for (name,) in (f for f in functions if len(f) == 1)
    ]
    return draw(kernels=kernels, api_calls=calls, nvtx_ranges=ranges, host_calls=python)


@pytest.mark.parametrize("thread", [1, 2], ids=["of-python", "of-the-backward-pass"])
@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param(
            [
                ("train.py(9): main",),
                (TORCH, 10, 510),
                ("data/images.py(31): __getitem__", 20, 500),
            ],
            "% of it in data/images.py(31): __getitem__",
            id="innermost-of-the-program",
        ),
        pytest.param(
            [
                ("/home/me/train.py(9): main",),
                ("a.py(1): crop", 20, 220),
                ("a.py(9): flip", 220, 420),
            ],
            "% of it in /home/me/train.py(9): main",
            id="around-two-that-each-hold-less-than-half",
        ),
        pytest.param([(TORCH,), ("<frozen runpy>(1): run",)], "", id="none-of-the-program"),
        pytest.param([("train.py(9): log", 950, 1_000)], "", id="at-another-time"),
        pytest.param([], "", id="not-recorded"),
    ],
)
def test_a_pause_names_the_function_of_the_program_that_holds_most_of_it(
    functions, expected, thread
):
    [row] = [
        row
        for row in findings(training(*functions, thread=thread)).to_pylist()
        if row["cause"] == "host_late"
    ]

    assert f"of it in {LOADER}" in row["finding"]
    assert (expected in row["finding"]) if expected else (".py(" not in row["finding"])


def test_functions_are_not_read_for_little_time(monkeypatch):
    def refused(*_):
        pytest.fail("functions of Python were read")

    monkeypatch.setattr("gpuprof.findings.late_hosts.function_around", refused)
    first, second = ({"correlation_id": number} for number in (1, 2))
    profile = draw(
        kernels=[(0, 1_000 * US, first), (1_030 * US, 2_000 * US, second)],
        api_calls=[(-5, 0, first), (1_020 * US, 1_025 * US, second)],
        host_calls=[(0, 2_000 * US, PYTHON | {"name": "train.py(9): main"})],
    )

    assert "host_late" in {row["cause"] for row in findings(profile).to_pylist()}
