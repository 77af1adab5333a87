"""Run a program under a profiler: each recorder is one file and one line in `RECORDERS`.

Recording and analysing share only a file on disk.
"""
