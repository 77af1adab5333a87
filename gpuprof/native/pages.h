/* Columns of SQLite tables, decoded from the pages of the database file.
 *
 * Format: https://www.sqlite.org/fileformat2.html. Every length and offset that the file states is
 * checked against the page that it lies in, and each page is used once: a file can neither make
 * the decoder read outside its buffers nor work longer than its own size justifies. Whatever is
 * not known for certain is refused, and the caller reads the table through SQLite instead.
 */
#ifndef GPUPROF_PAGES_H
#define GPUPROF_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stands for NULL in decoded columns; a file that holds this very number is refused. */
#define NO_VALUE INT64_MIN

typedef enum {
    PAGES_OK = 0,
    PAGES_DAMAGED,     /* the file contradicts itself */
    PAGES_UNSUPPORTED, /* a type or layout that no column of its kind has */
    PAGES_NO_MEMORY,
    PAGES_NOT_READ, /* the file ended, or reading it failed */
} PagesStatus;

typedef struct {
    int32_t file; /* descriptor; read with pread alone: a mapped file that shrinks would kill us */
    uint32_t page_size;
    uint32_t usable; /* page size without the bytes reserved at each page's end */
    uint32_t pages;
    uint8_t *used; /* one bit per page and one more, shared by all threads that read one table */
} Database;

/* Bytes (BLOB) are numbered like texts. */
typedef enum { COLUMN_INTEGER = 0, COLUMN_TEXT = 1, COLUMN_BYTES = 2 } ColumnKind;

typedef struct {
    int32_t index; /* place in the record, or -1 for the rowid */
    int32_t kind;
    int64_t *values; /* room for one value of every row */
    int64_t nulls;
    int32_t width; /* bytes of each packed value; NULL is the least number of that width */
    int32_t meaning_count; /* where that is above 0, packed values are places among so many */
    int64_t *meanings; /* room for `MOST_MEANINGS` */
} Column;

enum { MOST_MEANINGS = 127 };

typedef struct Texts Texts; /* distinct texts, numbered in the order of their first use */

Texts *texts_new(void);
void texts_free(Texts *texts);
/* The texts one after another, and the end of each; they hold until more are decoded. */
size_t texts_count(const Texts *texts);
const char *texts_bytes(const Texts *texts);
const uint64_t *texts_ends(const Texts *texts);
/* Adds a text, also one that is there already; false without memory. */
bool add_text(Texts *texts, const uint8_t *text, size_t size);
/* Finds the number of a text, which is added where it is new; `PADDED` bytes behind it can be read. */
enum { PADDED = 16 };
PagesStatus number_of(Texts *texts, const uint8_t *text, size_t size, int64_t *number);

/* The numbers of a table's leaf pages in the order of its rows; `leaves` has room for all pages. */
int leaf_pages(const Database *db, uint32_t root, uint32_t *leaves, size_t *count);

/* The most rows that a leaf page can hold. */
size_t most_rows(const Database *db);

/* Decode some leaf pages, and pack each column into as few bytes a value as its values need, and
 * into one where integers that take eight are few different ones.
 *
 * `columns` have room for `count * most_rows(db)` values of eight bytes each.
 */
int decode_leaves(const Database *db, const uint32_t *leaves, size_t count, Column *columns,
                  size_t column_count, Texts *texts, size_t *rows);

/* What places among 256 meanings stand for; those below 0 count from the end. */
void spread_meanings(const int8_t *places, size_t count, const int64_t *meanings, int64_t *values);

/* Writes what numbers are more than the least one, or than that of their block, where that takes
 * 32 bits without a sign; returns how many of these `least` has then, 0 for none. */
size_t distances(const int64_t *values, size_t count, size_t block, int32_t *into, int64_t *least);

#endif
