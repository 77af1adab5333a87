#include "pages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LEAF_TABLE = 0x0D,
    INTERIOR_TABLE = 0x05,
    FILE_HEADER = 100,
    LEAF_HEADER = 8,
    INTERIOR_HEADER = 12,
    SMALLEST_CELL = 4,
    DEEPEST_TREE = 16,
    PAGES_AT_ONCE = 64,
    MOST_COLUMNS = 64,
    PADDING = 16, /* integers are loaded eight bytes at a time */
};
static const uint64_t LARGEST_RECORD = 16u << 20;

/* ---------------------------------------------------------------- bytes */

static uint32_t be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static uint32_t be32(const uint8_t *p) { return be16(p) << 16 | be16(p + 2); }

static uint64_t be64(const uint8_t *p) { return (uint64_t)be32(p) << 32 | be32(p + 4); }

/* A variable-length integer; returns the bytes it takes, 0 where it does not end before `end`. */
static size_t varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    uint64_t made = 0;
    size_t room = (size_t)(end - p);
    for (size_t i = 0; i < 8 && i < room; i++) {
        made = made << 7 | (p[i] & 0x7F);
        if (!(p[i] & 0x80)) {
            *value = made;
            return i + 1;
        }
    }
    if (room < 9) return 0;
    *value = made << 8 | p[8];
    return 9;
}

/* ---------------------------------------------------------------- texts */

struct Texts {
    char *bytes;
    uint64_t *ends;
    uint32_t *slots; /* number + 1 of the text at each hash; 0 for free */
    size_t size, bytes_room, count, ends_room, slot_count;
};

Texts *texts_new(void) {
    Texts *texts = calloc(1, sizeof *texts);
    if (!texts) return NULL;
    texts->slot_count = 1024;
    texts->slots = calloc(texts->slot_count, sizeof *texts->slots);
    if (!texts->slots) {
        free(texts);
        return NULL;
    }
    return texts;
}

void texts_free(Texts *texts) {
    if (!texts) return;
    free(texts->bytes);
    free(texts->ends);
    free(texts->slots);
    free(texts);
}

size_t texts_count(const Texts *texts) { return texts->count; }

const char *texts_bytes(const Texts *texts) { return texts->bytes; }

const uint64_t *texts_ends(const Texts *texts) { return texts->ends; }

/* FNV-1a with a final mix: texts of ranges differ in their last digits. */
static uint64_t hash_of(const uint8_t *p, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ p[i]) * 0x100000001B3u;
    return hash ^ hash >> 29;
}

static uint64_t start_of(const Texts *texts, size_t number) {
    return number ? texts->ends[number - 1] : 0;
}

/* The array with room for so many items, perhaps elsewhere; NULL, and the array as it was. */
static void *grown(void *array, size_t *room, size_t needed, size_t item) {
    if (needed <= *room) return array;
    size_t next = *room ? *room : 256;
    while (next < needed) {
        if (next > SIZE_MAX / 4 / item) return NULL;
        next *= 2;
    }
    void *moved = realloc(array, next * item);
    if (moved) *room = next;
    return moved;
}

static bool rehash(Texts *texts) {
    size_t count = texts->slot_count * 2;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots) return false;
    for (size_t number = 0; number < texts->count; number++) {
        uint64_t start = start_of(texts, number);
        const uint8_t *text = (const uint8_t *)texts->bytes + start;
        size_t slot = hash_of(text, texts->ends[number] - start) & (count - 1);
        while (slots[slot]) slot = (slot + 1) & (count - 1);
        slots[slot] = (uint32_t)number + 1;
    }
    free(texts->slots);
    texts->slots = slots;
    texts->slot_count = count;
    return true;
}

static bool add_text(Texts *texts, const uint8_t *text, size_t size) {
    if (texts->count >= UINT32_MAX / 2) return false;
    char *bytes = grown(texts->bytes, &texts->bytes_room, texts->size + size + 1, 1);
    if (!bytes) return false;
    texts->bytes = bytes;
    uint64_t *ends = grown(texts->ends, &texts->ends_room, texts->count + 1, sizeof *ends);
    if (!ends) return false;
    texts->ends = ends;
    if (size) memcpy(bytes + texts->size, text, size);
    texts->size += size;
    ends[texts->count++] = texts->size;
    return true;
}

