"""Profile -> table: each analysis is one pure function in one file and one line in `ANALYSES`."""
