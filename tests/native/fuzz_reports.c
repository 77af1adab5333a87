/* Coverage-guided fuzzing of the decoder of nsys reports, with libFuzzer, ASan and UBSan.
 *
 * An input is blocks of events as they are. Run by `make fuzz`; see fuzz_native.py.
 */
#include "../../gpuprof/native/pages.c"
#define Decoder ReportDecoder
#include "../../gpuprof/native/reports.c"

enum { MESSAGES = 5, SLOTS = 9, TABLES = 3 };

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!steps[1]) set_up();
    ReportRows rows[TABLES] = {0};
    uint64_t others[REPORT_TYPES] = {0};
    Texts *texts = texts_new();
    (void)report_events(data, size, &layout, rows, texts, others);
    size_t known = texts_count(texts);
    for (int t = 0; t < TABLES; t++) {
        int width = bounds[t + 1] - bounds[t];
        for (size_t row = 0; row < rows[t].count; row++)
            for (int i = 0; i < width; i++) {
                int64_t value = rows[t].values[row * (size_t)width + (size_t)i];
                bool is_number = value >= 0 && (size_t)value < known;
                if (is_text[members[bounds[t] + i]] && value != NO_VALUE && !is_number) abort();
            }
        report_release(&rows[t]);
    }
    texts_free(texts);
    texts = texts_new();
    (void)report_texts(data, size, texts);
    texts_free(texts);
    return 0;
}
