/* Events of XSpace files, decoded into columns: what `xspace_events.py` reads of each.
 *
 * Every size that the file states is checked against the bytes that it lies in. Whatever is not
 * known for certain is refused, and the caller reads the events one by one instead.
 */
#ifndef GPUPROF_XSPACE_EVENTS_H
#define GPUPROF_XSPACE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

/* Where the events lie that follow one another in a line from a place on; returns how many these
 * are and moves the place to what follows them. The bounds are not written where they are NULL. */
size_t event_places(const uint8_t *line, size_t size, size_t *place, uint32_t *begin,
                    uint32_t *end);

/* Columns with one value for each event, 0 at first; of values one such column for each slot. */
typedef struct {
    int64_t *metadata_id, *offset_ps, *duration_ps;
    int8_t *kind;   /* field number of a value in XStat; 0 where an event has none */
    int64_t *value; /* a number, or where in the line a text begins */
    int32_t *size;  /* bytes of a text */
} EventColumns;

/* Decodes events of a line. The values of key k go to slot slots[k], if that is not -1; of several
 * in one event the last counts. Returns 0, or what is not 0 for events that it does not know. */
int event_columns(const uint8_t *line, const uint32_t *begin, const uint32_t *end, size_t count,
                  const int8_t *slots, size_t keys, const EventColumns *columns);

#endif
