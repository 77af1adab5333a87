"""Sums by name and by kind, as profilers print them."""
