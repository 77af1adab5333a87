"""What gpuprof itself writes: folders of runs, what its recorders leave, its own file."""
