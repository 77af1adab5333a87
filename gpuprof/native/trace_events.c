#include "trace_events.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    PADDED = 16,            /* `number_of` reads so many bytes behind a text */
    MOST_DEPTH = 63,        /* of lists and objects in one value */
    MOST_DIGITS = 16,       /* of a time in whole microseconds */
    MOST_MEMBERS = 1 << 26, /* bytes of all members beside the events */
};

static const int64_t MOST_MICROSECONDS = INT64_MAX / 1000 - 1;

/* The name of instants that tell of memory. */
static const char MEMORY_NAME[] = "\"[memory]\"";

typedef enum { NAME, PROCESS, THREAD, SLOTS } Slot;
typedef enum { BEGIN, MEMBER, NEXT_MEMBER, EVENT, NEXT_EVENT, END } Place;
typedef enum { WHOLE, CUT, ODD, NO_MEMORY } Outcome; /* CUT: the piece ended within the value */

typedef struct {
    const uint8_t *text;
    size_t size;
} Part;

typedef struct {
    char *bytes;
    size_t size, room;
} Buffer;

struct Scan {
    const Wanted *wanted;
    EventRows rows[MOST_KINDS];
    Buffer members, attributes;
    Place place;
    bool is_first, has_events;
};

/* ---------------------------------------------------------------- JSON */

static const uint8_t *after_blanks(const uint8_t *p, const uint8_t *end) {
    /* Mostly there is one, or none. */
    for (; p < end && *p <= ' '; p++)
        if (*p != ' ' && *p != '\n' && *p != '\t' && *p != '\r') break;
    return p;
}

