"""Work over the files of a job of any number of ranks, on this machine's cores or on a cluster."""
