"""Marks epochs of a tenth of a second each, and ends with status 7."""

import sys
import time

import gpuprof

for _ in range(int(sys.argv[1])):
    with gpuprof.epoch(), gpuprof.step():
        time.sleep(0.1)
sys.stdout.write("end of program\n")
sys.exit(7)
