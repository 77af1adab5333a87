"""Figures and differences of recordings; no judgement."""
