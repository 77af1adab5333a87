#include "arrays.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- unions */

typedef struct {
    int64_t start, end;
    bool is_open;
} Open;

/* One sweep that counts the intervals of each key (made has no room), or writes them. */
static ArraysStatus sweep(Integers start, Integers duration, Integers key, size_t keys, Open *open,
                          int64_t *next, Intervals made) {
    int64_t before = INT64_MIN;
    memset(open, 0, keys * sizeof *open);
    for (size_t i = 0; i < start.count; i++) {
        int64_t first = at(start, i), length = at(duration, i), k = at(key, i), end;
        if (first < before) return ARRAYS_UNSORTED;
        before = first;
        if (length <= 0) continue;
        if (k < 0 || (size_t)k >= keys || __builtin_add_overflow(first, length, &end))
            return ARRAYS_TOO_LARGE;
        Open *now = &open[k];
        if (now->is_open && first <= now->end) {
            if (end > now->end) now->end = end;
            continue;
        }
        if (now->is_open && made.start) {
            made.start[next[k]] = now->start;
            made.end[next[k]] = now->end;
        }
        next[k] += now->is_open;
        *now = (Open){first, end, true};
    }
    for (size_t k = 0; k < keys; k++) {
        if (open[k].is_open && made.start) {
            made.start[next[k]] = open[k].start;
            made.end[next[k]] = open[k].end;
        }
        next[k] += open[k].is_open;
    }
    return ARRAYS_OK;
}

static ArraysStatus sweep_twice(Integers start, Integers duration, Integers key, size_t keys,
                                Open *open, int64_t *next, int64_t *bounds, int64_t *made) {
    memset(next, 0, keys * sizeof *next);
    ArraysStatus status = sweep(start, duration, key, keys, open, next, (Intervals){0});
    if (status) return status;
    bounds[0] = 0;
    for (size_t k = 0; k < keys; k++) {
        bounds[k + 1] = bounds[k] + next[k];
        next[k] = bounds[k];
    }
    Intervals all = {made, made + start.count, start.count};
    return sweep(start, duration, key, keys, open, next, all);
}

ArraysStatus unions_of_keys(Integers start, Integers duration, Integers key, size_t keys,
                            int64_t *bounds, int64_t *made) {
    Open *open = malloc((keys + 1) * sizeof *open);
    int64_t *next = malloc((keys + 1) * sizeof *next);
    ArraysStatus status = ARRAYS_NO_MEMORY;
    if (open && next) status = sweep_twice(start, duration, key, keys, open, next, bounds, made);
    free(open);
    free(next);
    return status;
}

/* Adds [start, end) to a set with room for so many; false where there is none. */
static bool add_interval(Intervals *set, size_t room, int64_t start, int64_t end) {
    if (set->count == room) return false;
    set->start[set->count] = start;
    set->end[set->count++] = end;
    return true;
}

/* The same, or makes the last interval longer where that is not over yet. */
static void join_interval(Intervals *set, size_t room, int64_t start, int64_t end) {
    if (!set->count || start > set->end[set->count - 1])
        (void)add_interval(set, room, start, end);
    else if (end > set->end[set->count - 1])
        set->end[set->count - 1] = end;
}

static bool is_longer(int64_t start, int64_t end, int64_t above) {
    return end > start && (uint64_t)end - (uint64_t)start > (uint64_t)above;
}

int64_t difference_of(SET(a), SET(b), int64_t above, int64_t *made, size_t room) {
    Intervals left = {made, made + room, 0};
    for (size_t i = 0, j = 0; i < a_count; i++) {
        int64_t start = a_start[i], end = a_end[i];
        while (j < b_count && b_end[j] <= start) j++;
        for (size_t k = j; k < b_count && b_start[k] < end && start < end; k++) {
            if (is_longer(start, b_start[k], above) &&
                !add_interval(&left, room, start, b_start[k]))
                return -1;
            start = b_end[k];
        }
        if (is_longer(start, end, above) && !add_interval(&left, room, start, end)) return -1;
    }
    return (int64_t)left.count;
}

int64_t intersection_of(SET(a), SET(b), int64_t *made, size_t room) {
    Intervals both = {made, made + room, 0};
    for (size_t i = 0, j = 0; i < a_count && j < b_count;) {
        int64_t start = a_start[i] > b_start[j] ? a_start[i] : b_start[j];
        int64_t end = a_end[i] < b_end[j] ? a_end[i] : b_end[j];
        if (start < end) join_interval(&both, room, start, end);
        *(a_end[i] < b_end[j] ? &i : &j) += 1;
    }
    return (int64_t)both.count;
}

