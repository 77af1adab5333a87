/* Columns of events of Nsight Systems reports (.nsys-rep, .qdrep), decoded from their blocks.
 *
 * A block is two varints, its packed and its unpacked size, and an LZ4 block without a frame. It
 * unpacks to a varint and a protobuf message of so many bytes, whose field 1 is repeated: an event,
 * or a text. Which fields of an event go to which column is the caller's layout. Every size that
 * the file states is checked against the bytes that are there: a file can neither make the decoder
 * read outside its buffers nor take more memory than 255 times its own size.
 */
#ifndef GPUPROF_REPORTS_H
#define GPUPROF_REPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "pages.h"

typedef enum {
    REPORT_OK = 0,
    REPORT_NO_MEMORY,
    REPORT_UNSUPPORTED, /* texts made to collide */
    REPORT_SIZE,        /* of a block: beyond the bytes that are there, or more than LZ4 packs */
    REPORT_LZ4,
    REPORT_LENGTH,    /* of a field or message: beyond the end of what it is part of */
    REPORT_VARINT,    /* without an end, or of more than 64 bits */
    REPORT_WIRE_TYPE, /* one that does not exist, or that a field does not have */
    REPORT_EVENT,     /* without a type, or of two kinds */
} ReportStatus;

/* Fields of numbers from here on are not of the layout. */
enum { REPORT_FIELDS = 128, REPORT_TYPES = 256, MOST_SLOTS = 128 };

/* A tree of messages, and the columns in it.
 *
 * `steps[message * REPORT_FIELDS + field]` is 0 for a field that is not read, the number of its
 * slot and 1, or the negative number of the message that it is, which is above its parent's.
 * Message 0 is an event, and slot 0 its type.
 */
typedef struct {
    const int16_t *steps;
    const int8_t *tables;   /* by message: the table that an event with it is a row of, or -1 */
    const uint8_t *is_text; /* by slot */
    const int32_t *members; /* by table: the slots of its columns, one table after another */
    const int32_t *bounds;  /* by table: where its members begin; and where the last ones end */
    int32_t slot_count, table_count;
} ReportLayout;

/* The rows of one table, each with a value for every column; NO_VALUE where an event has none. */
typedef struct {
    int64_t *values;
    size_t count, room;
} ReportRows;

/* Decodes all blocks of some bytes; adds to `rows`, one for each table, whose values the caller
 * frees with `report_release`, and to `others`, how many events of each type are of no table: the
 * last one stands for all types that are larger. */
int report_events(const uint8_t *data, size_t size, const ReportLayout *layout, ReportRows *rows,
                  Texts *texts, uint64_t *others);

void report_release(ReportRows *rows);

/* Adds every text of some blocks, also one that is there already; other fields are skipped. */
int report_texts(const uint8_t *data, size_t size, Texts *texts);

#endif
