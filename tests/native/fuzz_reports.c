/* Fuzzing of the decoder of nsys reports under ASan and UBSan, by structure: blocks of events whose
 * fields, lengths, sizes and LZ4 sequences are right but for a few.
 *
 *     fuzz_reports COUNT SEED       so many inputs; prints how many of them were decoded
 *
 * With libFuzzer, `LLVMFuzzerTestOneInput` takes blocks as they are. See fuzz_native.py.
 */
#include <inttypes.h>
#include <stdio.h>

#include "../../gpuprof/native/pages.c"
#define Decoder ReportDecoder
#include "../../gpuprof/native/reports.c"

enum { MESSAGES = 5, SLOTS = 9, TABLES = 3, MOST_BYTES_HERE = 1 << 14 };

/* 0 event {1: type, 102: range, 107: activity}; 1 range {1, 2, 7 text}; 2 activity {1, 2, 101, 102};
 * 3 kernel {1 text, 10}; 4 copy {1}. */
static int16_t steps[MESSAGES * REPORT_FIELDS];
static const int8_t tables[MESSAGES] = {-1, 0, -1, 1, 2};
static const uint8_t is_text[SLOTS] = {0, 0, 0, 1, 0, 0, 1, 0, 0};
static const int32_t members[] = {1, 2, 3, 4, 5, 6, 7, 4, 5, 8};
static const int32_t bounds[TABLES + 1] = {0, 3, 7, 10};
static const ReportLayout layout = {steps, tables, is_text, members, bounds, SLOTS, TABLES};

static void set_up(void) {
    int16_t *event = steps, *range = event + REPORT_FIELDS, *activity = range + REPORT_FIELDS;
    int16_t *kernel = activity + REPORT_FIELDS, *copy = kernel + REPORT_FIELDS;
    event[1] = 1, event[102] = -1, event[107] = -2;
    range[1] = 2, range[2] = 3, range[7] = 4;
    activity[1] = 5, activity[2] = 6, activity[101] = -3, activity[102] = -4;
    kernel[1] = 7, kernel[10] = 8;
    copy[1] = 9;
}

/* Decodes blocks; -1 where they were refused, else how many events there are. */
static long decode(const uint8_t *data, size_t size) {
    ReportRows rows[TABLES] = {0};
    uint64_t others[REPORT_TYPES] = {0};
    Texts *texts = texts_new();
    int status = report_events(data, size, &layout, rows, texts, others);
    size_t count = 0, known = texts_count(texts);
    for (int i = 0; i < REPORT_TYPES; i++) count += others[i];
    for (int t = 0; t < TABLES; t++) {
        int width = bounds[t + 1] - bounds[t];
        for (size_t row = 0; row < rows[t].count; row++)
            for (int i = 0; i < width; i++) {
                int64_t value = rows[t].values[row * (size_t)width + (size_t)i];
                bool is_number = value >= 0 && (size_t)value < known;
                if (is_text[members[bounds[t] + i]] && value != NO_VALUE && !is_number) abort();
            }
        count += rows[t].count;
        report_release(&rows[t]);
    }
    texts_free(texts);
    texts = texts_new();
    (void)report_texts(data, size, texts);
    texts_free(texts);
    return status ? -1 : (long)count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!steps[1]) set_up();
    (void)decode(data, size);
    return 0;
}

/* ---------------------------------------------------------------- inputs */

static uint64_t state;

static uint32_t any(uint32_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

typedef struct {
    uint8_t bytes[MOST_BYTES_HERE];
    size_t size;
} Made;

static unsigned faults; /* one of so many parts is wrong; 0 for none */
static bool is_full;

static bool is_wrong(void) { return faults && !any(faults); }

static void put(Made *made, uint8_t byte) {
    if (made->size == sizeof made->bytes)
        is_full = true;
    else
        made->bytes[made->size++] = byte;
}

static void put_all(Made *made, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) put(made, bytes[i]);
}

static void put_number(Made *made, uint64_t value) {
    if (is_wrong()) value = any(2) ? value + any(9) - 4 : (uint64_t)1 << any(64);
    unsigned more = is_wrong() ? any(12) : 0;
    for (; value >= 0x80 || more; value >>= 7, more -= more > 0) put(made, (uint8_t)(value | 0x80));
    put(made, (uint8_t)value);
}

static void put_key(Made *made, unsigned number, unsigned wire_type) {
    if (is_wrong()) wire_type = any(8);
    if (is_wrong()) number = any(200);
    put_number(made, (uint64_t)number << 3 | wire_type);
}

static void put_message(Made *made, unsigned number, const Made *inner) {
    put_key(made, number, BYTES);
    put_number(made, inner->size);
    put_all(made, inner->bytes, inner->size);
}

