// Two threads read the same cold page at the same moment: one requests it from the disk, both wait.
#include "wait.h"

#define PAGES 48

static const char *path;
static unsigned arrived;
static int fd;

static void *reader(void *name) {
    char page[4096];
    for (unsigned i = 0; i < PAGES; i++) {
        __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
        for (unsigned turns = 0; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 * (i + 1); turns++)
            if (turns % 1024 == 1023) sched_yield();
        struct episode *episode = begin(name);
        if (pread(fd, page, sizeof page, i * 65536) != sizeof page) abort();
        end(episode);
        episode->file = path;
        episode->offset = i * 65536;
        episode->bytes = sizeof page;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    path = new_file(argv[1], "together", PAGES * 65536);
    fd = open_cold(path);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, reader, "one");
    pthread_create(&threads[1], 0, reader, "other");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    print_episodes();
    return 0;
}
