"""Made-up sequences with classes that a recurrent or convolutional model can learn."""

import numpy as np

FEATURES = 8
CLASSES = 4


def sequences(count: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of normal noise, and the class of each.

    The class is the one of the first four features whose sum over time is greatest; each
    sequence has 1.5 added to that feature in a fifth of its places, drawn at random.
    """
    random = np.random.default_rng(seed)
    values = random.normal(size=(count, length, FEATURES)).astype(np.float32)
    marked = random.integers(0, CLASSES, count)
    places = random.random((count, length)) < 0.2  # noqa: PLR2004 - as said above
    values[np.arange(count), :, marked] += (1.5 * places).astype(np.float32)
    return values, values[:, :, :CLASSES].sum(axis=1).argmax(axis=1).astype(np.int32)
