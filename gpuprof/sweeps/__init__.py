"""One program over a grid of options: its runs, one at a time, and their results.

    plan -> grid -> execution -> folder of runs -> results -> render

Each run is a folder that ``gpuprof record`` made, in a process of its own: the folders alone show
which runs have ended, so that a sweep resumes after a kill at any moment.
"""