/* The number of a text, which is added where it is new; -1 where there is no memory. */
static int64_t text_number(Texts *texts, const uint8_t *text, size_t size) {
    size_t mask = texts->slot_count - 1, slot = hash_of(text, size) & mask;
    for (; texts->slots[slot]; slot = (slot + 1) & mask) {
        size_t number = texts->slots[slot] - 1;
        uint64_t start = start_of(texts, number);
        if (texts->ends[number] - start == size &&
            (!size || !memcmp(texts->bytes + start, text, size)))
            return (int64_t)number;
    }
    if (!add_text(texts, text, size)) return -1;
    texts->slots[slot] = (uint32_t)texts->count;
    if (texts->count * 2 > texts->slot_count && !rehash(texts)) return -1;
    return (int64_t)texts->count - 1;
}

/* ---------------------------------------------------------------- pages */

/* Reads `count` pages from number `first` on, counted from 1. */
static PagesStatus read_pages(const Database *db, uint32_t first, uint32_t count, uint8_t *into) {
    size_t size = (size_t)count * db->page_size, have = 0;
    off_t offset = (off_t)(first - 1) * db->page_size;
    while (have < size) {
        ssize_t got = pread(db->file, into + have, size - have, offset + (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return PAGES_NOT_READ;
        have += (size_t)got;
    }
    return PAGES_OK;
}

/* Marks a page as used; false where it is none of the file, or was used before. */
static bool claim(const Database *db, uint32_t page) {
    if (page < 1 || page > db->pages) return false;
    uint8_t bit = (uint8_t)(1u << (page & 7));
    return !(__atomic_fetch_or(&db->used[page >> 3], bit, __ATOMIC_RELAXED) & bit);
}

static const uint8_t *header_of(const uint8_t *bytes, uint32_t page) {
    return page == 1 ? bytes + FILE_HEADER : bytes;
}

typedef struct {
    uint32_t *numbers;
    size_t count, room;
} Numbers;

static bool append(Numbers *list, uint32_t number) {
    if (list->count == list->room) return false;
    list->numbers[list->count++] = number;
    return true;
}

/* The pages below an interior page, in the order of their rows. */
static PagesStatus children_of(const Database *db, const uint8_t *bytes, uint32_t page,
                               Numbers *children) {
    const uint8_t *header = header_of(bytes, page);
    size_t first = (size_t)(header - bytes) + INTERIOR_HEADER, cells = be16(header + 3);
    if (header[0] != INTERIOR_TABLE) return PAGES_UNSUPPORTED;
    if (first + 2 * cells > db->usable) return PAGES_DAMAGED;
    for (size_t cell = 0; cell < cells; cell++) {
        size_t at = be16(bytes + first + 2 * cell);
        if (at + 5 > db->usable || !append(children, be32(bytes + at))) return PAGES_DAMAGED;
    }
    return append(children, be32(header + 8)) ? PAGES_OK : PAGES_DAMAGED;
}

/* Replaces the interior pages of one level by those below them. */
static PagesStatus descend(const Database *db, uint8_t *bytes, Numbers *level, Numbers *below) {
    below->count = 0;
    for (size_t i = 0; i < level->count; i++) {
        uint32_t page = level->numbers[i];
        if (!claim(db, page)) return PAGES_DAMAGED;
        PagesStatus status = read_pages(db, page, 1, bytes);
        if (!status) status = children_of(db, bytes, page, below);
        if (status) return status;
    }
    memcpy(level->numbers, below->numbers, below->count * sizeof *below->numbers);
    level->count = below->count;
    return PAGES_OK;
}

/* Whether a page is a leaf: all pages of one level are, or none. */
static PagesStatus look(const Database *db, uint8_t *bytes, uint32_t page, bool *is_leaf) {
    if (page < 1 || page > db->pages) return PAGES_DAMAGED;
    PagesStatus status = read_pages(db, page, 1, bytes);
    *is_leaf = !status && header_of(bytes, page)[0] == LEAF_TABLE;
    return status;
}

static PagesStatus walk(const Database *db, uint8_t *bytes, Numbers *level, Numbers *below) {
    for (int depth = 0; depth < DEEPEST_TREE; depth++) {
        bool is_leaf = false;
        PagesStatus status = look(db, bytes, level->numbers[0], &is_leaf);
        if (status || is_leaf) return status;
        if ((status = descend(db, bytes, level, below))) return status;
    }
    return PAGES_DAMAGED;
}

int leaf_pages(const Database *db, uint32_t root, uint32_t *leaves, size_t *count) {
    Numbers level = {leaves, 1, db->pages}, below = {NULL, 0, db->pages};
    uint8_t *bytes = malloc((size_t)db->page_size + PADDING);
    below.numbers = malloc((size_t)db->pages * sizeof *below.numbers);
    PagesStatus status = PAGES_NO_MEMORY;
    leaves[0] = root;
    if (bytes && below.numbers) status = walk(db, bytes, &level, &below);
    free(bytes);
    free(below.numbers);
    *count = level.count;
    return status;
}

size_t most_rows(const Database *db) {
    return (db->usable - LEAF_HEADER) / (2 + SMALLEST_CELL);
}

/* ---------------------------------------------------------------- records */

typedef struct {
    const Database *db;
    Column *columns;
    Texts *texts;
    uint8_t *record; /* a record that continues on other pages, put together */
    size_t record_room;
    size_t column_count;
    uint8_t places[MOST_COLUMNS]; /* places in a record that are asked for, ascending */
    uint8_t targets[MOST_COLUMNS]; /* the column that each of them fills */
    size_t place_count;
    int32_t rowid; /* column that holds the rowid, or -1 */
} Decoder;

/* Bytes that a value of a serial type takes. */
static uint64_t size_of(uint64_t type) {
    static const uint8_t sizes[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return type < 12 ? sizes[type] : (type - 12) / 2;
}

static PagesStatus integer_of(const uint8_t *p, uint64_t type, int64_t *value) {
    if (type >= 1 && type <= 6) {
        *value = (int64_t)be64(p) >> (64 - 8 * size_of(type));
        return *value == NO_VALUE ? PAGES_UNSUPPORTED : PAGES_OK;
    }
    if (type > 9 || type == 7) return PAGES_UNSUPPORTED; /* REAL, BLOB or TEXT */
    *value = type ? (int64_t)type - 8 : NO_VALUE; /* the constants 0 and 1, or NULL */
    return PAGES_OK;
}

static PagesStatus put(Decoder *decoder, size_t target, size_t row, const uint8_t *p,
                       uint64_t type) {
    Column *column = &decoder->columns[target];
    if (column->kind != COLUMN_TEXT || type == 0) return integer_of(p, type, &column->values[row]);
    if (type < 13 || !(type & 1)) return PAGES_UNSUPPORTED;
    column->values[row] = text_number(decoder->texts, p, size_of(type));
    return column->values[row] < 0 ? PAGES_NO_MEMORY : PAGES_OK;
}

/* A record's values of which each type takes one byte of its header, as all but long texts do. */
static PagesStatus decode_plain(Decoder *decoder, const uint8_t *types, const uint8_t *body,
                                size_t size, size_t row) {
    size_t place = 0, offset = 0;
    for (size_t i = 0; i < decoder->place_count; i++) {
        for (; place < decoder->places[i]; place++) offset += size_of(types[place]);
        if (offset + size_of(types[place]) > size) return PAGES_DAMAGED;
        PagesStatus status = put(decoder, decoder->targets[i], row, body + offset, types[place]);
        if (status) return status;
    }
    return PAGES_OK;
}

static PagesStatus decode_any(Decoder *decoder, const uint8_t *types, const uint8_t *body,
                              size_t size, size_t row) {
    const uint8_t *types_end = body;
    size_t place = 0;
    uint64_t offset = 0, type = 0;
    for (size_t i = 0; i < decoder->place_count; place++) {
        type = 0; /* of a column that was added after the row: NULL */
        if (types < types_end) {
            size_t used = varint(types, types_end, &type);
            if (!used) return PAGES_DAMAGED;
            types += used;
        }
        if (size_of(type) > size - offset) return PAGES_DAMAGED;
        if (place == decoder->places[i]) {
            PagesStatus status = put(decoder, decoder->targets[i++], row, body + offset, type);
            if (status) return status;
        }
        offset += size_of(type);
    }
    return PAGES_OK;
}

/* Decode a record of `size` bytes, behind which `PADDING` more can be read. */
static PagesStatus decode_record(Decoder *decoder, const uint8_t *record, size_t size, size_t row) {
    uint64_t header_size = 0;
    size_t used = varint(record, record + size, &header_size);
    if (!used || header_size < used || header_size > size) return PAGES_DAMAGED;
    if (!decoder->place_count) return PAGES_OK;
    const uint8_t *types = record + used, *body = record + header_size;
    size_t count = (size_t)decoder->places[decoder->place_count - 1] + 1;
    uint8_t long_types = 0x80;
    if (count <= header_size - used) {
        long_types = 0;
        for (size_t i = 0; i < count; i++) long_types |= types[i];
    }
    size_t room = size - (size_t)header_size;
    return long_types & 0x80 ? decode_any(decoder, types, body, room, row)
                             : decode_plain(decoder, types, body, room, row);
}

/* Put together a record of which only the first `local` bytes lie on its page. */
static PagesStatus gather(Decoder *decoder, const uint8_t *local, size_t local_size, size_t size) {
    const Database *db = decoder->db;
    if (size > LARGEST_RECORD) return PAGES_UNSUPPORTED;
    size_t room = size + db->page_size + PADDING;
    uint8_t *record = grown(decoder->record, &decoder->record_room, room, 1);
    if (!record) return PAGES_NO_MEMORY;
    decoder->record = record;
    memcpy(decoder->record, local, local_size);
    uint32_t next = be32(local + local_size);
    for (size_t have = local_size; have < size;) {
        uint8_t *into = decoder->record + have - 4;
        uint8_t kept[4];
        if (!claim(db, next)) return PAGES_DAMAGED;
        memcpy(kept, into, sizeof kept);
        if (read_pages(db, next, 1, into)) return PAGES_NOT_READ;
        next = be32(into);
        memcpy(into, kept, sizeof kept);
        have += db->usable - 4;
    }
    memset(decoder->record + size, 0, PADDING);
    return PAGES_OK;
}

/* How many bytes of a record lie on its own page. */
static size_t local_bytes(const Database *db, uint64_t payload) {
    uint64_t usable = db->usable, most = usable - 35;
    if (payload <= most) return (size_t)payload;
    uint64_t least = (usable - 12) * 32 / 255 - 23;
    uint64_t local = least + (payload - least) % (usable - 4);
    return (size_t)(local <= most ? local : least);
}

/* Decode the cell at `cell`; adds the bytes that it takes on its page to `taken`. */
static PagesStatus decode_cell(Decoder *decoder, const uint8_t *cell, const uint8_t *end,
                               size_t row, size_t *taken) {
    uint64_t payload = 0, rowid = 0;
    const uint8_t *p = cell;
    size_t used = varint(p, end, &payload);
    p += used;
    if (!used || !(used = varint(p, end, &rowid))) return PAGES_DAMAGED;
    p += used;
    if (payload < 1 || payload > INT64_MAX) return PAGES_DAMAGED;
    size_t local = local_bytes(decoder->db, payload);
    bool goes_on = local < payload;
    if (local + (goes_on ? 4 : 0) > (size_t)(end - p)) return PAGES_DAMAGED;
    *taken += (size_t)(p - cell) + local;
    if (decoder->rowid >= 0) {
        if ((int64_t)rowid == NO_VALUE) return PAGES_UNSUPPORTED;
        decoder->columns[decoder->rowid].values[row] = (int64_t)rowid;
    }
    if (!goes_on) return decode_record(decoder, p, local, row);
    PagesStatus status = gather(decoder, p, local, payload);
    return status ? status : decode_record(decoder, decoder->record, payload, row);
}

static PagesStatus decode_page(Decoder *decoder, const uint8_t *bytes, uint32_t page,
                               size_t *rows) {
    const uint8_t *header = header_of(bytes, page), *end = bytes + decoder->db->usable;
    size_t first = (size_t)(header - bytes) + LEAF_HEADER, cells = be16(header + 3), taken = 0;
    if (header[0] != LEAF_TABLE) return PAGES_DAMAGED;
    if (cells > most_rows(decoder->db) || first + 2 * cells > decoder->db->usable)
        return PAGES_DAMAGED;
    for (size_t cell = 0; cell < cells; cell++) {
        size_t at = be16(bytes + first + 2 * cell);
        if (at < first + 2 * cells || at >= decoder->db->usable) return PAGES_DAMAGED;
        PagesStatus status = decode_cell(decoder, bytes + at, end, *rows, &taken);
        if (status) return status;
        /* Cells that lie over one another would make more rows than the page can hold. */
        if (taken > decoder->db->usable) return PAGES_DAMAGED;
        ++*rows;
    }
    return PAGES_OK;
}

/* ---------------------------------------------------------------- columns */

static bool is_valid(const Decoder *decoder, const Column *column) {
    return column->index < MOST_COLUMNS && column->index >= -1 &&
           (column->kind != COLUMN_TEXT || decoder->texts);
}

/* The first column of the same place in the record, which is the one that is decoded. */
static size_t source_of(const Decoder *decoder, size_t column) {
    size_t source = 0;
    while (decoder->columns[source].index != decoder->columns[column].index) source++;
    return source;
}

static PagesStatus prepare(Decoder *decoder) {
    decoder->rowid = -1;
    for (size_t i = 0; i < decoder->column_count; i++)
        if (!is_valid(decoder, &decoder->columns[i])) return PAGES_UNSUPPORTED;
    for (int32_t place = -1; place < MOST_COLUMNS; place++) {
        size_t i = 0;
        while (i < decoder->column_count && decoder->columns[i].index != place) i++;
        if (i == decoder->column_count) continue;
        if (place < 0) {
            decoder->rowid = (int32_t)i;
        } else {
            decoder->places[decoder->place_count] = (uint8_t)place;
            decoder->targets[decoder->place_count++] = (uint8_t)i;
        }
    }
    return PAGES_OK;
}

/* Writes the values in place, in as few bytes each as hold them all and one number more. */
static void pack(Column *column, size_t rows) {
    const int64_t *values = column->values;
    int64_t least = 0, most = 0;
    column->nulls = 0;
    for (size_t row = 0; row < rows; row++) {
        int64_t value = values[row];
        column->nulls += value == NO_VALUE;
        least = value != NO_VALUE && value < least ? value : least;
        most = value > most ? value : most;
    }
    void *into = column->values;
    if (least >= -INT8_MAX && most <= INT8_MAX) {
        column->width = 1;
        for (size_t row = 0; row < rows; row++)
            ((int8_t *)into)[row] = values[row] == NO_VALUE ? INT8_MIN : (int8_t)values[row];
    } else if (least >= -INT16_MAX && most <= INT16_MAX) {
        column->width = 2;
        for (size_t row = 0; row < rows; row++)
            ((int16_t *)into)[row] = values[row] == NO_VALUE ? INT16_MIN : (int16_t)values[row];
    } else if (least >= -INT32_MAX && most <= INT32_MAX) {
        column->width = 4;
        for (size_t row = 0; row < rows; row++)
            ((int32_t *)into)[row] = values[row] == NO_VALUE ? INT32_MIN : (int32_t)values[row];
    } else {
        column->width = 8;
    }
}

/* A column that stands twice is decoded once: copies last to first, before any is packed. */
static void finish(Decoder *decoder, size_t rows) {
    for (size_t i = decoder->column_count; i-- > 0;) {
        Column *column = &decoder->columns[i];
        const Column *source = &decoder->columns[source_of(decoder, i)];
        if (source != column && rows)
            memcpy(column->values, source->values, rows * sizeof *column->values);
    }
    for (size_t i = 0; i < decoder->column_count; i++) pack(&decoder->columns[i], rows);
}

/* How many of the pages from `at` on follow one another in the file. */
static uint32_t run_of(const uint32_t *leaves, size_t count, size_t at) {
    uint32_t run = 1;
    while (run < PAGES_AT_ONCE && at + run < count && leaves[at + run] == leaves[at] + run) run++;
    return run;
}

static PagesStatus decode_all(Decoder *decoder, uint8_t *bytes, const uint32_t *leaves,
                              size_t count, size_t *rows) {
    const Database *db = decoder->db;
    for (size_t i = 0; i < count;) {
        uint32_t run = run_of(leaves, count, i);
        for (uint32_t page = 0; page < run; page++)
            if (!claim(db, leaves[i + page])) return PAGES_DAMAGED;
        if (read_pages(db, leaves[i], run, bytes)) return PAGES_NOT_READ;
        for (uint32_t page = 0; page < run; page++) {
            const uint8_t *start = bytes + (size_t)page * db->page_size;
            PagesStatus status = decode_page(decoder, start, leaves[i + page], rows);
            if (status) return status;
        }
        i += run;
    }
    finish(decoder, *rows);
    return PAGES_OK;
}

int decode_leaves(const Database *db, const uint32_t *leaves, size_t count, Column *columns,
                  size_t column_count, Texts *texts, size_t *rows) {
    Decoder decoder = {
        .db = db, .columns = columns, .texts = texts, .column_count = column_count};
    *rows = 0;
    if (column_count > MOST_COLUMNS) return PAGES_UNSUPPORTED;
    PagesStatus status = prepare(&decoder);
    if (status) return status;
    uint8_t *bytes = calloc((size_t)db->page_size * PAGES_AT_ONCE + PADDING, 1);
    if (!bytes) return PAGES_NO_MEMORY;
    status = decode_all(&decoder, bytes, leaves, count, rows);
    free(bytes);
    free(decoder.record);
    return status;
}
