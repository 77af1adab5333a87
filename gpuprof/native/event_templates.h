/* Events that are printed as one before, but for their times, ids and what nobody asks for.
 *
 * A template is the text of an event with holes where values may differ. What fits one is compared,
 * not parsed. Which one comes next is guessed by those before, since programs repeat themselves: a
 * wrong guess costs time, and no guess decides what an event says.
 */
#ifndef GPUPROF_EVENT_TEMPLATES_H
#define GPUPROF_EVENT_TEMPLATES_H

#include "json.h"

/* What may stand in a hole; of texts, any but the name of instants that tell of memory. */
typedef enum { NO_HOLE, ANY_VALUE, ANY_NAME, START, DURATION, CORRELATION } HoleKind;

typedef struct {
    Part value;
    HoleKind kind;
} Hole;

typedef struct {
    int64_t start_ns, duration_ns;
    int64_t correlation; /* -1 for none */
    bool has_fraction;   /* whether the start has parts of a microsecond */
} Printed;

/* What events of a template are. */
typedef struct {
    int32_t kind;       /* -1 where nothing is kept of them */
    int32_t attributes; /* their number among those of the kind */
} Meaning;

typedef struct Templates Templates;

Templates *templates_new(void);
void templates_free(Templates *templates);

/* Passes over an event that fits the template guessed, and reads its holes; NULL where none does. */
const Meaning *pass_guessed(Templates *templates, const uint8_t **at, const uint8_t *end,
                            Printed *printed);

/* Keeps an event that fitted no guess as a template; some are too long, which costs only time. */
void learn(Templates *templates, Part event, const Hole *holes, size_t count, Meaning meaning);

bool is_memory_name(Part name);

#endif
