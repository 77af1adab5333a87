/* Coverage-guided fuzzing of the compiled functions, with libFuzzer, ASan and UBSan.
 *
 * An input is a few bytes that choose a table and its columns, and then a database. Run by
 * `make fuzz`; see fuzz_native.py.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static const uint8_t *bytes_of_file;
static size_t size_of_file;

/* In place of the system's, so that the file is the input. */
ssize_t pread_of_input(int file, void *into, size_t size, off_t offset) {
    (void)file;
    if (offset < 0 || (size_t)offset >= size_of_file) return 0;
    size_t left = size_of_file - (size_t)offset;
    memcpy(into, bytes_of_file + offset, size < left ? size : left);
    return (ssize_t)(size < left ? size : left);
}
#define pread pread_of_input
#include "../../gpuprof/native/arrays.c"
#include "../../gpuprof/native/replay.c"
#define INTERVALS_INCLUDED
#include "../../gpuprof/native/pages.c"

enum { CHOICES = 8, FIELDS = 6, PIECE = 3 };

static Integers integers_of(const Column *column, size_t rows) {
    return (Integers){column->values, (size_t)column->width, rows};
}

/* Unions, differences and groups of whatever was decoded. */
static void use(const Column *columns, size_t rows) {
    int64_t bounds[129], next[128];
    int64_t *times = malloc((2 * rows + 1) * sizeof *times);
    Integers group = integers_of(&columns[2], rows), values = integers_of(&columns[1], rows);
    if (!unions_of_keys(integers_of(&columns[0], rows), values, group, 128, bounds, times)) {
        Intervals made = {times, times + rows, (size_t)bounds[128]};
        size_t half = made.count / 2, rest = made.count - half;
        const int64_t *later = made.start + half, *later_end = made.end + half;
        int64_t *room = malloc((2 * made.count + 1) * sizeof *room);
        (void)difference_of(made.start, made.end, half, later, later_end, rest, 0, room, made.count);
        (void)intersection_of(made.start, made.end, half, later, later_end, rest, room, made.count);
        (void)union_of(later, later_end, rest, made.start, made.end, half, room, made.count);
        int64_t *covered = malloc((made.count + 1) * sizeof *covered);
        half = half > 0 ? half - 1 : 0;
        covered_before(made.start, made.end, half, room);
        covered_within(made.start, made.end, half, room, made.start, made.end, made.count, covered);
        free(covered);
        free(room);
    }
    free(times);
    int64_t *gathered = malloc((rows + 1) * sizeof *gathered);
    for (size_t i = 0; i < 128; i++) next[i] = (int64_t)(i % 3) - (int64_t)(i % 5 == 4);
    (void)gather_groups(values, group, 128, next, (Integers){gathered, values.width, rows});
    free(gathered);
}

/* Launches and ranges of whatever was decoded, sorted or not. */
static void match(const Column *columns, size_t rows) {
    Integers a = integers_of(&columns[0], rows), b = integers_of(&columns[1], rows);
    Integers c = integers_of(&columns[2], rows);
    size_t few = rows < 256 ? rows : 256;
    int64_t *places = malloc((5 * rows + 1) * sizeof *places), *pairs = places + rows;
    int32_t *numbers = malloc((rows + 1) * sizeof *numbers);
    for (size_t i = 0; i < rows; i++) {
        pairs[i] = at(a, i);
        pairs[rows + i] = at(b, i);
    }
    pair_places(b, a, pairs, pairs + rows, rows, numbers);
    for (size_t i = 0; i < rows; i++)
        if (numbers[i] < -1 || (numbers[i] >= 0 && (size_t)numbers[i] >= rows)) abort();
    (void)id_places(c, b, (const IdSpan *)pairs, few / 2, places);
    int32_t *heads = malloc((3 * rows + 1) * sizeof *heads);
    for (size_t i = 0; i < rows; i++) heads[i] = (int32_t)(i % 3) - 1;
    (void)chain_ids(c, b, (const IdSpan *)pairs, few / 2, rows, heads, numbers);
    Launched launched = {heads + rows, places, heads + 2 * rows, 0, rows};
    (void)take_chains(c, a, b, (const IdSpan *)pairs, few / 2, rows, heads, numbers, &launched);
    if (launched.count > rows) abort();
    (void)open_ranges(a, b, c, rows & 1, places);
    for (size_t i = 0; i < rows; i++)
        if (places[i] < -1 || (places[i] >= 0 && (size_t)places[i] >= rows)) abort();
    a.count = few; /* the work grows with the square */
    (void)extents(a, b, c, b, a.count < rows ? b : a, pairs, pairs + rows);
    a.count = rows;
    /* As many calls as operations, of whatever times, launched and waiting for whatever. */
    Items items = {few / 4, few / 4, few / 2, pairs, b, rows ? pairs[0] : 0};
    Integers numbered = {heads, 4, few / 4}, stored = {places, 8, few / 4};
    Weights weights = {a, a, b, numbered, c, numbered, a, b, c, stored, pairs};
    Replayed made = {{places + 3 * rows, 8, rows}, 0, 0};
    for (size_t i = 0; i < few; i++) heads[i] = (int32_t)(i % 5);
    if (rows >= 16) (void)replay(&items, &weights, &weights, rows & 1, NULL, c, &made);
    free(heads);
    free(numbers);
    free(places);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < CHOICES + 480) return 0;
    const uint8_t *choice = data;
    bytes_of_file = data + CHOICES;
    size_of_file = size - CHOICES;
    Database db = {.file = 3, .page_size = 512u << (choice[0] & 3)};
    db.usable = db.page_size - (choice[0] >> 4);
    if (db.usable < 480) db.usable = 480;
    db.pages = (uint32_t)(size_of_file / db.page_size);
    if (!db.pages) return 0;
    db.used = calloc(db.pages / 8 + 1, 1);
    uint32_t *leaves = malloc(db.pages * sizeof *leaves);
    size_t count = 0, rows = 0;
    if (!leaf_pages(&db, choice[1] % (db.pages + 1), leaves, &count)) {
        Texts *texts = texts_new();
        for (size_t at = 0; at < count; at += PIECE) {
            size_t pages = count - at < PIECE ? count - at : PIECE;
            size_t room = pages * most_rows(&db);
            Column columns[FIELDS];
            int64_t *values = malloc(FIELDS * room * sizeof *values);
            int64_t meanings[FIELDS][MOST_MEANINGS];
            for (int i = 0; i < FIELDS; i++)
                columns[i] = (Column){.index = (choice[2 + i] & 15) - 1,
                                      .kind = choice[2 + i] & 128  ? COLUMN_TEXT
                                              : choice[2 + i] & 64 ? COLUMN_BYTES
                                                                   : COLUMN_INTEGER,
                                      .values = values + i * room,
                                      .meanings = meanings[i]};
            int status = decode_leaves(&db, leaves + at, pages, columns, FIELDS, texts, &rows);
            if (!status) use(columns, rows);
            if (!status) match(columns, rows);
            free(values);
            if (status) break;
        }
        texts_free(texts);
    }
    free(leaves);
    free(db.used);
    return 0;
}
