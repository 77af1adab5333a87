#include "replay.h"

#include <stdbool.h>
#include <stdlib.h>

/* Kinds of edges and places in tables, as in predict/graph.py. */
enum { DURATION, CALL, HOST_WORK, LAUNCH, STREAM, OVERLAP, NONE = -1 };
enum { APART = 1, WITHIN = 2, KINDS = 5 };

/* Of two edges or so an instant, calls of functions would take as long as the work in them. */
#define INLINED static inline __attribute__((always_inline))
/* So many items ahead, what the sweep reads next is fetched from memory. */
enum { AHEAD = 16 };

/* What an instant waits for: the latest time, its source and the kind of that edge. */
typedef struct {
    int64_t time, source;
    int kind;
    bool is_too_large;
} Latest;

/* A look at the graph: with the times of these weights, moved or not. */
typedef struct {
    const Items *items;
    const Weights *weights;
    const uint8_t *stored; /* a bit for each instant that stored edges lead to */
    const Integers *moved; /* NULL for measured times */
    bool is_least;         /* no latency is longer than measured */
} View;

INLINED void consider(const View *view, size_t target, int64_t source, int64_t ns, int kind,
                      bool is_latency, Latest *latest) {
    if (source < 0 || (size_t)source >= 2 * view->items->items) {
        latest->is_too_large = true;
        return;
    }
    int64_t time = view->items->time[source], slack;
    if (is_latency && view->is_least) {
        if (__builtin_sub_overflow(view->items->time[target], time, &slack))
            latest->is_too_large = true;
        else if (ns > slack) ns = slack;
    }
    int64_t moved = view->moved ? at(*view->moved, (size_t)source) : 0;
    if (__builtin_add_overflow(time, moved, &time) || __builtin_add_overflow(time, ns, &time))
        latest->is_too_large = true;
    else if (time > latest->time || (latest->kind == NONE && time == latest->time))
        latest->time = time, latest->source = source, latest->kind = kind;
}

static bool has_stored(const View *view, size_t instant) {
    return view->stored[instant / 8] >> (instant % 8) & 1;
}

static void consider_stored(const View *view, size_t instant, Latest *latest) {
    const Weights *w = view->weights;
    size_t low = 0;
    for (size_t high = w->target.count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (at(w->target, middle) < (int64_t)instant) low = middle + 1;
        else high = middle;
    }
    for (; low < w->target.count && at(w->target, low) == (int64_t)instant; low++)
        consider(view, instant, at(w->source, low), at(w->edge_ns, low),
                 (int)at(w->edge_kind, low), false, latest);
}

/* The edges that indices imply; whether there are any. */
INLINED bool consider_implied(const View *view, size_t instant, Latest *latest) {
    const Weights *w = view->weights;
    size_t item = instant / 2, o = item - view->items->calls;
    int64_t i = (int64_t)instant;
    if (item < view->items->calls) {
        if (instant % 2) {
            consider(view, instant, i - 1, at(w->call, item), CALL, false, latest);
            return true;
        }
        int64_t work = at(w->work, item);
        if (work >= 0) consider(view, instant, i - 1, work, HOST_WORK, false, latest);
        return work >= 0;
    }
    if (o >= view->items->operations) return false;
    if (instant % 2) {
        consider(view, instant, i - 1, at(w->duration, o), DURATION, false, latest);
        return true;
    }
    int64_t follows = at(w->follows, o), launch = at(w->launch, o), kind = at(w->kind, o);
    if (kind < 0 || kind >= KINDS || launch >= (int64_t)view->items->calls) {
        latest->is_too_large = true;
        return false;
    }
    const int64_t *usual = w->usual + kind;
    if (follows == APART) consider(view, instant, i - 1, usual[KINDS], STREAM, true, latest);
    if (follows == WITHIN) consider(view, instant, i - 2, usual[2 * KINDS], OVERLAP, true, latest);
    if (launch >= 0) consider(view, instant, 2 * launch, usual[0], LAUNCH, true, latest);
    return follows || launch >= 0;
}

