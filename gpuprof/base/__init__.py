"""What everything else stands on: errors, units, names of CUDA things, files, signals, secrets."""
