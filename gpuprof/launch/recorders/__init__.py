"""One recorder per file, with what only it needs."""
