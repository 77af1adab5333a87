"""What if: a recording as a dependency graph, replayed with changes.

The graph (`graph`) has an instant for every start and every end of GPU operations and CUDA calls
(`recorded`). An edge says that its target comes no earlier than its source plus a time. Each edge
has a provenance: *recorded* by the profiler, true by a *rule* of CUDA, or *inferred* from times
that fit.

The replay (`replay`) visits the instants in the order of time: each comes as soon as all its edges
allow, plus its lag. A lag is the recorded time beyond the usual time of such edges. With all lags
the replay is the recording, to the ns; with usual times only it differs by the *unexplained part*,
which is printed with each prediction. Above 5 % there is no prediction.

A change (`changes`) gives edges other times, or removes them; a link (`links`) gives the time of a
copy. Nothing is simulated: clocks, memory, caches and contention stay as they were recorded.

Like Daydream (Zhu et al., ATC 2020), dPRO (Hu et al., MLSys 2022), Lumos (Liang et al., MLSys
2025) and the critical path analysis of HTA, but for any program that uses CUDA, and with a check
of its own replay.
"""
