#include "reports.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum {
    LEAST_MATCH = 4,
    MOST_RATIO = 255, /* a byte of LZ4 stands for no more */
    SHORT = 16,       /* bytes that are copied at once */
    AFTER = 16,       /* bytes behind a block that numbers and hashes of texts may read */
};

/* ---------------------------------------------------------------- blocks */

static ReportStatus number(Span *span, uint64_t *value) {
    Number found = any_number(*span);
    if (!found.after) return REPORT_VARINT;
    span->at = found.after;
    *value = found.value;
    return REPORT_OK;
}

/* The same of a block that was unpacked, behind which there are bytes that may be read. It is a
 * part of each caller, which keeps the span in registers then. */
static ALWAYS_INLINE ReportStatus unpacked_number(Span *span, uint64_t *value) {
    if (span->at < span->end && *span->at < 0x80) { /* as most are */
        *value = *span->at++;
        return REPORT_OK;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t bits;
    memcpy(&bits, span->at, sizeof bits);
    uint64_t ends = ~bits & 0x8080808080808080;
    if (ends) { /* Of eight bytes at most: ones, twos and fours of sevens move together. */
        ptrdiff_t size = (__builtin_ctzll(ends) >> 3) + 1;
        if (size > span->end - span->at) return REPORT_VARINT;
        span->at += size;
        bits &= (ends ^ (ends - 1)) & 0x7F7F7F7F7F7F7F7F;
        bits = (bits & 0x7F007F007F007F00) >> 1 | (bits & 0x007F007F007F007F);
        bits = (bits & 0x3FFF00003FFF0000) >> 2 | (bits & 0x00003FFF00003FFF);
        *value = (bits & 0x0FFFFFFF00000000) >> 4 | (bits & 0x000000000FFFFFFF);
        return REPORT_OK;
    }
#endif
    Number found = any_number(*span);
    if (!found.after) return REPORT_VARINT;
    span->at = found.after;
    *value = found.value;
    return REPORT_OK;
}

/* A length of LZ4: 4 bits, and bytes to add as long as they are 255. */
static bool lz4_length(Span *from, size_t *length) {
    if (*length != 15) return true;
    uint8_t byte;
    do {
        if (from->at >= from->end) return false;
        byte = *from->at++;
        *length += byte;
    } while (byte == 255);
    return true;
}

/* Copies bytes that do not overlap, short ones at once where there is room behind them. */
static inline void copy(uint8_t *out, const uint8_t *from, size_t size, bool has_room) {
    if (has_room && size <= SHORT)
        memcpy(out, from, SHORT);
    else
        memcpy(out, from, size);
}

/* Unpacks an LZ4 block that fills all of `into`.
 * Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. */
static bool unpack(Span from, uint8_t *into, size_t size) {
    uint8_t *out = into, *end = into + size;
    while (from.at < from.end) {
        uint8_t token = *from.at++;
        size_t literals = token >> 4, length = token & 15;
        if (!lz4_length(&from, &literals)) return false;
        if (literals > (size_t)(from.end - from.at) || literals > (size_t)(end - out)) return false;
        bool has_room = end - out >= SHORT && from.end - from.at >= SHORT;
        copy(out, from.at, literals, has_room);
        out += literals;
        from.at += literals;
        if (from.at == from.end) break;
        if (from.end - from.at < 2) return false;
        size_t distance = from.at[0] | (size_t)from.at[1] << 8;
        from.at += 2;
        if (!lz4_length(&from, &length)) return false;
        length += LEAST_MATCH;
        if (!distance || distance > (size_t)(out - into) || length > (size_t)(end - out))
            return false;
        const uint8_t *match = out - distance;
        if (distance >= length) {
            copy(out, match, length, distance >= SHORT && end - out >= SHORT);
            out += length;
        } else {
            while (length--) *out++ = *match++;
        }
    }
    return out == end;
}

typedef struct {
    uint8_t *bytes;
    size_t room;
} Buffer;

/* Unpacks the next block; `message` is what it holds. */
static ReportStatus next_block(Span *data, Buffer *buffer, Span *message) {
    uint64_t packed, unpacked, size;
    ReportStatus status = number(data, &packed);
    if (!status) status = number(data, &unpacked);
    if (status) return status;
    if (packed > (size_t)(data->end - data->at) || unpacked > packed * MOST_RATIO)
        return REPORT_SIZE;
    if (unpacked > buffer->room) {
        uint8_t *bytes = realloc(buffer->bytes, unpacked + AFTER);
        if (!bytes) return REPORT_NO_MEMORY;
        *buffer = (Buffer){bytes, unpacked};
    }
    Span from = {data->at, data->at + packed};
    data->at += packed;
    if (!unpacked || !unpack(from, buffer->bytes, unpacked)) return REPORT_LZ4;
    memset(buffer->bytes + unpacked, 0, AFTER);
    *message = (Span){buffer->bytes, buffer->bytes + unpacked};
    status = number(message, &size);
    if (!status && size != (size_t)(message->end - message->at)) status = REPORT_LENGTH;
    return status;
}

/* ---------------------------------------------------------------- fields */

typedef struct {
    uint64_t number, value; /* of VARINT its value, of others how many bytes there are */
    const uint8_t *bytes;
    unsigned wire_type;
} Field;

static ALWAYS_INLINE ReportStatus next_field(Span *message, Field *field) {
    uint64_t key;
    ReportStatus status = unpacked_number(message, &key);
    if (status) return status;
    *field = (Field){.number = key >> 3, .wire_type = key & 7};
    if (!field->number) return REPORT_WIRE_TYPE;
    switch (field->wire_type) {
        case VARINT:
            return unpacked_number(message, &field->value);
        case FIXED64:
            field->value = 8;
            break;
        case FIXED32:
            field->value = 4;
            break;
        case BYTES:
            status = unpacked_number(message, &field->value);
            if (status) return status;
            break;
        default:
            return REPORT_WIRE_TYPE;
    }
    if (field->value > (size_t)(message->end - message->at)) return REPORT_LENGTH;
    field->bytes = message->at;
    message->at += field->value;
    return REPORT_OK;
}

static ReportStatus of_texts(PagesStatus status) {
    if (status == PAGES_UNSUPPORTED) return REPORT_UNSUPPORTED;
    return status ? REPORT_NO_MEMORY : REPORT_OK;
}

typedef struct {
    const ReportLayout *layout;
    ReportRows *rows;
    Texts *texts;
    uint64_t *others;
    int64_t slots[MOST_SLOTS], empty[MOST_SLOTS];
    int table;
} Decoder;

/* ---------------------------------------------------------------- events */

static ReportStatus read_message(Decoder *decoder, int message, Span span) {
    const ReportLayout *layout = decoder->layout;
    const int16_t *steps = layout->steps + (size_t)message * REPORT_FIELDS;
    if (layout->tables[message] >= 0) {
        if (decoder->table >= 0) return REPORT_EVENT;
        decoder->table = layout->tables[message];
    }
    while (span.at < span.end) {
        Field field;
        ReportStatus status = next_field(&span, &field);
        if (status) return status;
        int step = field.number < REPORT_FIELDS ? steps[field.number] : 0;
        if (!step) continue;
        bool is_bytes = step < 0 || layout->is_text[step - 1];
        if (field.wire_type != (is_bytes ? BYTES : VARINT)) return REPORT_WIRE_TYPE;
        if (step < 0) {
            Span child = {field.bytes, field.bytes + field.value};
            status = read_message(decoder, -step, child);
        } else if (is_bytes) {
            int64_t *text = &decoder->slots[step - 1];
            status = of_texts(number_of(decoder->texts, field.bytes, field.value, text));
        } else if ((int64_t)field.value == NO_VALUE) {
            status = REPORT_VARINT;
        } else {
            decoder->slots[step - 1] = (int64_t)field.value;
        }
        if (status) return status;
    }
    return REPORT_OK;
}

static bool add_row(Decoder *decoder) {
    const ReportLayout *layout = decoder->layout;
    ReportRows *rows = &decoder->rows[decoder->table];
    int32_t first = layout->bounds[decoder->table];
    size_t width = (size_t)(layout->bounds[decoder->table + 1] - first);
    if (rows->count == rows->room) {
        size_t room = rows->room ? rows->room * 2 : 64;
        int64_t *values = realloc(rows->values, room * width * sizeof *values);
        if (!values) return false;
        rows->values = values;
        rows->room = room;
    }
    int64_t *row = rows->values + rows->count++ * width;
    for (size_t i = 0; i < width; i++) row[i] = decoder->slots[layout->members[first + (int)i]];
    return true;
}

static ReportStatus read_event(Decoder *decoder, Span span) {
    size_t slots = (size_t)decoder->layout->slot_count;
    memcpy(decoder->slots, decoder->empty, slots * sizeof *decoder->slots);
    decoder->table = -1;
    ReportStatus status = read_message(decoder, 0, span);
    if (status) return status;
    int64_t type = decoder->slots[0];
    if (type < 0) return REPORT_EVENT;
    if (decoder->table >= 0) return add_row(decoder) ? REPORT_OK : REPORT_NO_MEMORY;
    decoder->others[type < REPORT_TYPES - 1 ? type : REPORT_TYPES - 1]++;
    return REPORT_OK;
}

static ReportStatus read_events(Decoder *decoder, Span message) {
    while (message.at < message.end) {
        Field field;
        ReportStatus status = next_field(&message, &field);
        if (status) return status;
        if (field.number != 1 || field.wire_type != BYTES) return REPORT_WIRE_TYPE;
        Span event = {field.bytes, field.bytes + field.value};
        status = read_event(decoder, event);
        if (status) return status;
    }
    return REPORT_OK;
}

int report_events(const uint8_t *data, size_t size, const ReportLayout *layout, ReportRows *rows,
                  Texts *texts, uint64_t *others) {
    Decoder decoder = {.layout = layout, .rows = rows, .texts = texts, .others = others};
    for (int slot = 0; slot < MOST_SLOTS; slot++) decoder.empty[slot] = NO_VALUE;
    Span blocks = {data, data + size}, message;
    Buffer buffer = {NULL, 0};
    ReportStatus status = layout->slot_count > MOST_SLOTS ? REPORT_UNSUPPORTED : REPORT_OK;
    while (!status && blocks.at < blocks.end) {
        status = next_block(&blocks, &buffer, &message);
        if (!status) status = read_events(&decoder, message);
    }
    free(buffer.bytes);
    return status;
}

void report_release(ReportRows *rows) {
    free(rows->values);
    *rows = (ReportRows){NULL, 0, 0};
}

int report_texts(const uint8_t *data, size_t size, Texts *texts) {
    Span blocks = {data, data + size}, message;
    Buffer buffer = {NULL, 0};
    ReportStatus status = REPORT_OK;
    while (!status && blocks.at < blocks.end) {
        status = next_block(&blocks, &buffer, &message);
        while (!status && message.at < message.end) {
            Field field;
            status = next_field(&message, &field);
            if (status || field.number != 1) continue;
            if (field.wire_type != BYTES) status = REPORT_WIRE_TYPE;
            if (!status && !add_text(texts, field.bytes, field.value)) status = REPORT_NO_MEMORY;
        }
    }
    free(buffer.bytes);
    return status;
}
