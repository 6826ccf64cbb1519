// Faults that fail; a signal handler recovers from each. The kernel does not count them.
//
// failed FOLDER: touches of a mapped file beyond its end (SIGBUS), of memory without access rights, writes to read-only memory, and touches
// of unmapped memory (SIGSEGV); between them, touches that succeed.
#include "fault.h"

#define PAGES ((size_t)8)

static void failing(struct phase *phase, size_t page, bool write, const char *class) {
    phase_touch(phase, in_page(phase, page), write ? "write" : "read", class, write ? oracle_store : oracle_load, 0, true);
}

static struct phase named(const char *name) {
    return (struct phase){.name = name, .exact = true, .resident_before = -1, .resident_after = -1};
}

static void finish(struct phase *phase, const char *expected) {
    phase_end(phase);
    for (size_t i = 0; i < phase->count; i++)
        if (phase->touches[i].failed && strcmp(phase->touches[i].failed, expected)) die("another signal");
    phase_print(phase);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    struct sigaction handler = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &handler, 0);
    sigaction(SIGSEGV, &handler, 0);

    struct phase beyond = named("beyond the end");
    struct source *file = new_file(argv[1], "failed", 1);
    map_file(&beyond, file, PROT_READ | PROT_WRITE, MAP_SHARED, 0, PAGES);
    phase_start(&beyond, PAGES);
    touch_load(&beyond, 0, "file-read");
    for (size_t i = 1; i < PAGES; i++) failing(&beyond, i, i % 2, "error");
    finish(&beyond, "SIGBUS");

    struct phase guard = named("no rights");
    map_memory(&guard, MAP_PRIVATE, PAGES);
    mprotect(guard.base + PAGE, (PAGES - 1) * PAGE, PROT_NONE);
    phase_start(&guard, PAGES);
    touch_store(&guard, 0, "anonymous");
    for (size_t i = 1; i < PAGES; i++) failing(&guard, i, i % 2, "error");
    finish(&guard, "SIGSEGV");

    struct phase constant = named("read-only");
    map_memory(&constant, MAP_PRIVATE, PAGES);
    mprotect(constant.base, PAGES * PAGE, PROT_READ);
    phase_start(&constant, 2 * PAGES);
    for (size_t i = 0; i < PAGES; i++) {
        touch_load(&constant, i, "zero-page");
        failing(&constant, i, true, "error");
    }
    finish(&constant, "SIGSEGV");

    struct phase nothing = named("not mapped");
    map_memory(&nothing, MAP_PRIVATE, PAGES);
    munmap(nothing.base, PAGES * PAGE);
    phase_start(&nothing, PAGES);
    for (size_t i = 0; i < PAGES; i++) failing(&nothing, i, i % 2, "error");
    finish(&nothing, "SIGSEGV");
    unlink(file->path);
    return 0;
}
