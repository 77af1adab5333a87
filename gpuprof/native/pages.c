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
    PAGES_AT_ONCE = 32,
    MOST_COLUMNS = 64,
    MOST_PENDING = 128,
    MOST_TRIES = 512, /* by chance not even among millions of texts */
    LAYOUT_BITS = 7,
    LAYOUTS = 1 << LAYOUT_BITS,
    PADDING = 16, /* integers and types are loaded eight bytes at a time */
};
static const uint64_t HASH_FACTOR = 0x9E3779B97F4A7C15u;
static const uint64_t HIGH_BITS = 0x8080808080808080u; /* set in bytes that others follow */
static const uint64_t LARGEST_RECORD = 16u << 20;

/* ---------------------------------------------------------------- bytes */

static uint32_t be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static uint32_t be32(const uint8_t *p) { return be16(p) << 16 | be16(p + 2); }

static uint64_t be64(const uint8_t *p) { return (uint64_t)be32(p) << 32 | be32(p + 4); }

/* One of more bytes than one, seven bits of the integer in each but the ninth. */
static inline size_t long_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    uint64_t bytes = be64(p), last = ~bytes & HIGH_BITS;
    size_t size = last ? (size_t)__builtin_clzll(last) / 8 + 1 : 9;
    if (p >= end || size > (size_t)(end - p)) return 0;
    uint64_t bits = (size < 8 ? bytes >> (64 - 8 * size) : bytes) & ~HIGH_BITS;
    bits = (bits & 0x7F007F007F007F00u) >> 1 | (bits & 0x007F007F007F007Fu);
    bits = (bits & 0x3FFF00003FFF0000u) >> 2 | (bits & 0x00003FFF00003FFFu);
    bits = bits >> 32 << 28 | (bits & 0x0FFFFFFFu);
    *value = size < 9 ? bits : bits << 8 | p[8];
    return size;
}

/* A variable-length integer; returns the bytes it takes, 0 where it does not end before `end`,
 * behind which `PADDING` bytes can be read. */
static size_t varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    if (p >= end || *p >= 0x80) return long_varint(p, end, value);
    *value = *p;
    return 1;
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

static uint64_t mixed(uint64_t hash) {
    hash *= HASH_FACTOR;
    return hash ^ hash >> 32;
}

