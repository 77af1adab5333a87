"""One program over a grid of options: its runs, one at a time, and what they show together.

    plan -> grid -> execution -> folder of runs -> results -> render

Each run is a folder that ``gpuprof record`` made, in a process of its own: what has ended is
known from the folders alone, so that a sweep goes on after a kill at any moment.
"""