INLINED Latest latest_of(const View *view, size_t instant, bool *is_any) {
    Latest latest = {view->items->origin, -1, NONE, false};
    bool is_stored = has_stored(view, instant);
    if (is_stored && instant % 2) consider_stored(view, instant, &latest);
    *is_any = consider_implied(view, instant, &latest) | is_stored;
    if (is_stored && instant % 2 == 0) consider_stored(view, instant, &latest);
    return latest;
}

static bool keep(Integers moved, size_t i, int64_t value) {
    if (moved.width == 4) {
        ((int32_t *)moved.values)[i] = (int32_t)value;
        return value == (int32_t)value;
    }
    ((int64_t *)moved.values)[i] = value;
    return moved.width == 8;
}

/* Whether an instant waits for any other. */
static bool waits(const View *view, size_t instant) {
    const Weights *w = view->weights;
    size_t item = instant / 2, o = item - view->items->calls;
    if (has_stored(view, instant)) return true;
    if (item < view->items->calls) return instant % 2 || at(w->work, item) >= 0;
    if (o >= view->items->operations) return false;
    return instant % 2 || at(w->follows, o) || at(w->launch, o) >= 0;
}

static ArraysStatus visit(const View *before, const View *after, bool is_usual,
                          const uint8_t *no_lag, size_t instant, Replayed *made) {
    int64_t time = before->items->time[instant], lag = 0, moved;
    if (!is_usual || !waits(before, instant)) {
        bool is_any;
        Latest recorded = latest_of(before, instant, &is_any);
        if (recorded.is_too_large || __builtin_sub_overflow(time, recorded.time, &lag))
            return ARRAYS_TOO_LARGE;
        if (is_any && lag > made->lag) made->lag = lag, made->at = (int64_t)instant;
        if (is_any && no_lag && no_lag[instant]) lag = 0;
    }
    bool is_any;
    Latest latest = latest_of(after, instant, &is_any);
    if (latest.is_too_large || __builtin_add_overflow(latest.time, lag, &moved) ||
        __builtin_sub_overflow(moved, time, &moved) || !keep(made->moved, instant, moved))
        return ARRAYS_TOO_LARGE;
    return ARRAYS_OK;
}

/* When an end comes that waits for its start alone; whether that can be told. */
INLINED bool end_after(int64_t started, int64_t takes, int64_t origin, int64_t *ends) {
    bool is_too_large = __builtin_add_overflow(started, takes, ends);
    if (*ends < origin) *ends = origin;
    return !is_too_large;
}

/* `visit` of the end of an item, where that waits for its start alone. */
static ArraysStatus visit_end(const View *before, const View *after, bool is_usual,
                              const uint8_t *no_lag, size_t item, Replayed *made) {
    const Items *items = before->items;
    size_t end = 2 * item + 1, o = item - items->calls;
    if (item >= items->calls && o >= items->operations)
        return visit(before, after, is_usual, no_lag, end, made);
    const Weights *was = before->weights, *is = after->weights;
    bool is_call = item < items->calls;
    int64_t started = items->time[end - 1], ended = items->time[end], lag = 0, ends;
    if (!is_usual) {
        int64_t took = is_call ? at(was->call, item) : at(was->duration, o);
        if (!end_after(started, took, items->origin, &ends) ||
            __builtin_sub_overflow(ended, ends, &lag))
            return ARRAYS_TOO_LARGE;
        if (lag > made->lag) made->lag = lag, made->at = (int64_t)end;
        if (no_lag && no_lag[end]) lag = 0;
    }
    int64_t takes = is_call ? at(is->call, item) : at(is->duration, o);
    if (__builtin_add_overflow(started, at(made->moved, end - 1), &started) ||
        !end_after(started, takes, items->origin, &ends) ||
        __builtin_add_overflow(ends, lag, &ends) || __builtin_sub_overflow(ends, ended, &ends) ||
        !keep(made->moved, end, ends))
        return ARRAYS_TOO_LARGE;
    return ARRAYS_OK;
}

