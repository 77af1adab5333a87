"""Where the parts of a model run, and what their places cost."""