static bool is_hex(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* The bytes of eight that are less than `n`, up to 128, by their highest bits; exact to the first. */
static uint64_t below(uint64_t eight, uint64_t n) {
    return (eight - n * (UINT64_MAX / 255)) & ~eight & 0x8080808080808080u;
}

/* Passes over characters that end no text and begin no escape. */
static const uint8_t *after_plain(const uint8_t *p, const uint8_t *end) {
    for (uint64_t eight; end - p >= 8; p += 8) {
        memcpy(&eight, p, 8);
        uint64_t quote = eight ^ 0x2222222222222222u, backslash = eight ^ 0x5C5C5C5C5C5C5C5Cu;
        uint64_t odd = below(eight, 0x20) | below(quote, 1) | below(backslash, 1);
        if (odd) return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? p + __builtin_ctzll(odd) / 8 : p;
    }
    return p;
}

/* Passes over a text, from its first quote to behind its last one. */
static Outcome pass_text(const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = after_plain(*at + 1, end);
    for (; p < end && *p != '"'; p++) {
        if (*p < 0x20) return ODD;
        if (*p != '\\') continue;
        if (++p == end) return CUT;
        if (*p == 'u') {
            if (end - p < 5) return CUT;
            for (int i = 1; i < 5; i++)
                if (!is_hex(p[i])) return ODD;
            p += 4;
        } else if (!*p || !strchr("\"\\/bfnrt", *p)) {
            return ODD;
        }
    }
    if (p == end) return CUT;
    *at = p + 1;
    return WHOLE;
}

static Outcome pass_digits(const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = *at;
    while (p < end && is_digit(*p)) p++;
    if (p == end) return CUT;
    if (p == *at) return ODD;
    *at = p;
    return WHOLE;
}

static Outcome pass_number(const uint8_t **at, const uint8_t *end) {
    Outcome outcome;
    if (**at == '-') ++*at;
    if (*at == end) return CUT;
    if (**at == '0') {
        if (++*at == end) return CUT;
    } else if ((outcome = pass_digits(at, end))) {
        return outcome;
    }
    if (**at == '.') {
        ++*at;
        if ((outcome = pass_digits(at, end))) return outcome;
    }
    if (**at == 'e' || **at == 'E') {
        if (++*at == end) return CUT;
        if (**at == '+' || **at == '-') ++*at;
        if ((outcome = pass_digits(at, end))) return outcome;
    }
    return WHOLE;
}

static Outcome pass_word(const uint8_t **at, const uint8_t *end, const char *word) {
    size_t size = strlen(word), left = (size_t)(end - *at);
    if (memcmp(*at, word, left < size ? left : size)) return ODD;
    if (left < size) return CUT;
    *at += size;
    return WHOLE;
}

static Outcome pass_scalar(const uint8_t **at, const uint8_t *end) {
    switch (**at) {
    case '"': return pass_text(at, end);
    case 't': return pass_word(at, end, "true");
    case 'f': return pass_word(at, end, "false");
    case 'n': return pass_word(at, end, "null");
    default: return is_digit(**at) || **at == '-' ? pass_number(at, end) : ODD;
    }
}

/* Passes over a name of a member and its colon, to its value. */
static Outcome pass_name(const uint8_t **at, const uint8_t *end, Part *name) {
    if (**at != '"') return ODD;
    const uint8_t *p = after_plain(*at + 1, end);
    if (p < end && *p == '"') {
        p++;
    } else {
        p = *at;
        Outcome outcome = pass_text(&p, end);
        if (outcome) return outcome;
        if (memchr(*at, '\\', (size_t)(p - *at))) return ODD;
    }
    *name = (Part){*at + 1, (size_t)(p - *at) - 2};
    p = after_blanks(p, end);
    if (p == end) return CUT;
    if (*p != ':') return ODD;
    *at = after_blanks(p + 1, end);
    return *at == end ? CUT : WHOLE;
}

/* Passes over a list or an object. */
static Outcome pass_nested(const uint8_t **at, const uint8_t *end) {
    uint64_t objects = 0; /* the innermost is the last bit: 1 for an object */
    int depth = 0;
    const uint8_t *p = *at;
    for (;;) {
        Outcome outcome;
        if (*p == '{' || *p == '[') {
            bool is_object = *p == '{';
            if (depth == MOST_DEPTH) return ODD;
            p = after_blanks(p + 1, end);
            if (p == end) return CUT;
            if (*p != (is_object ? '}' : ']')) {
                objects = objects << 1 | is_object;
                depth++;
                Part name;
                if (is_object && (outcome = pass_name(&p, end, &name))) return outcome;
                continue;
            }
            p++;
        } else if ((outcome = pass_scalar(&p, end))) {
            return outcome;
        }
        for (;;) { /* behind a value: the ends of what it is the last part of, or the next one */
            if (!depth) {
                *at = p;
                return WHOLE;
            }
            bool is_object = objects & 1;
            p = after_blanks(p, end);
            if (p == end) return CUT;
            if (*p == ',') {
                p = after_blanks(p + 1, end);
                if (p == end) return CUT;
                Part name;
                if (is_object && (outcome = pass_name(&p, end, &name))) return outcome;
                break;
            }
            if (*p != (is_object ? '}' : ']')) return ODD;
            p++;
            objects >>= 1;
            depth--;
        }
    }
}

/* Passes over any value. */
static Outcome pass_value(const uint8_t **at, const uint8_t *end) {
    return **at == '{' || **at == '[' ? pass_nested(at, end) : pass_scalar(at, end);
}

/* Passes from behind a member to the next one's name; `is_last` at the end of the object. */
static Outcome pass_comma(const uint8_t **at, const uint8_t *end, bool *is_last) {
    const uint8_t *p = after_blanks(*at, end);
    if (p == end) return CUT;
    *is_last = *p == '}';
    if (*p != ',' && !*is_last) return ODD;
    *at = *is_last ? p + 1 : after_blanks(p + 1, end);
    return *at == end && !*is_last ? CUT : WHOLE;
}

static bool is(Part part, const char *word) {
    return part.size == strlen(word) && !memcmp(part.text, word, strlen(word));
}

/* ---------------------------------------------------------------- one event */

typedef struct {
    int32_t kind; /* -1 for none that is asked for */
    bool is_complete_event;
    Part start, duration;
    Part slots[SLOTS];  /* of those that are absent, no text */
    uint64_t given;     /* which arguments it has: a bit of each */
    Part *arguments;    /* these */
} Event;

/* Nanoseconds of microseconds as printed, rounded half to even; false for what is no plain number. */
static bool as_ns(Part printed, int64_t *ns, bool *has_fraction) {
    const uint8_t *p = printed.text, *end = p + printed.size;
    bool is_negative = p < end && *p == '-';
    p += is_negative;
    int64_t whole = 0;
    const uint8_t *first = p;
    for (; p < end && is_digit(*p); p++) {
        if (p - first == MOST_DIGITS) return false;
        whole = whole * 10 + (*p - '0');
    }
    *has_fraction = p < end && *p == '.';
    int64_t fraction = 0, unit = 100;
    if (*has_fraction)
        for (p++; p < end && is_digit(*p) && unit; p++, unit /= 10) fraction += (*p - '0') * unit;
    int rest = 0; /* of a nanosecond: below, at or above the half */
    if (p < end && is_digit(*p)) {
        rest = *p > '5' ? 1 : *p == '5' ? 0 : -1;
        for (p++; p < end && is_digit(*p); p++)
            if (*p != '0' && !rest) rest = 1;
        if (rest > 0 || (!rest && fraction & 1)) fraction++;
    }
    if (p != end || p == first || whole > MOST_MICROSECONDS) return false;
    *ns = whole * 1000 + fraction;
    if (is_negative) *ns = -*ns;
    return true;
}

static bool is_scalar(Part part) { return *part.text != '{' && *part.text != '['; }

static void read_argument(const Wanted *wanted, Event *event, Part name, Part value) {
    for (size_t i = 0; i < wanted->argument_count; i++) {
        const Word *word = &wanted->arguments[i];
        if (word->size != name.size || *word->text != (char)*name.text ||
            memcmp(word->text, name.text, name.size))
            continue;
        event->given |= (uint64_t)1 << i;
        event->arguments[i] = value;
        return;
    }
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
    if (is(name, "ph")) event->is_complete_event = is(part, "\"X\"");
    else if (is(name, "name")) event->slots[NAME] = part;
    else if (is(name, "pid")) event->slots[PROCESS] = part;
    else if (is(name, "tid")) event->slots[THREAD] = part;
    else if (is(name, "ts")) event->start = part;
    else if (is(name, "dur")) event->duration = part;
    return is(name, "ph") && *value != '"' ? ODD : WHOLE;
}

/* Instants of the memory are of a category of many kinds, or of none: their name tells. */
static void take_instant(const Wanted *wanted, Event *event) {
    Part quoted = {(const uint8_t *)MEMORY_NAME, strlen(MEMORY_NAME)};
    (void)read_category(wanted, event, quoted);
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
    if (event->slots[NAME].text && is(event->slots[NAME], MEMORY_NAME)) take_instant(wanted, event);
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

/* A correlation as printed, a whole number of few digits; -1 for none; false for anything else. */
static bool as_correlation(Part printed, int64_t *number) {
    *number = -1;
    if (is(printed, "null")) return true;
    if (printed.size > 18) return false;
    *number = 0;
    for (size_t i = 0; i < printed.size; i++) {
        if (!is_digit(printed.text[i])) return false;
        *number = *number * 10 + (printed.text[i] - '0');
    }
    return true;
}

static Outcome keep(Scan *scan, const Event *event) {
    if (event->kind < 0) return WHOLE;
    EventRows *rows = &scan->rows[event->kind];
    rows->is_present = 1;
    for (int slot = NAME; slot < SLOTS; slot++)
        if (event->slots[slot].text && !is_scalar(event->slots[slot])) return ODD;
    if (!event->is_complete_event || !scan->wanted->details[event->kind]) return WHOLE;
    if (!has_room(rows)) return NO_MEMORY;
    size_t i = rows->count;
    bool has_fraction, ignored;
    rows->duration_ns[i] = 0;
    if (!event->start.text || !as_ns(event->start, &rows->start_ns[i], &has_fraction)) return ODD;
    if (event->duration.text && !as_ns(event->duration, &rows->duration_ns[i], &ignored)) return ODD;
    rows->correlation[i] = -1;
    size_t last = scan->wanted->argument_count - 1;
    if (scan->wanted->details[event->kind] == ARGUMENTS && event->given && event->given >> last & 1 &&
        !as_correlation(event->arguments[last], &rows->correlation[i]))
        return ODD;
    if (!write_attributes(&scan->attributes, scan->wanted, event)) return NO_MEMORY;
    int64_t number;
    PagesStatus status = number_of(rows->texts, (const uint8_t *)scan->attributes.bytes,
                                   scan->attributes.size, &number);
    if (status) return status == PAGES_NO_MEMORY ? NO_MEMORY : ODD;
    rows->attributes[i] = (int32_t)number;
    rows->has_fractions |= has_fraction;
    rows->count++;
    return WHOLE;
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

static Outcome scan_event(Scan *scan, const uint8_t **at, const uint8_t *end) {
    if (**at == ']' && scan->is_first) {
        ++*at;
        scan->place = NEXT_MEMBER;
        return WHOLE;
    }
    Part arguments[MOST_ARGUMENTS];
    Event event = {.kind = -1, .is_complete_event = true, .arguments = arguments};
    Outcome outcome = read_event(scan->wanted, &event, at, end);
    if (!outcome) outcome = keep(scan, &event);
    if (!outcome) scan->place = NEXT_EVENT;
    return outcome;
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
    free(scan);
}

Scan *scan_new(const Wanted *wanted) {
    if (wanted->argument_count > MOST_ARGUMENTS) return NULL;
    Scan *scan = calloc(1, sizeof *scan);
    if (!scan) return NULL;
    scan->wanted = wanted;
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
