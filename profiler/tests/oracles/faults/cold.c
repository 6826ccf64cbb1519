// Reads a file that is not in the page cache, page by page, through a mapping that begins at its fourth page.
//
// cold MODE FOLDER: ascending and shuffled (MADV_RANDOM: every page is one fault, none is hidden by read-around or fault-around),
// sequential (MADV_SEQUENTIAL), plain (no advice). In the last two, the kernel decides which touches fault, and the program prints which did.
#include "fault.h"

#define PAGES ((size_t)64)
#define BEFORE ((size_t)3)

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *mode = argv[1];
    bool shuffled = !strcmp(mode, "shuffled"), random = shuffled || !strcmp(mode, "ascending");
    struct source *file = new_file(argv[2], "cold", BEFORE + PAGES);
    evict(file, BEFORE + PAGES);
    struct phase phase = {.name = mode, .exact = random};
    map_file(&phase, file, PROT_READ, MAP_SHARED, BEFORE, PAGES);
    if (random) madvise(phase.base, PAGES * PAGE, MADV_RANDOM);
    if (!strcmp(mode, "sequential")) madvise(phase.base, PAGES * PAGE, MADV_SEQUENTIAL);
    phase.resident_before = resident(file, BEFORE + PAGES);
    phase_start(&phase, PAGES);
    for (size_t i = 0; i < PAGES; i++) touch_load(&phase, shuffled ? (i * 27 + 5) % PAGES : i, "file-read");
    phase_end(&phase);
    phase.resident_after = resident(file, BEFORE + PAGES);
    phase_print(&phase);
    unlink(file->path);
    return 0;
}
