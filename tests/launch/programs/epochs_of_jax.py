"""Four epochs of five steps on the CPU; then as its arguments say; ends with status 7."""

import os
import sys
import time

import jax
import jax.numpy as jnp

import gpuprof


@jax.jit
def work(x):
    return (x @ x).sum()


for number in range(4):
    with gpuprof.epoch(), jax.profiler.TraceAnnotation(f"in epoch {number}"):
        for _ in range(5):
            with gpuprof.step():
                work(jnp.ones((100, 100))).block_until_ready()
match sys.argv[1:]:
    case ["own", path]:
        with jax.profiler.trace(path):
            work(jnp.ones((10, 10))).block_until_ready()
    case ["signal", number]:
        os.kill(os.getpid(), int(number))
        time.sleep(60)
sys.exit(7)
