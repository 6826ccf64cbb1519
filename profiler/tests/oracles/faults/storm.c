// Causes page faults as fast as possible.
//
// storm THREADS PAGES: each thread writes PAGES fresh pages in sequence. It starts with a delay: in a process's first milliseconds, its code is
// still unknown to the recorder, and a storm leaves no capacity for copies of the stacks.
#include "fault.h"

#include <pthread.h>

static pthread_barrier_t begin;

static void *fault(void *arg) {
    struct phase *phase = arg;
    pthread_barrier_wait(&begin);
    phase_start(phase, 0);
    for (size_t i = 0; i < phase->pages; i++) oracle_store(phase->base + i * PAGE, 0);
    phase_end(phase);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t count = strtoul(argv[1], 0, 10), pages = strtoul(argv[2], 0, 10);
    struct phase *phases = calloc(count, sizeof *phases);
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_barrier_init(&begin, 0, (unsigned)count);
    usleep(200000);
    uint64_t start = now_ns();
    for (size_t i = 0; i < count; i++) {
        phases[i] = (struct phase){.name = "storm", .sweep_access = "write", .sweep_class = "anonymous", .resident_before = -1, .resident_after = -1};
        map_memory(&phases[i], MAP_PRIVATE, pages);
        pthread_create(&threads[i], 0, fault, &phases[i]);
    }
    for (size_t i = 0; i < count; i++) pthread_join(threads[i], 0);
    dprintf(1, "{\"says\":{\"wall_ns\":%lu}}\n", now_ns() - start);
    for (size_t i = 0; i < count; i++) phase_print(&phases[i]);
    return 0;
}
