#include "trace_events.h"

#include "event_templates.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_MEMBERS = 1 << 26, /* bytes of all members beside the events */
    MOST_VALUES = 64,       /* of an event that becomes a template */
};

typedef enum { NAME, PROCESS, THREAD, SLOTS } Slot;
typedef enum { BEGIN, MEMBER, NEXT_MEMBER, EVENT, NEXT_EVENT, END } Place;

typedef struct {
    char *bytes;
    size_t size, room;
} Buffer;

struct Scan {
    const Wanted *wanted;
    EventRows rows[MOST_KINDS];
    Buffer members, attributes;
    Templates *templates;
    Place place;
    bool is_first, has_events;
};

/* ---------------------------------------------------------------- one event */

typedef struct {
    int32_t kind; /* -1 for none that is asked for */
    bool is_complete_event;
    Part start, duration;
    Part slots[SLOTS];  /* of those that are absent, no text */
    uint64_t given;     /* which arguments it has: a bit of each */
    Part *arguments;    /* these */
    Hole *values;       /* what may be a hole of its template; attributes are no hole */
    size_t value_count; /* above `MOST_VALUES`, not all are there */
} Event;

static bool is_scalar(Part part) { return *part.text != '{' && *part.text != '['; }

static void add_value(Event *event, Part value, HoleKind kind) {
    if (event->value_count++ < MOST_VALUES)
        event->values[event->value_count - 1] = (Hole){value, kind};
}

static void read_argument(const Wanted *wanted, Event *event, Part name, Part value) {
    for (size_t i = 0; i < wanted->argument_count; i++) {
        const Word *word = &wanted->arguments[i];
        if (word->size != name.size || *word->text != (char)*name.text ||
            memcmp(word->text, name.text, name.size))
            continue;
        event->given |= (uint64_t)1 << i;
        event->arguments[i] = value;
        add_value(event, value, i + 1 < wanted->argument_count ? NO_HOLE : CORRELATION);
        return;
    }
    add_value(event, value, ANY_VALUE);
}

static Outcome read_arguments(const Wanted *wanted, Event *event, const uint8_t **at,
                              const uint8_t *end) {
    if (**at != '{') return ODD;
    event->given = 0;
    const uint8_t *p = after_blanks(*at + 1, end);
    if (p == end) return CUT;
    bool is_last = *p == '}';
    if (is_last) p++;
    while (!is_last) {
        Part name;
        Outcome outcome = pass_name(&p, end, &name);
        if (outcome) return outcome;
        const uint8_t *value = p;
        if ((outcome = pass_value(&p, end))) return outcome;
        read_argument(wanted, event, name, (Part){value, (size_t)(p - value)});
        if ((outcome = pass_comma(&p, end, &is_last))) return outcome;
    }
    *at = p;
    return WHOLE;
}

static Outcome read_category(const Wanted *wanted, Event *event, Part value) {
    event->kind = -1;
    if (*value.text != '"') return WHOLE;
    Part category = {value.text + 1, value.size - 2};
    if (memchr(category.text, '\\', category.size)) return ODD;
    for (size_t i = 0; i < wanted->category_count; i++)
        if (wanted->categories[i].size == category.size &&
            !memcmp(wanted->categories[i].text, category.text, category.size))
            event->kind = wanted->kinds[i];
    return WHOLE;
}

static Outcome read_member(const Wanted *wanted, Event *event, Part name, const uint8_t **at,
                           const uint8_t *end) {
    const uint8_t *value = *at;
    if (is(name, "args")) return read_arguments(wanted, event, at, end);
    Outcome outcome = pass_value(at, end);
    if (outcome) return outcome;
    Part part = {value, (size_t)(*at - value)};
    if (is(name, "cat")) return read_category(wanted, event, part);
    if (is(name, "ph")) {
        event->is_complete_event = is(part, "\"X\"");
        return *value == '"' ? WHOLE : ODD;
    }
    HoleKind hole = ANY_VALUE;
    if (is(name, "name")) event->slots[NAME] = part, hole = ANY_NAME;
    else if (is(name, "pid")) event->slots[PROCESS] = part, hole = NO_HOLE;
    else if (is(name, "tid")) event->slots[THREAD] = part, hole = NO_HOLE;
    else if (is(name, "ts")) event->start = part, hole = START;
    else if (is(name, "dur")) event->duration = part, hole = DURATION;
    if (hole) add_value(event, part, hole);
    return WHOLE;
}

/* Instants of the memory are of a category of many kinds, or of none: their name tells. */
static void take_instant(const Wanted *wanted, Event *event) {
    (void)read_category(wanted, event, event->slots[NAME]);
    event->is_complete_event = true;
}

