/* Events of a trace viewer's JSON, read piece by piece: times, ids, and a number for what is alike.
 *
 * Of each event that is asked for, only its times and its correlation are kept, and the number of
 * its `attributes`: an event of JSON with its name, process, thread and some arguments, as printed.
 * All that a decoder would not read the same way is refused with `EVENTS_ODD`: the caller then
 * decodes the text by other means.
 * Source: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (the
 * Trace Event Format), RFC 8259.
 */
#ifndef GPUPROF_TRACE_EVENTS_H
#define GPUPROF_TRACE_EVENTS_H

#include "pages.h"

enum { MOST_KINDS = 32, MOST_ARGUMENTS = 64 };

/* What is kept of the events of a kind. */
typedef enum { PRESENCE, TIMES, ARGUMENTS } Detail;

typedef enum {
    EVENTS_OK = 0,
    EVENTS_ODD,
    EVENTS_NO_MEMORY,
} EventsStatus;

typedef struct {
    const char *text;
    size_t size;
} Word;

/* What is asked for. The words stay the caller's, and are there until the end. */
typedef struct {
    const Word *categories; /* by value of "cat" */
    const int32_t *kinds;   /* the kind of each, from 0 on; several categories may be of one kind */
    size_t category_count;
    const uint8_t *details; /* by kind, each a `Detail` */
    const Word *arguments;        /* by name; the last one is the correlation */
    size_t argument_count;
} Wanted;

/* The events of one kind. */
typedef struct {
    int32_t *attributes; /* number in `texts` */
    int64_t *start_ns;
    int64_t *duration_ns;
    int64_t *correlation; /* -1 for none */
    size_t count;
    size_t room;
    Texts *texts;
    int32_t is_present;    /* whether there is any event of its categories */
    int32_t has_fractions; /* whether a start has parts of a microsecond */
} EventRows;

typedef struct Scan Scan;

Scan *scan_new(const Wanted *wanted);
void scan_free(Scan *scan);

/* Reads all events that end within a piece of the text.
 *
 * `used` is how many of its bytes were read: what is left comes first in the next piece. */
EventsStatus scan_piece(Scan *scan, const uint8_t *piece, size_t size, size_t *used);

/* Whether the text ended where it may end. */
int32_t scan_is_complete(const Scan *scan);

/* The members beside "traceEvents", each with a comma behind it. */
const char *scan_members(const Scan *scan, size_t *size);

EventRows *scan_rows(Scan *scan, size_t kind);

#endif
