/* Coverage-guided fuzzing of the scan of JSON traces, with libFuzzer, ASan and UBSan.
 *
 * An input is one byte, the size of the pieces, and then a text. In pieces, each read as if no
 * event had come before, it must give what it gives at once. Run by `make fuzz`; see fuzz_native.py.
 */
#define _GNU_SOURCE
#include "../../gpuprof/native/pages.c"
#include "../../gpuprof/native/event_templates.c"
#include "../../gpuprof/native/trace_events.c"

static const Word categories[] = {{"kernel", 6}, {"cpu_op", 6}, {"python_function", 15}};
static const int32_t kinds[] = {0, 1, 2};
static const uint8_t details[] = {ARGUMENTS, TIMES, PRESENCE};
static const Word arguments[] = {{"device", 6}, {"grid", 4}, {"correlation", 11}};
static const Wanted wanted = {categories, kinds, 3, details, arguments, 3};

static void forget(Templates *templates) {
    templates->history = 0;
    memset(templates->after, 0, sizeof templates->after);
    memset(templates->after_three, 0, sizeof templates->after_three);
}

/* Reads a text in pieces of so many bytes, each a block of its own; NULL for an odd one. */
static Scan *scanned(const uint8_t *data, size_t size, size_t piece_size) {
    Scan *scan = scan_new(&wanted);
    size_t done = 0, end = 0;
    while (end < size) {
        end = size - end < piece_size ? size : end + piece_size;
        uint8_t *piece = malloc(end - done + 1);
        memcpy(piece, data + done, end - done);
        uint8_t *exact = realloc(piece, end - done ? end - done : 1);
        size_t used = 0;
        if (piece_size < size) forget(scan->templates);
        EventsStatus status = scan_piece(scan, exact, end - done, &used);
        free(exact);
        if (used > end - done) abort();
        if (status) {
            scan_free(scan);
            return NULL;
        }
        done += used;
    }
    if (done == size && scan_is_complete(scan)) return scan;
    scan_free(scan);
    return NULL;
}

static void check_equal(Scan *a, Scan *b) {
    for (size_t kind = 0; kind < 3; kind++) {
        EventRows *x = scan_rows(a, kind), *y = scan_rows(b, kind);
        size_t size = x->count * 8;
        if (x->count != y->count || x->is_present != y->is_present) abort();
        if (x->has_fractions != y->has_fractions) abort();
        if (texts_count(x->texts) != texts_count(y->texts)) abort();
        if (!size) continue;
        if (memcmp(x->start_ns, y->start_ns, size)) abort();
        if (memcmp(x->duration_ns, y->duration_ns, size)) abort();
        if (memcmp(x->correlation, y->correlation, size)) abort();
        if (memcmp(x->attributes, y->attributes, size / 2)) abort();
    }
    size_t first, second;
    const char *members = scan_members(a, &first), *others = scan_members(b, &second);
    if (first != second || (first && memcmp(members, others, first))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    Scan *at_once = scanned(data + 1, size - 1, size);
    Scan *in_pieces = scanned(data + 1, size - 1, data[0] + 1u);
    if (!at_once != !in_pieces) abort();
    if (at_once) check_equal(at_once, in_pieces);
    scan_free(at_once);
    scan_free(in_pieces);
    return 0;
}