static Outcome read_event(const Wanted *wanted, Event *event, const uint8_t **at,
                          const uint8_t *end) {
    if (**at != '{') return ODD;
    const uint8_t *p = after_blanks(*at + 1, end);
    if (p == end) return CUT;
    bool is_last = *p == '}';
    if (is_last) p++;
    while (!is_last) {
        Part name;
        Outcome outcome = pass_name(&p, end, &name);
        if (outcome) return outcome;
        if ((outcome = read_member(wanted, event, name, &p, end))) return outcome;
        if ((outcome = pass_comma(&p, end, &is_last))) return outcome;
    }
    Part name = event->slots[NAME];
    if (name.text && is_memory_name(name)) take_instant(wanted, event);
    *at = p;
    return WHOLE;
}

/* ---------------------------------------------------------------- what is kept of it */

static bool has_room_for(Buffer *buffer, size_t size) {
    if (buffer->room - buffer->size >= size + PADDED) return true;
    size_t room = 2 * (buffer->size + size + PADDED);
    char *moved = realloc(buffer->bytes, room);
    if (!moved) return false;
    memset(moved + buffer->size, 0, room - buffer->size);
    buffer->bytes = moved;
    buffer->room = room;
    return true;
}

static bool add_bytes(Buffer *buffer, const void *bytes, size_t size) {
    if (!has_room_for(buffer, size)) return false;
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return true;
}

static bool add_word(Buffer *buffer, const char *word) {
    return add_bytes(buffer, word, strlen(word));
}

/* `"name":value,` */
static bool add_attribute(Buffer *buffer, Word name, Part value) {
    if (!has_room_for(buffer, name.size + value.size + 4)) return false;
    char *to = buffer->bytes + buffer->size;
    *to++ = '"';
    to = (char *)memcpy(to, name.text, name.size) + name.size;
    *to++ = '"';
    *to++ = ':';
    to = (char *)memcpy(to, value.text, value.size) + value.size;
    *to++ = ',';
    buffer->size = (size_t)(to - buffer->bytes);
    return true;
}

/* Writes the attributes of an event as an event of JSON. */
static bool write_attributes(Buffer *buffer, const Wanted *wanted, const Event *event) {
    static const Word names[] = {{"name", 4}, {"pid", 3}, {"tid", 3}};
    bool is_written = true;
    buffer->size = 0;
    is_written &= add_word(buffer, "{");
    for (int slot = NAME; slot < SLOTS; slot++)
        if (event->slots[slot].text)
            is_written = is_written && add_attribute(buffer, names[slot], event->slots[slot]);
    is_written = is_written && add_word(buffer, "\"args\":{");
    uint64_t given = wanted->details[event->kind] == ARGUMENTS ? event->given : 0;
    for (size_t i = 0; given && i + 1 < wanted->argument_count; i++, given >>= 1)
        if (given & 1)
            is_written = is_written && add_attribute(buffer, wanted->arguments[i], event->arguments[i]);
    if (is_written && buffer->bytes[buffer->size - 1] == ',') buffer->size--;
    return is_written && add_word(buffer, "}}");
}

static void *enlarged(void *array, size_t count, size_t item, bool *is_enough) {
    void *moved = *is_enough ? realloc(array, count * item) : NULL;
    *is_enough = moved != NULL;
    return moved ? moved : array;
}

static bool has_room(EventRows *rows) {
    if (rows->count < rows->room) return true;
    size_t room = rows->room ? 2 * rows->room : 1024;
    bool is_enough = room < SIZE_MAX / 16;
    rows->attributes = enlarged(rows->attributes, room, sizeof *rows->attributes, &is_enough);
    rows->start_ns = enlarged(rows->start_ns, room, sizeof *rows->start_ns, &is_enough);
    rows->duration_ns = enlarged(rows->duration_ns, room, sizeof *rows->duration_ns, &is_enough);
    rows->correlation = enlarged(rows->correlation, room, sizeof *rows->correlation, &is_enough);
    if (is_enough) rows->room = room;
    return is_enough;
}

static void add_row(EventRows *rows, int32_t attributes, const Printed *printed) {
    size_t i = rows->count++;
    rows->attributes[i] = attributes;
    rows->start_ns[i] = printed->start_ns;
    rows->duration_ns[i] = printed->duration_ns;
    rows->correlation[i] = printed->correlation;
    rows->has_fractions |= printed->has_fraction;
}

static bool is_kept(const Wanted *wanted, const Event *event) {
    return event->kind >= 0 && event->is_complete_event && wanted->details[event->kind];
}

