"""What if: a recording as a graph of what waits for what, replayed with some of it changed.

The graph (`graph`) has an instant for every start and every end: of GPU operations and of CUDA
calls (`recorded`). An edge says that an instant comes no earlier than another one and a time after
it. Where an edge comes from is kept: *recorded* by the profiler, true by a *rule* of CUDA, or
*inferred* from times that fit.

The replay (`replay`) takes each instant in the order of time: it comes as soon as all its edges
allow, and its own lag later. A lag is what the recording shows beyond the usual time of such
edges. With all of its own lags the replay is the recording, to the ns; with usual times alone it
differs by the *unexplained part*, which stands with each answer. Above 5 % there is none.

A change (`changes`) gives edges other times, or takes them away; a link (`links`) says what a copy
takes. Nothing is simulated: clocks, memory, caches and contention stay as they were recorded.

Like Daydream (Zhu et al., ATC 2020), dPRO (Hu et al., MLSys 2022), Lumos (Liang et al., MLSys
2025) and the critical path analysis of HTA, but for any program that uses CUDA, and with a check
of itself.
"""
