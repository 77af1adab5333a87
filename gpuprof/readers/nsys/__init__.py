"""Nsight Systems: reports, SQLite exports and Parquet folders, one set of SELECTs for all."""
