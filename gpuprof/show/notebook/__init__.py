"""A result as a notebook or an interactive Python shows it: sentences, bars and small tables.

    result tables -> summary -> HTML fragment or text

The fragment has no scripts and loads nothing. It takes its colours from the notebook around it,
so that it fits light and dark themes.
"""
