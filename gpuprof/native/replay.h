/* When each instant of a recording comes: one sweep over its items in the order of time. */
#ifndef GPUPROF_REPLAY_H
#define GPUPROF_REPLAY_H

#include "arrays.h"

/* Items are calls, then operations, then others; item k starts at instant 2 * k and ends at
 * 2 * k + 1. As `Graph` in predict/graph.py. */
typedef struct {
    size_t calls, operations, items;
    const int64_t *time;
    Integers by_start;
    int64_t origin; /* nothing comes before */
} Items;

/* As `Weights` in predict/graph.py; edges are sorted by target. */
typedef struct {
    Integers work, call, duration, launch, follows, kind;
    Integers source, target, edge_kind, edge_ns;
    const int64_t *usual; /* of launches, streams and overlaps, a row of kinds each */
} Weights;

typedef struct {
    Integers moved; /* how much later each instant comes than measured; written to */
    int64_t lag, at; /* the longest lag, and its instant; 0 and -1 where there is none */
} Replayed;

/* An instant comes its lag after the latest of what it waits for. The lag is measured, with no
 * latency longer than measured, unless `no_lag`, which may be NULL, has a flag; or there is none
 * (`is_usual`). What waited for nothing comes as late after `origin` as measured. `ends` are those
 * ends, in the order of time, that wait for more than their starts.
 * ARRAYS_TOO_LARGE if a time does not fit into `moved`. */
ArraysStatus replay(const Items *items, const Weights *recorded, const Weights *changed,
                    int is_usual, const uint8_t *no_lag, Integers ends, Replayed *made);

/* From an instant back to one that waits for nothing: instants, and the kind of edge before each;
 * returns how many instants there are, or -1 for more than `room`. */
int64_t walk_back(const Items *items, const Weights *weights, Integers moved, int64_t from,
                  int64_t *instants, int8_t *kinds, size_t room);

#endif
