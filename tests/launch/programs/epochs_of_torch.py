"""Four epochs of five steps on the CPU; then as its arguments say; ends with status 7."""

import os
import sys
import time

import torch

import gpuprof

model = torch.nn.Linear(10, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(4):
    with gpuprof.epoch():
        for _ in range(5):
            with gpuprof.step(), torch.profiler.record_function(f"in epoch {number}"):
                optimizer.zero_grad()
                model(torch.ones(3, 10)).sum().backward()
                optimizer.step()
if "fork" in sys.argv:
    child = os.fork()
    if not child:
        os._exit(3)
    os.waitpid(child, 0)
match sys.argv[1:]:
    case ["own", path]:
        with torch.profiler.profile() as own:
            model(torch.ones(3, 10))
        own.export_chrome_trace(path)
    case ["signal", number, *_]:
        os.kill(os.getpid(), int(number))
        time.sleep(60)
sys.exit(7)