int64_t union_of(SET(a), SET(b), int64_t *made, size_t room) {
    Intervals either = {made, made + room, 0};
    int64_t last = INT64_MIN;
    for (size_t i = 0, j = 0; i < a_count || j < b_count;) {
        bool is_of_a = j == b_count || (i < a_count && a_start[i] <= b_start[j]);
        int64_t start = is_of_a ? a_start[i] : b_start[j];
        int64_t end = is_of_a ? a_end[i++] : b_end[j++];
        if (end <= start) continue;
        if (start < last) return -1;
        last = start;
        join_interval(&either, room, start, end);
    }
    return (int64_t)either.count;
}

typedef struct {
    size_t low, summed;
    uint64_t sum; /* of the first `summed` intervals */
} Before;

/* What lies before a time: fastest where few intervals start between it and the one before it. */
static uint64_t covered_to(SET(set), const int64_t *before, Before *last, int64_t time) {
    size_t low = last->low, high = low, step = 1, summed = last->summed;
    uint64_t sum = last->sum;
    if (low && set_start[low - 1] > time) low = 0;
    else high = set_count;
    for (; low + step < high && set_start[low + step - 1] <= time; step *= 2) low += step;
    if (low + step < high) high = low + step;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set_start[middle] <= time) low = middle + 1;
        else high = middle;
    }
    bool reaches = low && set_end[low - 1] > time;
    uint64_t beyond = reaches ? (uint64_t)set_end[low - 1] - (uint64_t)time : 0;
    if (low < summed || low - summed > BLOCK) {
        summed = low - low % BLOCK;
        sum = (uint64_t)before[low / BLOCK];
    }
    for (; summed < low; summed++)
        sum += (uint64_t)set_end[summed] - (uint64_t)set_start[summed];
    *last = (Before){low, summed, sum};
    return sum - beyond;
}

void covered_within(SET(set), const int64_t *before, const int64_t *start, const int64_t *end,
                    size_t count, int64_t *covered) {
    Before first = {0}, last = {0};
    for (size_t i = 0; i < count; i++)
        covered[i] = (int64_t)(
            covered_to(set_start, set_end, set_count, before, &last, end[i]) -
            covered_to(set_start, set_end, set_count, before, &first, start[i]));
}

void covered_before(SET(set), int64_t *before) {
    uint64_t sum = 0;
    for (size_t i = 0;; i++) {
        if (i % BLOCK == 0) before[i / BLOCK] = (int64_t)sum;
        if (i == set_count) break;
        sum += (uint64_t)set_end[i] - (uint64_t)set_start[i];
    }
}

/* ---------------------------------------------------------------- launches and ranges */

void pair_places(Integers first, Integers second, const int64_t *firsts, const int64_t *seconds,
                 size_t pairs, int32_t *places) {
    uint32_t recent[4096] = {0}; /* rows of few threads alternate, and kernels of a step return */
    for (size_t i = 0; i < first.count; i++) {
        int64_t a = at(first, i), b = at(second, i);
        uint64_t mixed = ((uint64_t)a * 0xD6E8FEB86659FD93u + (uint64_t)b) * 0x9E3779B97F4A7C15u;
        size_t slot = mixed >> 52, low = recent[slot];
        if (pairs && (firsts[low] != a || seconds[low] != b)) {
            low = 0;
            for (size_t high = pairs; high - low > 1;) {
                size_t middle = low + (high - low) / 2;
                bool is_less = firsts[middle] < a || (firsts[middle] == a && seconds[middle] <= b);
                *(is_less ? &low : &high) = middle;
            }
            recent[slot] = (uint32_t)low;
        }
        places[i] = pairs && firsts[low] == a && seconds[low] == b ? (int32_t)low : -1;
    }
}

static int64_t place_of(const IdSpan *ids, int64_t id) {
    int64_t offset;
    if (__builtin_sub_overflow(id, ids->low, &offset) || offset < 0) return -1;
    return offset < ids->size ? (int64_t)((uint64_t)ids->base + (uint64_t)offset) : -1;
}

ArraysStatus id_places(Integers span, Integers id, const IdSpan *spans, size_t count,
                       int64_t *places) {
    for (size_t i = 0; i < span.count; i++) {
        int64_t number = at(span, i);
        if (number >= 0 && (size_t)number >= count) return ARRAYS_TOO_LARGE;
        places[i] = number < 0 ? -1 : place_of(&spans[number], at(id, i));
    }
    return ARRAYS_OK;
}

