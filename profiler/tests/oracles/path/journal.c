// A thread that waits for the journal: on ext4 with data in the journal, an fsync of one byte ends when the journal's thread has written the
// transaction, which holds what "burst" has written as well. In each round "burst" writes without syncing; then the first thread syncs:
// these are the pieces. What comes in between is not measured.
#include "path.h"
#include <semaphore.h>
#include <sys/vfs.h>

#define SYNCS 8
#define BURST 6

static const char *folder;
static sem_t begin_burst, end_burst;

static int create(const char *kind, unsigned number) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s%u", folder, kind, number);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) die(path);
    return fd;
}

static void down(sem_t *semaphore) {
    while (sem_wait(semaphore)) {
    }
}

static void *burst(void *unused) {
    static char block[1 << 20];
    for (unsigned i = 0; i < SYNCS; i++) {
        down(&begin_burst);
        int fd = create("burst", i % 2);
        for (unsigned k = 0; k < BURST; k++)
            if (write(fd, block, sizeof block) != sizeof block) die("write");
        close(fd);
        sem_post(&end_burst);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    folder = argv[1];
    struct statfs kind;
    if (statfs(folder, &kind) || kind.f_type != 0xef53) skip("not ext4");
    sem_init(&begin_burst, 0, 0);
    sem_init(&end_burst, 0, 0);
    pthread_t thread = start_thread("burst", burst);
    struct episode *syncs[SYNCS];
    int fd = create("small", 0);
    window_begins();
    for (unsigned i = 0; i < SYNCS; i++) {
        sem_post(&begin_burst);
        down(&end_burst);
        if (write(fd, "x", 1) != 1) die("write");
        syncs[i] = begin("fsync");
        if (fsync(fd)) die("fsync");
        end(syncs[i]);
    }
    uint64_t end_of_window = now_ns();
    printf("{\"window\":%ld,\"start\":%lu,\"end\":%lu}\n", window_tid, window_start, end_of_window);
    for (unsigned i = 0; i < SYNCS; i++) {
        struct episode *sync = syncs[i];
        printf("{\"piece\":\"fsync\",\"tid\":%ld,\"start\":%lu,\"end\":%lu}\n", sync->tid, sync->start, sync->end);
        printf("{\"fsync\":%ld,\"start\":%lu,\"end\":%lu,\"switches\":%ld}\n", sync->tid, sync->start, sync->end, sync->switches);
    }
    pthread_join(thread, 0);
    return 0;
}