static bool keeps_arguments(const Wanted *wanted, const Event *event) {
    return is_kept(wanted, event) && wanted->details[event->kind] == ARGUMENTS;
}

/* The correlation of an event as printed; no text where it has none. */
static Part correlation_of(const Wanted *wanted, const Event *event) {
    size_t last = wanted->argument_count - 1;
    bool is_given = keeps_arguments(wanted, event) && event->given >> last & 1;
    return is_given ? event->arguments[last] : (Part){0};
}

/* Keeps an event, and gives the number of its attributes. */
static Outcome keep(Scan *scan, const Event *event, int32_t *attributes) {
    if (event->kind < 0) return WHOLE;
    EventRows *rows = &scan->rows[event->kind];
    rows->is_present = 1;
    for (int slot = NAME; slot < SLOTS; slot++)
        if (event->slots[slot].text && !is_scalar(event->slots[slot])) return ODD;
    if (!is_kept(scan->wanted, event)) return WHOLE;
    Printed printed = {.correlation = -1};
    Part start = event->start, duration = event->duration;
    Part correlation = correlation_of(scan->wanted, event);
    bool ignored;
    if (!start.text || !as_ns(start, &printed.start_ns, &printed.has_fraction)) return ODD;
    if (duration.text && !as_ns(duration, &printed.duration_ns, &ignored)) return ODD;
    if (correlation.text && !as_correlation(correlation, &printed.correlation)) return ODD;
    if (!has_room(rows) || !write_attributes(&scan->attributes, scan->wanted, event))
        return NO_MEMORY;
    int64_t number;
    PagesStatus status = number_of(rows->texts, (const uint8_t *)scan->attributes.bytes,
                                   scan->attributes.size, &number);
    if (status) return status == PAGES_NO_MEMORY ? NO_MEMORY : ODD;
    *attributes = (int32_t)number;
    add_row(rows, *attributes, &printed);
    return WHOLE;
}

/* What may stand in the place of a value in events that say the same; `NO_HOLE` for itself alone. */
static HoleKind hole_of(const Wanted *wanted, const Event *event, Hole value) {
    const uint8_t *text = value.value.text;
    switch (value.kind) {
    case START: return is_kept(wanted, event) && text == event->start.text ? START : ANY_VALUE;
    case DURATION:
        return is_kept(wanted, event) && text == event->duration.text ? DURATION : ANY_VALUE;
    case CORRELATION:
        return text == correlation_of(wanted, event).text ? CORRELATION : ANY_VALUE;
    case ANY_NAME: {
        bool is_of_use = is_kept(wanted, event) || *text != '"' || is_memory_name(value.value);
        return is_of_use ? NO_HOLE : ANY_NAME;
    }
    case NO_HOLE: return keeps_arguments(wanted, event) ? NO_HOLE : ANY_VALUE;
    default: return ANY_VALUE;
    }
}

/* Keeps as a template how an event is printed. */
static void learn_event(Scan *scan, const Event *event, Part text, int32_t attributes) {
    Hole holes[MOST_VALUES];
    size_t count = 0;
    if (event->value_count > MOST_VALUES) return;
    for (size_t i = 0; i < event->value_count; i++) {
        Hole hole = event->values[i];
        hole.kind = hole_of(scan->wanted, event, hole);
        if (hole.kind != NO_HOLE) holes[count++] = hole;
    }
    Meaning meaning = {is_kept(scan->wanted, event) ? event->kind : -1, attributes};
    learn(scan->templates, text, holes, count, meaning);
}

/* ---------------------------------------------------------------- the document */

static Outcome scan_member(Scan *scan, const uint8_t **at, const uint8_t *end) {
    const uint8_t *begin = *at, *p = begin;
    if (*p == '}' && scan->is_first) {
        *at = p + 1;
        scan->place = END;
        return WHOLE;
    }
    Part name;
    Outcome outcome = pass_name(&p, end, &name);
    if (outcome) return outcome;
    if (is(name, "traceEvents")) {
        if (scan->has_events || *p != '[') return ODD;
        scan->has_events = scan->is_first = true;
        scan->place = EVENT;
        *at = p + 1;
        return WHOLE;
    }
    if ((outcome = pass_value(&p, end))) return outcome;
    if (scan->members.size + (size_t)(p - begin) > MOST_MEMBERS) return ODD;
    if (!add_bytes(&scan->members, begin, (size_t)(p - begin))) return NO_MEMORY;
    if (!add_word(&scan->members, ",")) return NO_MEMORY;
    scan->place = NEXT_MEMBER;
    *at = p;
    return WHOLE;
}

