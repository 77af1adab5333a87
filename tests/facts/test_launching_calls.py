import numpy as np

from gpuprof.facts.numbers import Pairs


def numbered(pairs, *values):
    array = np.array(values)
    return pairs.of(array, array).tolist()


def test_pairs_keep_their_numbers_whatever_is_met_after_them():
    pairs = Pairs()
    for value in (5, 3, 7, 1, 9):
        pairs.learn(np.array([value]), np.array([value]))

    assert numbered(pairs, 5, 3, 7, 1, 9) == [0, 1, 2, 3, 4]
    assert pairs.values[0].tolist() == [5, 3, 7, 1, 9]
