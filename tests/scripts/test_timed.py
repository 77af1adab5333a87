"""The loop that times the data-parallel scripts."""

import re
from argparse import Namespace
from itertools import count

from timed import print_times


def test_it_does_each_epoch_s_steps_after_one_more_and_sums_up_the_last(capsys):
    completed = count(1)

    print_times(lambda: next(completed), lambda step: step * 10.0, Namespace(epochs=2, steps=3))

    *epochs, average, checksum = capsys.readouterr().out.splitlines()
    assert [re.sub(r"\d+\.\d{3} s", "S", line) for line in epochs] == [
        "epoch 1/2: S",
        "epoch 2/2: S",
    ]
    assert re.fullmatch(r"average of 2 epochs: \d+\.\d{3} s", average)
    assert checksum == "checksum 70.000"  # one to trace, then two times three
