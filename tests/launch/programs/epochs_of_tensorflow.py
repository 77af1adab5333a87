"""Six epochs of ten steps each, the steps on two logical devices."""

import time

from two_devices import training_step

import gpuprof

for _ in range(6):
    with gpuprof.epoch():
        for _ in range(10):
            with gpuprof.step():
                training_step()
        time.sleep(0.2)
