/* Numbers of protocol buffers.
 *
 * Format: https://protobuf.dev/programming-guides/encoding.
 */
#ifndef GPUPROF_WIRE_H
#define GPUPROF_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* How a field is written. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { LONGEST_VARINT = 10 };

typedef struct {
    const uint8_t *at, *end;
} Span;

typedef struct {
    const uint8_t *after; /* NULL: it has no end, or more than 64 bits */
    uint64_t value;
} Number;

static inline Number any_number(Span span) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < LONGEST_VARINT && span.at < span.end; i++) {
        uint8_t byte = *span.at++;
        if (i == LONGEST_VARINT - 1 && byte > 1) break;
        bits |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) return (Number){span.at, bits};
    }
    return (Number){NULL, 0};
}

#endif
