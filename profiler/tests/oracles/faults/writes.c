// Writes to a mapped file whose pages are in the cache.
//
// writes MODE FOLDER: private (the first write copies the page), shared (the page becomes dirty), private-after-read and shared-after-read (a
// read maps the page first, and the write is a second fault). Touched pages are 32 apart, out of reach of fault-around.
#include "fault.h"

#define COUNT ((size_t)8)
#define APART ((size_t)32)

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    bool shared = !strncmp(argv[1], "shared", 6), read_first = strstr(argv[1], "after-read") != 0;
    struct source *file = new_file(argv[2], "writes", COUNT * APART);
    struct phase phase = {.name = argv[1], .exact = true, .resident_before = -1, .resident_after = -1};
    map_file(&phase, file, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, APART, (COUNT - 1) * APART);
    phase_start(&phase, 2 * COUNT);
    for (size_t i = 0; i + 1 < COUNT; i++) {
        if (read_first) touch_load(&phase, i * APART, "file-read");
        touch_store(&phase, i * APART, shared ? "shared-dirty" : "file-cow");
    }
    phase_end(&phase);
    phase_print(&phase);
    unlink(file->path);
    return 0;
}
