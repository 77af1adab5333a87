"""SQLite databases, read only: every column once, from pages, by Arrow's driver or row by row."""
