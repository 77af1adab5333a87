"""The sentences of a comparison."""
