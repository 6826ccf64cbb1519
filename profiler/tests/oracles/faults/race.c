// Two threads touch the same cold page at the same moment: one reads it, and the other waits for that read.
//
// race FOLDER: 48 pages in sequence; the notes of both threads show which one was first.
#include "fault.h"

#include <pthread.h>
#include <sched.h>

#define PAGES ((size_t)48)

static struct phase phases[2];
static volatile unsigned arrived;

// Returns in both threads at the same moment.
static void meet(unsigned round) {
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    for (unsigned turns = 0; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 * (round + 1); turns++)
        // On a single CPU, the other thread has to get a turn.
        if (turns % 1024 == 1023) sched_yield();
}

static void *race(void *arg) {
    struct phase *phase = arg;
    phase_start(phase, PAGES);
    for (size_t i = 0; i < PAGES; i++) {
        meet((unsigned)i);
        touch_load(phase, i, "file-read");
    }
    phase_end(phase);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    struct source *file = new_file(argv[1], "race", PAGES);
    evict(file, PAGES);
    map_file(&phases[0], file, PROT_READ, MAP_SHARED, 0, PAGES);
    madvise(phases[0].base, PAGES * PAGE, MADV_RANDOM);
    phases[0].name = "one";
    phases[0].resident_before = phases[0].resident_after = -1;
    phases[1] = phases[0];
    phases[1].name = "other";
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, race, &phases[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 2; i++) phase_print(&phases[i]);
    unlink(file->path);
    return 0;
}
