// Two threads append to one file on ext4, past the page cache: each write has the lock of the inode while it waits
// for the disk, and the other thread waits for the lock.
#include "path.h"
#include <sys/vfs.h>

#define WRITES 40
#define SIZE (64 << 10)

struct writer {
    const char *name;
    long tid;
    int file;
    uint64_t began[WRITES], ended[WRITES];
};

static pthread_barrier_t ready;
static struct writer writers[2] = {{.name = "writer 1"}, {.name = "writer 2"}};

static void *run(void *argument) {
    struct writer *self = argument;
    pthread_setname_np(pthread_self(), self->name);
    self->tid = gettid();
    char *block = aligned_alloc(4096, SIZE);
    memset(block, 'x', SIZE);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < WRITES; i++) {
        self->began[i] = now_ns();
        if (write(self->file, block, SIZE) != SIZE) die("write");
        self->ended[i] = now_ns();
    }
    free(block);
    return 0;
}

int main(void) {
    struct statfs of;
    char path[] = "inodelock.XXXXXX";
    int named = mkstemp(path);
    if (named < 0) die("mkstemp");
    // A file description has a lock of its own.
    for (int i = 0; i < 2; i++) writers[i].file = open(path, O_WRONLY | O_APPEND | O_DIRECT);
    unlink(path);
    if (writers[0].file < 0 || writers[1].file < 0) skip("no O_DIRECT in this folder");
    if (fstatfs(named, &of) || of.f_type != 0xef53) skip("not a folder of ext4");
    pthread_barrier_init(&ready, 0, 2);
    window_begins();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, &writers[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    window_ends("last");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < WRITES; j++)
            printf("{\"call\":%d,\"start\":%lu,\"end\":%lu,\"tid\":%ld,\"holder\":%ld}\n", j, writers[i].began[j], writers[i].ended[j], writers[i].tid, writers[1 - i].tid);
    fflush(stdout);
    return 0;
}
