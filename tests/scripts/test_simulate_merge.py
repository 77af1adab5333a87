"""The simulation of a large job's merges."""

import sys

import simulate_merge

RECORDING = "gpuprof/docs/recordings/staged.gpuprof"


def test_it_prints_sizes_times_and_memory(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["simulate_merge.py", RECORDING, "--ranks", "9"])

    simulate_merge.main()

    lines = capsys.readouterr().out.splitlines()
    starts = ("partial result of a rank:", "merged of 9 ranks:", "merges:", "report:", "memory")
    for start in starts:
        assert any(line.startswith(start) for line in lines)
    assert "median of 18 devices" in lines[-1]
