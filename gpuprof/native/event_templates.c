#include "event_templates.h"

#include <stdlib.h>

#include "pages.h"

enum {
    MOST_TEMPLATES = 1 << 14, /* then they are learnt anew */
    MOST_BYTES = 4096,        /* of one template */
    LONGEST_PLAIN = 32,       /* a number and what is read behind it */
    HISTORY_BITS = 15,
    HEAD = 3, /* before each literal: its size in two bytes, and the kind of the hole behind it */
};

static const uint64_t SPREAD = 0x9E3779B97F4A7C15u;

struct Templates {
    Texts *texts;
    Meaning meanings[MOST_TEMPLATES];
    uint64_t history;                     /* the last three templates, the last one lowest */
    uint16_t after[MOST_TEMPLATES];       /* what came after a template, and 1; 0 for unknown */
    uint16_t after_three[1 << HISTORY_BITS]; /* the same after three, by their hash */
};

bool is_memory_name(Part name) { return is(name, "\"[memory]\""); }

Templates *templates_new(void) {
    Templates *templates = calloc(1, sizeof *templates);
    if (templates && !(templates->texts = texts_new())) {
        free(templates);
        return NULL;
    }
    return templates;
}

void templates_free(Templates *templates) {
    if (!templates) return;
    texts_free(templates->texts);
    free(templates);
}

static uint64_t eight_bytes(const uint8_t *p) {
    uint64_t eight;
    memcpy(&eight, p, 8);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? eight : __builtin_bswap64(eight);
}

/* How many of eight bytes are digits before any that is none, and the number that these print. */
static unsigned up_to_8_digits(const uint8_t *p, uint64_t *number) {
    uint64_t digits = eight_bytes(p) ^ 0x3030303030303030u;
    uint64_t others = ((digits + 0x7676767676767676u) | digits) & 0x8080808080808080u;
    unsigned count = others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
    if (!count) return 0;
    digits <<= 64 - 8 * count;
    digits = digits * 10 + (digits >> 8); /* pairs of digits, then fours, then all */
    uint64_t low = (digits & 0x000000FF000000FFu) * 0x000F424000000064u;
    uint64_t high = (digits >> 16 & 0x000000FF000000FFu) * 0x0000271000000001u;
    *number = (low + high) >> 32;
    return count;
}

/* Passes over a plain number below 10^8; false for any other value, which may be sound as well. */
static bool pass_small(const uint8_t **at, uint64_t *number) {
    unsigned count = up_to_8_digits(*at, number);
    uint8_t next = (*at)[count];
    if (!count || count == 8 || next == '.' || next == 'e' || next == 'E') return false;
    if (**at == '0' && count > 1) return false;
    *at += count;
    return true;
}

/* The same for a time in microseconds with up to three digits behind the point. */
static bool pass_time(const uint8_t **at, int64_t *ns, bool *has_fraction) {
    static const uint64_t powers[] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    uint64_t whole, low, fraction = 0;
    const uint8_t *p = *at;
    unsigned count = up_to_8_digits(p, &whole);
    if (!count || (*p == '0' && count > 1)) return false;
    p += count;
    if (count == 8 && (count = up_to_8_digits(p, &low))) {
        whole = whole * powers[count] + low;
        p += count;
    }
    if (is_digit(*p) || whole > (uint64_t)MOST_MICROSECONDS) return false;
    *has_fraction = *p == '.';
    if (*has_fraction) {
        count = up_to_8_digits(++p, &fraction);
        if (!count || count > 3) return false;
        fraction *= powers[3 - count];
        p += count;
    }
    if (*p == 'e' || *p == 'E') return false;
    *ns = (int64_t)(whole * 1000 + fraction);
    *at = p;
    return true;
}

/* Passes over what mostly stands in a hole; false for what `pass_hole` must look at. */
static bool pass_plain(HoleKind kind, const uint8_t **at, Printed *printed) {
    bool ignored;
    uint64_t number;
    switch (kind) {
    case START: return pass_time(at, &printed->start_ns, &printed->has_fraction);
    case DURATION: return pass_time(at, &printed->duration_ns, &ignored);
    case CORRELATION:
        if (!pass_small(at, &number)) return false;
        printed->correlation = (int64_t)number;
        return true;
    case ANY_VALUE: return pass_small(at, &number);
    default: return false;
    }
}

