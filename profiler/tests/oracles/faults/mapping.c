// Eight threads fault while a ninth maps and unmaps.
//
// mapping FOLDER: each of the eight writes 2,000 separate fresh pages. The ninth maps one of two files at a fixed address, from its first or a
// later page, reads one page, and unmaps it. In each of 200 rounds, the same address is a different page of a different file.
#include "fault.h"

#include <pthread.h>

#define THREADS 8
#define PAGES ((size_t)2000)
#define ROUNDS ((size_t)200)
#define FILE_PAGES ((size_t)16)

static struct phase phases[THREADS + 1];
static struct source *files[2];
static pthread_barrier_t begin;

static void *fault(void *arg) {
    struct phase *phase = arg;
    pthread_barrier_wait(&begin);
    phase_start(phase, 0);
    for (size_t i = 0; i < PAGES; i++) oracle_store(phase->base + i * PAGE, 0);
    phase_end(phase);
    return 0;
}

static void *map_and_unmap(void *arg) {
    struct phase *phase = arg;
    pthread_barrier_wait(&begin);
    phase_start(phase, ROUNDS);
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t first = i % 7;
        phase->source = files[i % 2];
        phase->offset = (off_t)(first * PAGE);
        char *at = mmap(phase->base, (FILE_PAGES - first) * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, phase->source->fd, phase->offset);
        if (at != phase->base) die("mmap of the file");
        touch_load(phase, i % 3, "file-read");
        // Reserve the range again: nothing else may be mapped there.
        if (mmap(phase->base, FILE_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) die("mmap of the place");
    }
    phase_end(phase);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    files[0] = new_file(argv[1], "mapping-a", FILE_PAGES);
    files[1] = new_file(argv[1], "mapping-b", FILE_PAGES);
    pthread_barrier_init(&begin, 0, THREADS + 1);
    pthread_t threads[THREADS + 1];
    // Wait as in storm.c: without it, the load delays the recorder, which then learns late about the code on the stacks.
    usleep(200000);
    for (int i = 0; i <= THREADS; i++) {
        struct phase *phase = &phases[i];
        phase->name = i < THREADS ? "fresh pages" : "one place";
        phase->resident_before = phase->resident_after = -1;
        if (i < THREADS) {
            phase->sweep_access = "write";
            phase->sweep_class = "anonymous";
            map_memory(phase, MAP_PRIVATE, PAGES);
        } else {
            phase->exact = true;
            phase->pages = FILE_PAGES;
            phase->base = mmap(fresh_place(FILE_PAGES * PAGE), FILE_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        }
        pthread_create(&threads[i], 0, i < THREADS ? fault : map_and_unmap, phase);
    }
    for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], 0);
    for (int i = 0; i <= THREADS; i++) phase_print(&phases[i]);
    for (int i = 0; i < 2; i++) unlink(files[i]->path);
    return 0;
}
