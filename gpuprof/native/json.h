/* JSON passed over value by value, and numbers as they are printed.
 *
 * Source: RFC 8259.
 */
#ifndef GPUPROF_JSON_H
#define GPUPROF_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    MOST_DEPTH = 63,  /* of lists and objects in one value */
    MOST_DIGITS = 16, /* of a time in whole microseconds */
};

static const int64_t MOST_MICROSECONDS = INT64_MAX / 1000 - 1;

typedef enum { WHOLE, CUT, ODD, NO_MEMORY } Outcome; /* CUT: the piece ended within the value */

typedef struct {
    const uint8_t *text;
    size_t size;
} Part;

static inline const uint8_t *after_blanks(const uint8_t *p, const uint8_t *end) {
    /* Mostly there is one, or none. */
    for (; p < end && *p <= ' '; p++)
        if (*p != ' ' && *p != '\n' && *p != '\t' && *p != '\r') break;
    return p;
}

static inline bool is_hex(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static inline bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* The bytes of eight that are less than `n`, up to 128, by their highest bits; exact to the first. */
static inline uint64_t below(uint64_t eight, uint64_t n) {
    return (eight - n * (UINT64_MAX / 255)) & ~eight & 0x8080808080808080u;
}

/* Passes over characters that end no text and begin no escape. */
static inline const uint8_t *after_plain(const uint8_t *p, const uint8_t *end) {
    for (uint64_t eight; end - p >= 8; p += 8) {
        memcpy(&eight, p, 8);
        uint64_t quote = eight ^ 0x2222222222222222u, backslash = eight ^ 0x5C5C5C5C5C5C5C5Cu;
        uint64_t odd = below(eight, 0x20) | below(quote, 1) | below(backslash, 1);
        if (odd) return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? p + __builtin_ctzll(odd) / 8 : p;
    }
    return p;
}

/* Passes over a text, from its first quote to behind its last one. */
static inline Outcome pass_text(const uint8_t **at, const uint8_t *end) {
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

static inline Outcome pass_digits(const uint8_t **at, const uint8_t *end) {
    const uint8_t *p = *at;
    while (p < end && is_digit(*p)) p++;
    if (p == end) return CUT;
    if (p == *at) return ODD;
    *at = p;
    return WHOLE;
}

static inline Outcome pass_number(const uint8_t **at, const uint8_t *end) {
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

static inline Outcome pass_word(const uint8_t **at, const uint8_t *end, const char *word) {
    size_t size = strlen(word), left = (size_t)(end - *at);
    if (memcmp(*at, word, left < size ? left : size)) return ODD;
    if (left < size) return CUT;
    *at += size;
    return WHOLE;
}

static inline Outcome pass_scalar(const uint8_t **at, const uint8_t *end) {
    switch (**at) {
    case '"': return pass_text(at, end);
    case 't': return pass_word(at, end, "true");
    case 'f': return pass_word(at, end, "false");
    case 'n': return pass_word(at, end, "null");
    default: return is_digit(**at) || **at == '-' ? pass_number(at, end) : ODD;
    }
}

/* Passes over a name of a member and its colon, to its value. */
static inline Outcome pass_name(const uint8_t **at, const uint8_t *end, Part *name) {
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
static inline Outcome pass_nested(const uint8_t **at, const uint8_t *end) {
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
static inline Outcome pass_value(const uint8_t **at, const uint8_t *end) {
    return **at == '{' || **at == '[' ? pass_nested(at, end) : pass_scalar(at, end);
}

/* Passes from behind a member to the next one's name; `is_last` at the end of the object. */
static inline Outcome pass_comma(const uint8_t **at, const uint8_t *end, bool *is_last) {
    const uint8_t *p = after_blanks(*at, end);
    if (p == end) return CUT;
    *is_last = *p == '}';
    if (*p != ',' && !*is_last) return ODD;
    *at = *is_last ? p + 1 : after_blanks(p + 1, end);
    return *at == end && !*is_last ? CUT : WHOLE;
}

static inline bool is(Part part, const char *word) {
    return part.size == strlen(word) && !memcmp(part.text, word, strlen(word));
}

/* Nanoseconds of microseconds as printed, rounded half to even; false for what is no plain number. */
static inline bool as_ns(Part printed, int64_t *ns, bool *has_fraction) {
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

/* A correlation as printed, a whole number of few digits; -1 for none; false for anything else. */
static inline bool as_correlation(Part printed, int64_t *number) {
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

#endif
