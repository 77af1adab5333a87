"""Train any Keras model as towers: a copy per device, each batch split evenly among them.

    model = gpuprof.towers.Towers(model, devices=["/GPU:0", "/GPU:1"])
    model.compile(optimizer, loss, metrics)
    model.fit(dataset, epochs=15, callbacks=[gpuprof.KerasCallback()])

TensorFlow and Keras are imported when the first of these names is used.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Towers": "gpuprof.towers.model",
    "tower_devices": "gpuprof.towers.model",
    "TowersConfig": "gpuprof.towers.config",
    "read_config": "gpuprof.towers.config",
}

__all__ = ["Towers", "TowersConfig", "read_config", "tower_devices"]


def __getattr__(name: str) -> Any:
    """Import a public name from its home on first use (PEP 562)."""
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOME[name]), name)
