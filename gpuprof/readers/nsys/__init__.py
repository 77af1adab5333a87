"""Nsight Systems: reports, SQLite exports and Parquet folders, which have the same tables."""
