"""SQLite databases, read only: every column once, from pages or row by row."""