static void put_field(Made *made, unsigned number, bool as_text) {
    if (!as_text) {
        put_key(made, number, VARINT);
        put_number(made, any(4) ? any(100000) : (uint64_t)any(UINT32_MAX) << any(33));
        return;
    }
    Made text = {.size = any(any(9) ? 12 : 200)};
    for (size_t i = 0; i < text.size; i++) text.bytes[i] = (uint8_t)('a' + any(3));
    put_message(made, number, &text);
}

static void make_event(Made *event) {
    static Made inner, deepest;
    event->size = inner.size = deepest.size = 0;
    unsigned kind = any(4);
    put_key(event, 1, VARINT);
    put_number(event, any(300));
    if (!any(6)) put_key(event, 14, FIXED64), put_all(event, (const uint8_t *)"12345678", 8);
    if (!any(6)) put_key(event, 15, FIXED32), put_all(event, (const uint8_t *)"1234", 4);
    if (kind == 0) {
        for (unsigned i = any(6); i--;) put_field(&inner, any(2) + 1, false);
        if (any(2)) put_field(&inner, 7, true);
        put_message(event, 102, &inner);
    } else if (kind < 3) {
        for (unsigned i = any(6); i--;) put_field(&inner, any(2) + 1, false);
        if (any(2)) put_field(&deepest, 1, kind == 1);
        if (any(2)) put_field(&deepest, 10, false);
        put_message(&inner, 100 + kind, &deepest);
        if (is_wrong()) put_message(&inner, 101, &deepest);
        put_message(event, 107, &inner);
    } else {
        put_field(event, 104, true);
    }
}

/* LZ4 sequences: literals, and a match wherever the last bytes came before. */
static void compress(Made *packed, const Made *plain) {
    size_t at = 0, from = 0;
    packed->size = 0;
    while (at < plain->size) {
        size_t match = 0, distance = 0;
        for (size_t back = 1; back <= 64 && back <= at; back += 1 + any(3)) {
            size_t length = 0;
            while (at + length + 5 < plain->size && length < 600 &&
                   plain->bytes[at + length] == plain->bytes[at + length - back])
                length++;
            if (length > match) match = length, distance = back;
        }
        bool is_last = at + 1 >= plain->size;
        if (match < LEAST_MATCH && !is_last) {
            at++;
            continue;
        }
        if (is_last) at = plain->size;
        size_t literals = at - from, rest = literals, length = is_last ? 0 : match - LEAST_MATCH;
        put(packed, (uint8_t)((rest < 15 ? rest : 15) << 4 | (length < 15 ? length : 15)));
        if (rest >= 15) {
            for (rest -= 15; rest >= 255; rest -= 255) put(packed, 255);
            put(packed, (uint8_t)rest);
        }
        put_all(packed, plain->bytes + from, literals);
        if (is_last) break;
        if (is_wrong()) distance = any(70000);
        put(packed, (uint8_t)distance);
        put(packed, (uint8_t)(distance >> 8));
        if (length >= 15) {
            for (length -= 15; length >= 255; length -= 255) put(packed, 255);
            put(packed, (uint8_t)length);
        }
        at = from = at + match;
    }
}

/* Some blocks; the number of their events. */
static long make(Made *made) {
    static Made event, message, block, packed;
    long events = 0;
    made->size = 0;
    for (unsigned blocks = 1 + any(3); blocks--;) {
        message.size = block.size = 0;
        for (unsigned i = 1 + any(any(5) ? 6 : 30); i--; events++) {
            make_event(&event);
            put_message(&message, 1, &event);
        }
        put_number(&block, message.size);
        put_all(&block, message.bytes, message.size);
        compress(&packed, &block);
        put_number(made, packed.size);
        put_number(made, is_wrong() ? (uint64_t)1 << 60 : block.size);
        put_all(made, packed.bytes, packed.size);
    }
    return events;
}

#ifdef STANDALONE
int main(int count, char **words) {
    static Made made;
    if (count < 3) return 2;
    uint64_t inputs = strtoull(words[1], NULL, 10), decoded = 0;
    state = strtoull(words[2], NULL, 10) * 2654435761u + 88172645463325252u;
    set_up();
    for (uint64_t i = 0; i < inputs; i++) {
        faults = i % 8 ? 20u << any(8) : 0;
        is_full = false;
        long events = make(&made);
        if (i % 8 > 4)
            for (unsigned n = any(4); made.size && n--;) made.bytes[any((uint32_t)made.size)] = (uint8_t)any(256);
        if (i % 8 == 7) made.size = any((uint32_t)made.size + 1);
        uint8_t *data = malloc(made.size + !made.size); /* of its size, so that no byte behind is read */
        memcpy(data, made.bytes, made.size);
        long there = decode(data, made.size);
        free(data);
        if (!faults && !is_full && there != events) {
            fprintf(stderr, "input %" PRIu64 " is right and was refused\n", i);
            abort();
        }
        decoded += there >= 0;
    }
    printf("%" PRIu64 " inputs, %" PRIu64 " decoded\n", inputs, decoded);
    return 0;
}
#endif
