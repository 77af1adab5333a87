"""TensorFlow without what it uses where it is installed: that is half of the time of its start."""

import sys


class WithoutExtras:
    def find_spec(self, name, _path=None, _target=None):
        started = sys.modules.keys() & {"keras", "tensorflow"}
        if name in {"IPython", "jax", "matplotlib", "pandas"} and started:
            raise ModuleNotFoundError(name=name)


sys.meta_path.insert(0, WithoutExtras())