ArraysStatus chain_ids(Integers span, Integers id, const IdSpan *spans, size_t count, size_t room,
                       int32_t *head, int32_t *next) {
    if (span.count >= INT32_MAX) return ARRAYS_TOO_LARGE;
    for (size_t i = span.count; i-- > 0;) {
        int64_t number = at(span, i);
        if (number >= 0 && (size_t)number >= count) return ARRAYS_TOO_LARGE;
        int64_t place = number < 0 ? -1 : place_of(&spans[number], at(id, i));
        if (place >= 0 && (size_t)place >= room) return ARRAYS_TOO_LARGE;
        if (place < 0) continue;
        if (head[place]) next[i] = head[place];
        head[place] = (int32_t)i + 1;
    }
    return ARRAYS_OK;
}

ArraysStatus take_chains(Integers lane, Integers id, Integers start, const IdSpan *spans,
                         size_t count, size_t room, int32_t *head, const int32_t *next,
                         Launched *made) {
    for (size_t i = 0; i < lane.count; i++) {
        int64_t number = at(lane, i);
        if (number < 0 || (size_t)number >= count) return ARRAYS_TOO_LARGE;
        int64_t place = place_of(&spans[number], at(id, i));
        if (place < 0 || (size_t)place >= room) continue;
        for (int64_t row = head[place]; row > 0; row = next[row - 1]) {
            if ((size_t)row > made->room || made->count >= made->room) return ARRAYS_TOO_LARGE;
            made->row[made->count] = (int32_t)row - 1;
            made->time[made->count] = at(start, i);
            made->lane[made->count++] = (int32_t)number;
        }
        head[place] = 0;
    }
    return ARRAYS_OK;
}

ArraysStatus open_ranges(Integers start, Integers end, Integers times, int is_outermost,
                         int64_t *open) {
    size_t *stack = malloc((start.count + 1) * sizeof *stack), low = 0, high = 0, next = 0;
    if (!stack) return ARRAYS_NO_MEMORY;
    for (size_t i = 0; i < times.count; i++) {
        int64_t time = at(times, i);
        for (; next < start.count && at(start, next) <= time; next++) stack[high++] = next;
        while (low < high && at(end, stack[high - 1]) <= time) high--;
        while (low < high && at(end, stack[low]) <= time) low++;
        open[i] = low == high ? -1 : (int64_t)stack[is_outermost ? low : high - 1];
    }
    free(stack);
    return ARRAYS_OK;
}

ArraysStatus extents(Integers first, Integers last, Integers order, Integers start,
                     Integers duration, int64_t *least, int64_t *most) {
    for (size_t i = 0; i < first.count; i++) {
        int64_t low = at(first, i), high = at(last, i);
        least[i] = low < high ? INT64_MAX : 0, most[i] = low < high ? INT64_MIN : 0;
        if (low >= high) continue;
        if (low < 0 || (size_t)high > order.count) return ARRAYS_TOO_LARGE;
        for (size_t k = (size_t)low; k < (size_t)high; k++) {
            int64_t row = at(order, k);
            int64_t begun, end;
            if (row < 0 || (size_t)row >= start.count || (size_t)row >= duration.count)
                return ARRAYS_TOO_LARGE;
            begun = at(start, (size_t)row);
            if (__builtin_add_overflow(begun, at(duration, (size_t)row), &end))
                return ARRAYS_TOO_LARGE;
            if (begun < least[i]) least[i] = begun;
            if (end > most[i]) most[i] = end;
        }
    }
    return ARRAYS_OK;
}

/* ---------------------------------------------------------------- groups */

static void copy(Integers from, size_t i, Integers into, size_t j) {
    void *values = (void *)into.values;
    switch (from.width) {
    case 1: ((int8_t *)values)[j] = ((const int8_t *)from.values)[i]; break;
    case 2: ((int16_t *)values)[j] = ((const int16_t *)from.values)[i]; break;
    case 4: ((int32_t *)values)[j] = ((const int32_t *)from.values)[i]; break;
    default: ((int64_t *)values)[j] = ((const int64_t *)from.values)[i];
    }
}

ArraysStatus gather_groups(Integers values, Integers group, size_t groups, int64_t *next,
                           Integers made) {
    if (values.width != made.width) return ARRAYS_TOO_LARGE;
    for (size_t i = 0; i < values.count; i++) {
        int64_t g = at(group, i);
        if (g < 0 || (size_t)g >= groups || next[g] < 0 || (size_t)next[g] >= made.count)
            return ARRAYS_TOO_LARGE;
        copy(values, i, made, (size_t)next[g]++);
    }
    return ARRAYS_OK;
}
