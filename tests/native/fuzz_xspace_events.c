/* Coverage-guided fuzzing of the decoder of XSpace events, with libFuzzer, ASan and UBSan.
 *
 * An input is a line. Run by `make fuzz`; see fuzz_native.py.
 */
#include <stdlib.h>
#include <string.h>

#include "../../gpuprof/native/xspace_events.c"

enum { SLOTS = 2 };
static const int8_t slots[] = {-1, 0, 1, 1};

static void *zeros(size_t count, size_t width) {
    void *made = calloc(count ? count : 1, width);
    if (!made) abort();
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *line = zeros(size, 1); /* a block of its own, which ends where the line does */
    if (size) memcpy(line, data, size);
    size_t place = 0, again = 0, count = event_places(line, size, &place, NULL, NULL);
    uint32_t *begin = zeros(count, sizeof *begin), *end = zeros(count, sizeof *end);
    if (event_places(line, size, &again, begin, end) != count || again != place) abort();
    EventColumns columns = {
        zeros(count, 8),         zeros(count, 8),         zeros(count, 8),
        zeros(count * SLOTS, 1), zeros(count * SLOTS, 8), zeros(count * SLOTS, 4),
    };
    if (!event_columns(line, begin, end, count, slots, sizeof slots, &columns))
        for (size_t i = 0; i < count * SLOTS; i++)
            if (columns.kind[i] == STAT_TEXT &&
                (columns.value[i] < 0 || (size_t)(columns.value[i] + columns.size[i]) > size))
                abort();
    free(columns.metadata_id);
    free(columns.offset_ps);
    free(columns.duration_ps);
    free(columns.kind);
    free(columns.value);
    free(columns.size);
    free(begin);
    free(end);
    free(line);
    return 0;
}