/* A hash by eight bytes at a time; behind the text, `PADDING` bytes can be read. */
static uint64_t hash_of(const uint8_t *p, size_t size) {
    uint64_t hash = size;
    for (; size >= 8; p += 8, size -= 8) hash = mixed(hash ^ be64(p));
    if (size) hash = mixed(hash ^ be64(p) >> (64 - 8 * size));
    return mixed(hash);
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

bool add_text(Texts *texts, const uint8_t *text, size_t size) {
    if (texts->count >= UINT32_MAX / 2) return false;
    char *bytes = grown(texts->bytes, &texts->bytes_room, texts->size + size + PADDING, 1);
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

PagesStatus number_of(Texts *texts, const uint8_t *text, size_t size, int64_t *number) {
    size_t mask = texts->slot_count - 1, slot = hash_of(text, size) & mask, tries = 0;
    for (; texts->slots[slot]; slot = (slot + 1) & mask) {
        size_t other = texts->slots[slot] - 1;
        uint64_t start = start_of(texts, other);
        *number = (int64_t)other;
        if (texts->ends[other] - start == size &&
            (!size || !memcmp(texts->bytes + start, text, size)))
            return PAGES_OK;
        if (++tries == MOST_TRIES) return PAGES_UNSUPPORTED; /* made to collide */
    }
    *number = (int64_t)texts->count;
    if (!add_text(texts, text, size)) return PAGES_NO_MEMORY;
    texts->slots[slot] = (uint32_t)texts->count;
    return texts->count * 2 <= texts->slot_count || rehash(texts) ? PAGES_OK : PAGES_NO_MEMORY;
}

/* ---------------------------------------------------------------- pages */

/* Reads `count` pages from number `first` on, counted from 1, and `PADDING` zeros after them. */
static PagesStatus read_pages(const Database *db, uint32_t first, uint32_t count, uint8_t *into) {
    size_t size = (size_t)count * db->page_size, have = 0;
    off_t offset = (off_t)(first - 1) * db->page_size;
    while (have < size) {
        ssize_t got = pread(db->file, into + have, size - have, offset + (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return PAGES_NOT_READ;
        have += (size_t)got;
    }
    memset(into + size, 0, PADDING);
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
    uint32_t offset; /* from the end of the record's header */
    uint32_t type;
} Value;

/* Where the wanted values lie in all records whose headers state the same types. */
typedef struct {
    uint64_t types[MOST_COLUMNS / 8]; /* eight in each, as they stand in the header */
    uint64_t size; /* of a record without its header, up to the last wanted value */
    Value values[MOST_COLUMNS];
} Layout;

typedef struct {
    const uint8_t *body; /* what follows its header */
    const Layout *layout;
} Record;

typedef struct {
    const Database *db;
    Column *columns;
    Texts *texts;
    Layout *layouts; /* those met lately, by a hash of their types, and one that is not kept */
    uint8_t *record; /* a record that continues on other pages, put together */
    size_t record_room;
    size_t rows; /* whose values are decoded */
    Record pending[MOST_PENDING]; /* records of the rows after them */
    size_t pending_count;
    size_t column_count;
    uint64_t type_masks[MOST_COLUMNS / 8]; /* bits of the types up to the last wanted one */
    size_t type_count, type_words;
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

/* Whether a column holds values of a type; REAL, and what is of another kind, are refused. */
static bool is_known(const Column *column, uint64_t type) {
    if (column->kind == COLUMN_TEXT) return type == 0 || (type > 12 && type & 1);
    if (column->kind == COLUMN_BYTES) return type == 0 || (type >= 12 && !(type & 1));
    return type <= 9 && type != 7;
}

/* Finds where the wanted values lie in a record that has `room` bytes behind its header. */
static PagesStatus lay_out(const Decoder *decoder, const uint8_t *types, const uint8_t *types_end,
                           uint64_t room, Layout *layout) {
    uint64_t offset = 0;
    size_t place = 0;
    for (size_t i = 0; i < decoder->place_count; place++) {
        uint64_t type = 0; /* of a column that was added after the row: NULL */
        if (types < types_end) {
            size_t used = varint(types, types_end, &type);
            if (!used) return PAGES_DAMAGED;
            types += used;
        }
        if (size_of(type) > room - offset) return PAGES_DAMAGED;
        if (place == decoder->places[i]) {
            if (!is_known(&decoder->columns[decoder->targets[i]], type)) return PAGES_UNSUPPORTED;
            layout->values[i++] = (Value){(uint32_t)offset, (uint32_t)type};
        }
        offset += size_of(type);
    }
    layout->size = offset;
    return PAGES_OK;
}

static PagesStatus decode_integers(const Decoder *decoder, size_t place, int64_t *into) {
    static const struct {
        int64_t constant; /* what the type itself states: NULL, 0 or 1 */
        int32_t mask;
        int32_t shift;
    } integers[10] = {{NO_VALUE, 0, 63}, {0, -1, 56}, {0, -1, 48}, {0, -1, 40}, {0, -1, 32},
                      {0, -1, 16},       {0, -1, 0},  {0, 0, 63},  {0, 0, 63},  {1, 0, 63}};
    const Record *records = decoder->pending;
    size_t count = decoder->pending_count;
    bool is_refused = false;
    for (size_t i = 0; i < count; i++) {
        Value value = records[i].layout->values[place];
        int64_t stored = (int64_t)be64(records[i].body + value.offset) >> integers[value.type].shift;
        into[i] = (stored & integers[value.type].mask) | integers[value.type].constant;
        is_refused |= stored == NO_VALUE;
    }
    return is_refused ? PAGES_UNSUPPORTED : PAGES_OK;
}

static PagesStatus decode_texts(const Decoder *decoder, size_t place, int64_t *into) {
    for (size_t i = 0; i < decoder->pending_count; i++) {
        const Record *record = &decoder->pending[i];
        Value value = record->layout->values[place];
        const uint8_t *text = record->body + value.offset;
        PagesStatus status = PAGES_OK;
        into[i] = NO_VALUE;
        if (value.type) status = number_of(decoder->texts, text, size_of(value.type), &into[i]);
        if (status) return status;
    }
    return PAGES_OK;
}

/* Decodes the pending records, column by column, before what they refer to changes. */
static PagesStatus decode_pending(Decoder *decoder) {
    for (size_t i = 0; i < decoder->place_count; i++) {
        const Column *column = &decoder->columns[decoder->targets[i]];
        int64_t *into = column->values + decoder->rows;
        PagesStatus status = column->kind == COLUMN_INTEGER ? decode_integers(decoder, i, into)
                                                            : decode_texts(decoder, i, into);
        if (status) return status;
    }
    decoder->rows += decoder->pending_count;
    decoder->pending_count = 0;
    return PAGES_OK;
}

/* Where the layout of a record is kept, and a copy of its wanted types; NULL where one of them
 * takes more bytes of the header, or none. */
static Layout *slot_of(const Decoder *decoder, const uint8_t *types, size_t size, uint64_t *copy) {
    uint64_t all = 0, hash = 0;
    if (size < decoder->type_count) return NULL;
    for (size_t i = 0; i < decoder->type_words; i++) {
        memcpy(&copy[i], types + 8 * i, sizeof copy[i]);
        copy[i] &= decoder->type_masks[i];
        all |= copy[i];
        hash = (hash ^ copy[i]) * HASH_FACTOR;
    }
    return all & HIGH_BITS ? NULL : &decoder->layouts[hash >> (64 - LAYOUT_BITS)];
}

/* The layout of a record: one met before, or a new one. */
static PagesStatus layout_of(Decoder *decoder, const uint8_t *types, const uint8_t *types_end,
                             uint64_t room, const Layout **layout) {
    uint64_t copy[MOST_COLUMNS / 8];
    Layout *slot = slot_of(decoder, types, (size_t)(types_end - types), copy);
    bool is_same = slot;
    for (size_t i = 0; slot && i < decoder->type_words; i++) is_same &= slot->types[i] == copy[i];
    *layout = slot;
    if (is_same) return slot->size > room ? PAGES_DAMAGED : PAGES_OK;
    PagesStatus status = decode_pending(decoder);
    if (status) return status;
    if (slot) memcpy(slot->types, copy, decoder->type_words * sizeof *copy);
    Layout *made = slot ? slot : &decoder->layouts[LAYOUTS];
    *layout = made;
    return lay_out(decoder, types, types_end, room, made);
}

/* Add a record of `size` bytes, behind which `PADDING` more can be read, to those pending. */
static PagesStatus add_record(Decoder *decoder, const uint8_t *record, size_t size) {
    uint64_t header_size = 0;
    size_t used = varint(record, record + size, &header_size);
    if (!used || header_size < used || header_size > size) return PAGES_DAMAGED;
    const uint8_t *body = record + header_size;
    const Layout *layout = NULL;
    PagesStatus status = layout_of(decoder, record + used, body, size - header_size, &layout);
    if (status) return status;
    decoder->pending[decoder->pending_count++] = (Record){body, layout};
    return decoder->pending_count < MOST_PENDING ? PAGES_OK : decode_pending(decoder);
}

/* Put together a record of which only the first `local` bytes lie on its page. */
static PagesStatus gather(Decoder *decoder, const uint8_t *local, size_t local_size, size_t size) {
    const Database *db = decoder->db;
    PagesStatus status = decode_pending(decoder);
    if (status) return status;
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

/* Add the record of the cell at `cell`, and the bytes that it takes on its page to `taken`. */
static PagesStatus add_cell(Decoder *decoder, const uint8_t *cell, const uint8_t *end,
                            size_t *taken) {
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
        size_t row = decoder->rows + decoder->pending_count;
        decoder->columns[decoder->rowid].values[row] = (int64_t)rowid;
    }
    PagesStatus status = goes_on ? gather(decoder, p, local, payload) : PAGES_OK;
    return status ? status : add_record(decoder, goes_on ? decoder->record : p, payload);
}

static PagesStatus decode_page(Decoder *decoder, const uint8_t *bytes, uint32_t page) {
    const uint8_t *header = header_of(bytes, page), *end = bytes + decoder->db->usable;
    size_t first = (size_t)(header - bytes) + LEAF_HEADER, cells = be16(header + 3), taken = 0;
    if (header[0] != LEAF_TABLE) return PAGES_DAMAGED;
    if (cells > most_rows(decoder->db) || first + 2 * cells > decoder->db->usable)
        return PAGES_DAMAGED;
    for (size_t cell = 0; cell < cells; cell++) {
        size_t at = be16(bytes + first + 2 * cell);
        if (at < first + 2 * cells || at >= decoder->db->usable) return PAGES_DAMAGED;
        PagesStatus status = add_cell(decoder, bytes + at, end, &taken);
        if (status) return status;
        /* Cells that lie over one another would make more rows than the page can hold. */
        if (taken > decoder->db->usable) return PAGES_DAMAGED;
    }
    return decode_pending(decoder);
}

/* ---------------------------------------------------------------- columns */

static bool is_valid(const Decoder *decoder, const Column *column) {
    return column->index < MOST_COLUMNS && column->index >= -1 &&
           (column->kind == COLUMN_INTEGER || decoder->texts);
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
            decoder->type_count = (size_t)place + 1;
        }
    }
    memset(decoder->type_masks, 0xFF, decoder->type_count);
    decoder->type_words = (decoder->type_count + 7) / 8;
    decoder->layouts = calloc(LAYOUTS + 1, sizeof *decoder->layouts);
    if (!decoder->layouts) return PAGES_NO_MEMORY;
    for (size_t i = 0; i < LAYOUTS; i++) decoder->layouts[i].types[0] = HIGH_BITS; /* is none's */
    return PAGES_OK;
}

/* Where a value stands among the meanings of a column, which it may become one of; -1 for no room. */
static int32_t meaning_of(Column *column, uint8_t *slots, int64_t value) {
    uint8_t slot = (uint8_t)(mixed((uint64_t)value) >> 24);
    for (; slots[slot]; slot++)
        if (column->meanings[slots[slot] - 1] == value) return slots[slot] - 1;
    if (column->meaning_count == MOST_MEANINGS) return -1;
    column->meanings[column->meaning_count++] = value;
    slots[slot] = (uint8_t)column->meaning_count;
    return column->meaning_count - 1;
}

/* Writes places among few different values in place of these, where they are few. */
static bool pack_meanings(Column *column, size_t rows) {
    uint8_t slots[256] = {0}; /* twice as many as meanings, so that one is free */
    int64_t *values = column->values, last = NO_VALUE;
    int8_t *into = (int8_t *)values;
    int32_t place = INT8_MIN;
    for (size_t row = 0; row < rows; row++) {
        int64_t value = values[row];
        if (value != last)
            place = value == NO_VALUE ? INT8_MIN : meaning_of(column, slots, value);
        if (place == -1) { /* one too many: from the last to the first, places become values again */
            while (row-- > 0)
                values[row] = into[row] == INT8_MIN ? NO_VALUE : column->meanings[into[row]];
            column->meaning_count = 0;
            return false;
        }
        last = value;
        into[row] = (int8_t)place;
    }
    return true;
}

/* Writes the values in place, in as few bytes each as hold them all and one number more. */
static void pack(Column *column, size_t rows) {
    const int64_t *values = column->values;
    uint64_t bits = 0; /* of the magnitudes; that of NULL is the highest alone */
    for (size_t row = 0; row < rows; row++) {
        uint64_t value = (uint64_t)values[row], sign = (uint64_t)(values[row] >> 63);
        bits |= (value ^ sign) - sign;
    }
    column->nulls = column->meaning_count = 0;
    for (size_t row = 0; bits >> 63 && row < rows; row++) column->nulls += values[row] == NO_VALUE;
    bits &= INT64_MAX;
    void *into = column->values;
    if (bits <= INT8_MAX) {
        column->width = 1;
        for (size_t row = 0; row < rows; row++)
            ((int8_t *)into)[row] = values[row] == NO_VALUE ? INT8_MIN : (int8_t)values[row];
    } else if (bits <= INT16_MAX) {
        column->width = 2;
        for (size_t row = 0; row < rows; row++)
            ((int16_t *)into)[row] = values[row] == NO_VALUE ? INT16_MIN : (int16_t)values[row];
    } else if (bits <= INT32_MAX) {
        column->width = 4;
        for (size_t row = 0; row < rows; row++)
            ((int32_t *)into)[row] = values[row] == NO_VALUE ? INT32_MIN : (int32_t)values[row];
    } else if (column->kind == COLUMN_INTEGER && pack_meanings(column, rows)) {
        column->width = 1;
    } else {
        column->width = 8;
    }
}

/* A column that stands twice is decoded once: copies last to first, before any is packed. */
static void finish(Decoder *decoder) {
    size_t rows = decoder->rows;
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
                              size_t count) {
    const Database *db = decoder->db;
    for (size_t i = 0; i < count;) {
        uint32_t run = run_of(leaves, count, i);
        for (uint32_t page = 0; page < run; page++)
            if (!claim(db, leaves[i + page])) return PAGES_DAMAGED;
        if (read_pages(db, leaves[i], run, bytes)) return PAGES_NOT_READ;
        for (uint32_t page = 0; page < run; page++) {
            const uint8_t *start = bytes + (size_t)page * db->page_size;
            PagesStatus status = decode_page(decoder, start, leaves[i + page]);
            if (status) return status;
        }
        i += run;
    }
    finish(decoder);
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
    uint8_t *bytes = malloc((size_t)db->page_size * PAGES_AT_ONCE + PADDING);
    status = bytes ? decode_all(&decoder, bytes, leaves, count) : PAGES_NO_MEMORY;
    free(bytes);
    free(decoder.layouts);
    free(decoder.record);
    *rows = decoder.rows;
    return status;
}

void spread_meanings(const int8_t *places, size_t count, const int64_t *meanings, int64_t *values) {
    for (size_t i = 0; i < count; i++) values[i] = meanings[(uint8_t)places[i]];
}

size_t distances(const int64_t *values, size_t count, size_t block, int32_t *into, int64_t *least) {
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    bool are_near = count;
    for (size_t low = 0; low < count; low += block) {
        int64_t first = INT64_MAX, last = INT64_MIN;
        for (size_t i = low; i < count && i < low + block; i++) {
            first = values[i] < first ? values[i] : first;
            last = values[i] > last ? values[i] : last;
        }
        are_near &= (uint64_t)last - (uint64_t)first <= INT32_MAX;
        lowest = first < lowest ? first : lowest;
        highest = last > highest ? last : highest;
        least[low / block] = first;
    }
    if (!are_near) return 0;
    if ((uint64_t)highest - (uint64_t)lowest <= INT32_MAX) {
        least[0] = lowest;
        block = count;
    }
    for (size_t low = 0; low < count; low += block)
        for (size_t i = low; i < count && i < low + block; i++)
            into[i] = (int32_t)((uint64_t)values[i] - (uint64_t)least[low / block]);
    return (count - 1) / block + 1;
}