/* Passes over what stands in a hole; false where another value stands there, or it is cut. */
static bool pass_hole(HoleKind kind, const uint8_t **at, const uint8_t *end, Printed *printed) {
    bool ignored;
    const uint8_t *value = *at;
    if (end - value >= LONGEST_PLAIN && pass_plain(kind, at, printed)) return true;
    if (pass_value(at, end)) return false;
    Part part = {value, (size_t)(*at - value)};
    switch (kind) {
    case START: return as_ns(part, &printed->start_ns, &printed->has_fraction);
    case DURATION: return as_ns(part, &printed->duration_ns, &ignored);
    case CORRELATION: return as_correlation(part, &printed->correlation);
    case ANY_NAME: return *value == '"' && !is_memory_name(part);
    default: return true;
    }
}

/* Whether a text begins with so many bytes; behind both, eight bytes can be read. */
static bool begins_with(const uint8_t *text, const uint8_t *literal, size_t size) {
    for (; size > 8; text += 8, literal += 8, size -= 8)
        if (eight_bytes(text) != eight_bytes(literal)) return false;
    return !size || !((eight_bytes(text) ^ eight_bytes(literal)) << (64 - 8 * size));
}

static bool pass_template(const uint8_t *template, const uint8_t **at, const uint8_t *end,
                          Printed *printed) {
    const uint8_t *p = *at;
    *printed = (Printed){.correlation = -1};
    for (;;) {
        size_t size = template[0] | (size_t)template[1] << 8;
        HoleKind kind = template[2];
        template += HEAD;
        if ((size_t)(end - p) < size + 8 || !begins_with(p, template, size)) return false;
        p += size;
        template += size;
        if (kind == NO_HOLE) break;
        if (!pass_hole(kind, &p, end, printed)) return false;
    }
    *at = p;
    return true;
}

static uint16_t *guess_after_three(Templates *templates) {
    return &templates->after_three[templates->history * SPREAD >> (64 - HISTORY_BITS)];
}

/* Notes which template came. */
static void note(Templates *templates, size_t number) {
    *guess_after_three(templates) = (uint16_t)(number + 1);
    templates->after[templates->history % MOST_TEMPLATES] = (uint16_t)(number + 1);
    templates->history = templates->history << 21 | number;
}

const Meaning *pass_guessed(Templates *templates, const uint8_t **at, const uint8_t *end,
                            Printed *printed) {
    size_t last = templates->history % MOST_TEMPLATES;
    const uint16_t guesses[] = {*guess_after_three(templates), templates->after[last]};
    const uint8_t *bytes = (const uint8_t *)texts_bytes(templates->texts);
    const uint64_t *ends = texts_ends(templates->texts);
    for (int i = 0; i < 2; i++) {
        if (!guesses[i] || (i && guesses[i] == guesses[0])) continue;
        size_t number = guesses[i] - 1u;
        if (!pass_template(bytes + (number ? ends[number - 1] : 0), at, end, printed)) continue;
        note(templates, number);
        return &templates->meanings[number];
    }
    return NULL;
}

/* Writes a literal, and what kind of hole follows it; the place behind it, or 0 for too long. */
static size_t add_literal(uint8_t *template, size_t used, Part literal, HoleKind next) {
    if (literal.size > MOST_BYTES || used + HEAD + literal.size > MOST_BYTES) return 0;
    template[used] = (uint8_t)literal.size;
    template[used + 1] = (uint8_t)(literal.size >> 8);
    template[used + 2] = (uint8_t)next;
    memcpy(template + used + HEAD, literal.text, literal.size);
    return used + HEAD + literal.size;
}

void learn(Templates *templates, Part event, const Hole *holes, size_t count, Meaning meaning) {
    uint8_t template[MOST_BYTES + PADDED];
    size_t used = 0;
    const uint8_t *p = event.text, *end = event.text + event.size;
    for (size_t i = 0; i <= count; i++) {
        const uint8_t *next = i < count ? holes[i].value.text : end;
        HoleKind kind = i < count ? holes[i].kind : NO_HOLE;
        if (!(used = add_literal(template, used, (Part){p, (size_t)(next - p)}, kind))) return;
        if (i < count) p = next + holes[i].value.size;
    }
    memset(template + used, 0, PADDED);
    if (texts_count(templates->texts) == MOST_TEMPLATES) {
        Texts *texts = texts_new();
        if (!texts) return;
        texts_free(templates->texts);
        memset(templates, 0, sizeof *templates);
        templates->texts = texts;
    }
    int64_t number;
    if (number_of(templates->texts, template, used, &number)) return;
    templates->meanings[number] = meaning;
    note(templates, (size_t)number);
}
