// Touches every fifth page of a mapped file that is in the page cache in single pages (the kernel may map a larger folio at once).
//
// strided exact|plain FOLDER: exact if the kernel maps no pages around a fault, and each touch therefore faults.
#include "fault.h"

#define TOUCHES ((size_t)64)
#define STRIDE ((size_t)5)
#define PAGES (TOUCHES * STRIDE)

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct source *file = new_file(argv[2], "strided", PAGES);
    evict(file, PAGES);
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
    char byte;
    for (size_t i = 0; i < PAGES; i++)
        if (pread(file->fd, &byte, 1, (off_t)(i * PAGE)) != 1) die("pread");
    struct phase phase = {.name = "strided", .exact = !strcmp(argv[1], "exact")};
    map_file(&phase, file, PROT_READ, MAP_SHARED, 0, PAGES);
    phase.resident_before = resident(file, PAGES);
    phase_start(&phase, TOUCHES);
    for (size_t i = 0; i < TOUCHES; i++) touch_load(&phase, i * STRIDE, "file-read");
    phase_end(&phase);
    phase.resident_after = resident(file, PAGES);
    phase_print(&phase);
    unlink(file->path);
    return 0;
}
