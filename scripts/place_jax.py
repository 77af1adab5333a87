"""Where should the parts of a JAX model run? Two towers; no step is run.

`jax.make_jaxpr` gives the graph of a training step with its gradients, from shapes alone. The item
tower is on the second device, and so are its gradients and its weights.

    python scripts/place_jax.py
    python scripts/place_jax.py --gpus 2xV100 --link nvlink2
"""

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
from placing import parse, show

from gpuprof.place.from_programs import step_of_jaxpr

BATCH, LENGTH, WORDS, WIDTH, FEATURES = 128, 200, 5000, 64, 32
LEARNING_RATE: Final = 0.01


def tower(weights: dict[str, jax.Array], words: jax.Array, name: str) -> jax.Array:
    """The features of a batch of reviews."""
    with jax.named_scope(name):
        with jax.named_scope("embedding"):
            rows = weights["embedding"][words]
        with jax.named_scope("convolution"):
            windows = ("NHC", "HIO", "NHC")
            convolved = jax.lax.conv_general_dilated(
                rows, weights["filters"], (1,), "VALID", dimension_numbers=windows
            )
            pooled = jnp.tanh(convolved).max(axis=1)
        with jax.named_scope("dense"):
            return jax.nn.relu(pooled @ weights["dense"])


def loss(
    weights: dict[str, Any], user: jax.Array, item: jax.Array, ratings: jax.Array
) -> jax.Array:
    """Mean squared error of a batch."""
    pairs = (("user", user), ("item", item))
    features = jnp.concatenate([tower(weights[name], words, name) for name, words in pairs], 1)
    with jax.named_scope("head"):
        return jnp.mean((features @ weights["head"] - ratings) ** 2)


def step(weights: dict[str, Any], *batch: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
    """One step of gradient descent."""
    value, gradients = jax.value_and_grad(loss)(weights, *batch)
    return value, jax.tree.map(lambda w, g: w - LEARNING_RATE * g, weights, gradients)


def main(arguments: Sequence[str] | None = None) -> None:
    """Say what the step copies, and where its parts should be."""
    options = parse(__doc__, arguments)
    shape = jax.ShapeDtypeStruct
    tower = {
        "embedding": shape((WORDS, WIDTH), "float32"),
        "filters": shape((3, WIDTH, WIDTH), "float32"),
        "dense": shape((WIDTH, FEATURES), "float32"),
    }
    weights = {"user": tower, "item": tower, "head": shape((2 * FEATURES, 1), "float32")}
    words = shape((BATCH, LENGTH), "int32")
    jaxpr = jax.make_jaxpr(step)(weights, words, words, shape((BATCH, 1), "float32"))
    trained = range(len(jax.tree.leaves(weights)))
    show("place_jax.py", step_of_jaxpr(jaxpr, trained, {"": "0", "item": "1"}), options)


if __name__ == "__main__":
    main()
