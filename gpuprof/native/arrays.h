/* Sweeps over arrays of times: unions, differences, sums by group, launches and ranges. */
#ifndef GPUPROF_ARRAYS_H
#define GPUPROF_ARRAYS_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    ARRAYS_OK = 0,
    ARRAYS_UNSORTED,  /* starts that do not ascend, or sets that are not disjoint */
    ARRAYS_TOO_LARGE, /* a sum, an end or a group that the results cannot hold */
    ARRAYS_NO_MEMORY,
} ArraysStatus;

/* Signed integers of 1, 2, 4 or 8 bytes each. */
typedef struct {
    const void *values;
    size_t width;
    size_t count;
} Integers;

static inline int64_t at(Integers integers, size_t i) {
    switch (integers.width) {
    case 1: return ((const int8_t *)integers.values)[i];
    case 2: return ((const int16_t *)integers.values)[i];
    case 4: return ((const int32_t *)integers.values)[i];
    default: return ((const int64_t *)integers.values)[i];
    }
}

/* Sorted, disjoint intervals [start, end). */
typedef struct {
    int64_t *start;
    int64_t *end;
    size_t count;
} Intervals;

/* The union of the intervals of each key, of rows sorted by start.
 *
 * `bounds` has `keys + 1` places: the set of key k begins at bounds[k] and ends at bounds[k + 1].
 * From `made` on there is room for as many starts as there are rows, then for as many ends.
 */
ArraysStatus unions_of_keys(Integers start, Integers duration, Integers key, size_t keys,
                            int64_t *bounds, int64_t *made);

/* Parameters: a set of sorted, disjoint intervals. */
#define SET(name) \
    const int64_t *name##_start, const int64_t *name##_end, size_t name##_count

/* What the first set covers and the second does not, of that the intervals longer than `above`,
 * which is 0 or more; what both cover; or either of them, whose intervals may overlap but must be
 * sorted by start. From `made` on there is room for so many starts, then for
 * as many ends: for those of both sets together. Returns how many were made, or -1 for sets that
 * are not as they must be. */
int64_t difference_of(SET(a), SET(b), int64_t above, int64_t *made, size_t room);
int64_t intersection_of(SET(a), SET(b), int64_t *made, size_t room);
int64_t union_of(SET(a), SET(b), int64_t *made, size_t room);

/* What the intervals of a set before every BLOCK-th one cover. */
#define BLOCK 64
void covered_before(SET(set), int64_t *before);

/* How much of a set lies between each start and end; `before` is that of `covered_before`. */
void covered_within(SET(set), const int64_t *before, const int64_t *start, const int64_t *end,
                    size_t count, int64_t *covered);

/* Which of so many pairs, sorted, each row is: -1 for none. */
void pair_places(Integers first, Integers second, const int64_t *firsts, const int64_t *seconds,
                 size_t pairs, int32_t *places);

typedef struct {
    int64_t low, size, base; /* the least id, how many ids, and the first one's place */
} IdSpan;

/* The place of each row's id, where `span` is the number of its ids' span; -1 for none. */
ArraysStatus id_places(Integers span, Integers id, const IdSpan *spans, size_t count,
                       int64_t *places);

/* Chains the rows of each id, counted from 1: head[p] is the first one whose id has the place p,
 * and next[i] the one after row i; 0 for none. Both are 0 throughout at first; `head` has so much
 * room. */
ArraysStatus chain_ids(Integers span, Integers id, const IdSpan *spans, size_t count, size_t room,
                       int32_t *head, int32_t *next);

typedef struct {
    int32_t *row;
    int64_t *time;
    int32_t *lane;
    size_t count, room; /* so many rows are chained */
} Launched;

/* Adds the rows of each call's id, which has the span of the call's lane, with its start and lane;
 * a later call of the same id finds them no more. */
ArraysStatus take_chains(Integers lane, Integers id, Integers start, const IdSpan *spans,
                         size_t count, size_t room, int32_t *head, const int32_t *next,
                         Launched *made);

/* The first, or last, of the ranges, sorted by start, that are open at each of ascending times. */
ArraysStatus open_ranges(Integers start, Integers end, Integers times, int is_outermost,
                         int64_t *open);

/* The least start and the greatest end of the rows order[first] to order[last - 1]; 0 for none. */
ArraysStatus extents(Integers first, Integers last, Integers order, Integers start,
                     Integers duration, int64_t *least, int64_t *most);

/* Adds some values to those of their groups: group g goes on at made[next[g]], where next[g] is
 * then one further. `made` has room for all values, as wide as they are, and is written to. */
ArraysStatus gather_groups(Integers values, Integers group, size_t groups, int64_t *next,
                           Integers made);

#endif
