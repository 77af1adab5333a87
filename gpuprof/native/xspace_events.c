#include "xspace_events.h"

#include <stdbool.h>

#include "wire.h"

/* Fields of XLine, XEvent and XStat. */
enum { LINE_EVENTS = 4 };
enum { EVENT_METADATA = 1, EVENT_OFFSET_PS = 2, EVENT_DURATION_PS = 3, EVENT_STATS = 4 };
enum { STAT_METADATA = 1, STAT_UINT64 = 3, STAT_INT64 = 4, STAT_TEXT = 5, STAT_REFERENCE = 7 };

static inline Number number(Span span) {
    if (span.at < span.end && *span.at < 0x80) return (Number){span.at + 1, *span.at};
    return any_number(span);
}

size_t event_places(const uint8_t *line, size_t size, size_t *place, uint32_t *begin,
                    uint32_t *end) {
    Span rest = {line + *place, line + size};
    size_t count = 0;
    while (rest.at < rest.end && *rest.at == (LINE_EVENTS << 3 | BYTES)) {
        Number length = number((Span){rest.at + 1, rest.end});
        if (!length.after || length.value > (size_t)(rest.end - length.after)) break;
        rest.at = length.after + length.value;
        if (begin) {
            begin[count] = (uint32_t)(length.after - line);
            end[count] = (uint32_t)(rest.at - line);
        }
        count++;
    }
    *place = (size_t)(rest.at - line);
    return count;
}

typedef struct {
    uint64_t number, value; /* of VARINT its value, of others how many bytes there are */
    const uint8_t *bytes;
    unsigned kind;
} Field;

static inline bool next_field(Span *message, Field *field) {
    Number tag = number(*message);
    if (!tag.after) return false;
    *field = (Field){.number = tag.value >> 3, .kind = tag.value & 7};
    Number value = {tag.after, field->kind == FIXED64 ? 8 : 4};
    if (field->kind == VARINT || field->kind == BYTES)
        value = number((Span){tag.after, message->end});
    else if (field->kind != FIXED64 && field->kind != FIXED32)
        return false;
    if (!value.after) return false;
    field->value = value.value;
    field->bytes = message->at = value.after;
    if (field->kind == VARINT) return true;
    if (field->value > (size_t)(message->end - message->at)) return false;
    message->at += field->value;
    return true;
}

typedef struct {
    const uint8_t *line;
    const int8_t *slots;
    size_t keys, count;
    const EventColumns *columns;
} Decoder;

static bool read_value(const Decoder *decoder, Span stat, size_t event) {
    uint64_t key = 0;
    Field field, value = {0};
    while (stat.at < stat.end) {
        if (!next_field(&stat, &field)) return false;
        if (field.number != STAT_METADATA)
            value = field;
        else if (field.kind == VARINT)
            key = field.value;
    }
    int slot = key < decoder->keys ? decoder->slots[key] : -1;
    if (slot < 0) return true;
    bool is_text = value.number == STAT_TEXT && value.kind != VARINT;
    bool is_number = value.kind == VARINT && (value.number == STAT_UINT64 ||
                     value.number == STAT_INT64 || value.number == STAT_REFERENCE);
    const EventColumns *columns = decoder->columns;
    size_t place = (size_t)slot * decoder->count + event;
    columns->kind[place] = is_text || is_number ? (int8_t)value.number : 0;
    columns->value[place] = is_text ? value.bytes - decoder->line : (int64_t)value.value;
    columns->size[place] = is_text ? (int32_t)value.value : 0;
    return true;
}

static bool read_event(const Decoder *decoder, Span message, size_t event) {
    const EventColumns *columns = decoder->columns;
    Field field;
    while (message.at < message.end) {
        if (!next_field(&message, &field)) return false;
        int64_t *numbers = field.number == EVENT_METADATA      ? columns->metadata_id
                           : field.number == EVENT_OFFSET_PS   ? columns->offset_ps
                           : field.number == EVENT_DURATION_PS ? columns->duration_ps
                                                               : NULL;
        if (numbers && field.kind == VARINT) {
            numbers[event] = (int64_t)field.value;
        } else if (numbers && field.number != EVENT_METADATA) {
            return false;
        } else if (field.number == EVENT_STATS && field.kind != VARINT) {
            Span stat = {field.bytes, field.bytes + field.value};
            if (!read_value(decoder, stat, event)) return false;
        }
    }
    return true;
}

int event_columns(const uint8_t *line, const uint32_t *begin, const uint32_t *end, size_t count,
                  const int8_t *slots, size_t keys, const EventColumns *columns) {
    Decoder decoder = {line, slots, keys, count, columns};
    for (size_t event = 0; event < count; event++)
        if (!read_event(&decoder, (Span){line + begin[event], line + end[event]}, event)) return 1;
    return 0;
}