/* Whether an end comes before a start: of equal times, that of the item that starts first. */
static bool is_before(const Items *items, size_t end, size_t start) {
    int64_t ends = items->time[end], starts = items->time[start], since = items->time[end - 1];
    return ends < starts ||
           (ends == starts && (since < starts || (since == starts && end < start)));
}

static void fetch(const Items *items, Integers moved, size_t item) {
    __builtin_prefetch(items->time + 2 * item);
    __builtin_prefetch((const char *)moved.values + 2 * item * moved.width, 1);
}

static ArraysStatus visit_all(const View *before, const View *after, bool is_usual,
                          const uint8_t *no_lag, Integers ends, Replayed *made) {
    const Items *items = before->items;
    made->lag = 0, made->at = -1;
    for (size_t s = 0, e = 0; s < items->items || e < ends.count;) {
        if (s + AHEAD < items->items)
            fetch(items, made->moved, (size_t)at(items->by_start, s + AHEAD));
        size_t start = s < items->items ? 2 * (size_t)at(items->by_start, s) : 0;
        size_t end = e < ends.count ? (size_t)at(ends, e) : 1;
        if (start >= 2 * items->items || end >= 2 * items->items || end % 2 == 0)
            return ARRAYS_TOO_LARGE;
        bool is_end = e < ends.count && (s == items->items || is_before(items, end, start));
        *(is_end ? &e : &s) += 1;
        ArraysStatus status = visit(before, after, is_usual, no_lag, is_end ? end : start, made);
        /* An end that only waits for its start comes at once. */
        if (!status && !is_end && !has_stored(before, start + 1) && !has_stored(after, start + 1))
            status = visit_end(before, after, is_usual, no_lag, start / 2, made);
        if (status) return status;
    }
    return ARRAYS_OK;
}

/* Which instants stored edges lead to; NULL without memory, or if a target is none. */
static uint8_t *stored_of(const Items *items, const Weights *weights) {
    uint8_t *stored = calloc(items->items / 4 + 1, 1);
    for (size_t i = 0; stored && i < weights->target.count; i++) {
        int64_t target = at(weights->target, i);
        if (target < 0 || (size_t)target >= 2 * items->items) {
            free(stored);
            return NULL;
        }
        stored[target / 8] |= (uint8_t)(1u << (target % 8));
    }
    return stored;
}

ArraysStatus replay(const Items *items, const Weights *recorded, const Weights *changed,
                    int is_usual, const uint8_t *no_lag, Integers ends, Replayed *made) {
    uint8_t *were = stored_of(items, recorded), *are = stored_of(items, changed);
    View before = {items, recorded, were, NULL, true};
    View after = {items, changed, are, &made->moved, !is_usual};
    ArraysStatus status = ARRAYS_NO_MEMORY;
    if (were && are) status = visit_all(&before, &after, is_usual, no_lag, ends, made);
    free(were);
    free(are);
    return status;
}

int64_t walk_back(const Items *items, const Weights *weights, Integers moved, int64_t from,
                  int64_t *instants, int8_t *kinds, size_t room) {
    uint8_t *stored = stored_of(items, weights);
    View view = {items, weights, stored, &moved, true};
    int64_t count = stored ? 0 : -1;
    while (count >= 0 && from >= 0 && (size_t)from < 2 * items->items) {
        bool is_any;
        if ((size_t)count == room) {
            count = -1;
            break;
        }
        Latest latest = latest_of(&view, (size_t)from, &is_any);
        instants[count] = from, kinds[count++] = (int8_t)latest.kind;
        from = latest.source;
    }
    free(stored);
    return count;
}