/* Reads an event that fits a template that is guessed; `ODD` where it does not. */
static Outcome scan_guessed(Scan *scan, const uint8_t **at, const uint8_t *end) {
    Printed printed;
    const uint8_t *p = *at;
    const Meaning *meaning = pass_guessed(scan->templates, &p, end, &printed);
    if (!meaning) return ODD;
    if (meaning->kind >= 0) {
        EventRows *rows = &scan->rows[meaning->kind];
        if (!has_room(rows)) return NO_MEMORY;
        add_row(rows, meaning->attributes, &printed);
    }
    *at = p;
    scan->place = NEXT_EVENT;
    return WHOLE;
}

static Outcome scan_event(Scan *scan, const uint8_t **at, const uint8_t *end) {
    if (**at == ']' && scan->is_first) {
        ++*at;
        scan->place = NEXT_MEMBER;
        return WHOLE;
    }
    Outcome outcome = scan_guessed(scan, at, end);
    if (outcome != ODD) return outcome;
    const uint8_t *begin = *at;
    Part arguments[MOST_ARGUMENTS];
    Hole values[MOST_VALUES];
    Event event = {
        .kind = -1, .is_complete_event = true, .arguments = arguments, .values = values};
    int32_t attributes = 0;
    outcome = read_event(scan->wanted, &event, at, end);
    if (!outcome) outcome = keep(scan, &event, &attributes);
    if (outcome) return outcome;
    learn_event(scan, &event, (Part){begin, (size_t)(*at - begin)}, attributes);
    scan->place = NEXT_EVENT;
    return WHOLE;
}

/* Reads the next sign or value of the document. */
static Outcome scan_next(Scan *scan, const uint8_t **at, const uint8_t *end) {
    uint8_t sign = **at;
    switch (scan->place) {
    case MEMBER: return scan_member(scan, at, end);
    case EVENT: return scan_event(scan, at, end);
    case BEGIN:
        if (sign != '{') return ODD;
        scan->place = MEMBER;
        scan->is_first = true;
        break;
    case NEXT_MEMBER:
        if (sign != ',' && sign != '}') return ODD;
        scan->place = sign == ',' ? MEMBER : END;
        scan->is_first = false;
        break;
    case NEXT_EVENT:
        if (sign != ',' && sign != ']') return ODD;
        scan->place = sign == ',' ? EVENT : NEXT_MEMBER;
        scan->is_first = false;
        break;
    case END: return ODD;
    }
    ++*at;
    return WHOLE;
}

EventsStatus scan_piece(Scan *scan, const uint8_t *piece, size_t size, size_t *used) {
    const uint8_t *end = piece + size, *p = after_blanks(piece, end);
    Outcome outcome = WHOLE;
    while (p < end && outcome == WHOLE) {
        const uint8_t *at = p;
        outcome = scan_next(scan, &at, end);
        if (outcome == WHOLE) p = after_blanks(at, end);
    }
    *used = (size_t)(p - piece);
    return outcome == ODD ? EVENTS_ODD : outcome == NO_MEMORY ? EVENTS_NO_MEMORY : EVENTS_OK;
}

int32_t scan_is_complete(const Scan *scan) { return scan->place == END && scan->has_events; }

const char *scan_members(const Scan *scan, size_t *size) {
    *size = scan->members.size;
    return scan->members.bytes;
}

EventRows *scan_rows(Scan *scan, size_t kind) { return &scan->rows[kind]; }

void scan_free(Scan *scan) {
    if (!scan) return;
    for (size_t kind = 0; kind < MOST_KINDS; kind++) {
        EventRows *rows = &scan->rows[kind];
        free(rows->attributes);
        free(rows->start_ns);
        free(rows->duration_ns);
        free(rows->correlation);
        texts_free(rows->texts);
    }
    free(scan->members.bytes);
    free(scan->attributes.bytes);
    templates_free(scan->templates);
    free(scan);
}

Scan *scan_new(const Wanted *wanted) {
    if (wanted->argument_count > MOST_ARGUMENTS) return NULL;
    Scan *scan = calloc(1, sizeof *scan);
    if (!scan) return NULL;
    scan->wanted = wanted;
    if (!(scan->templates = templates_new())) {
        scan_free(scan);
        return NULL;
    }
    for (size_t i = 0; i < wanted->category_count; i++) {
        int32_t kind = wanted->kinds[i];
        if (kind < 0 || kind >= MOST_KINDS) {
            scan_free(scan);
            return NULL;
        }
        if (!scan->rows[kind].texts && !(scan->rows[kind].texts = texts_new())) {
            scan_free(scan);
            return NULL;
        }
    }
    return scan;
}
