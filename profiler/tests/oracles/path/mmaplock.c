// The first thread asks where its memory is (mincore) while "holder" changes the protection of 262,144 pages, for
// which it has the lock of the address space: in each round one call waits until that is over. A reader of this
// lock does not spin.
#include "path.h"
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define SIZE (1ul << 30)
#define ROUNDS 5

static char *memory;
static int go, changed;
static long holder_tid;
static uint64_t began[ROUNDS], ended[ROUNDS];

static void *holder(void *unused) {
    holder_tid = gettid();
    for (int round = 1; round <= ROUNDS; round++) {
        while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) != round) sleep_ms(1);
        if (mprotect(memory, SIZE, round & 1 ? PROT_NONE : PROT_READ)) die("mprotect");
        __atomic_store_n(&changed, round, __ATOMIC_RELEASE);
    }
    return unused;
}

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    memory = mmap(0, SIZE, PROT_READ, flags, -1, 0);
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED || page == MAP_FAILED) skip("no address space");
    madvise(memory, SIZE, MADV_NOHUGEPAGE);
    if (madvise(memory, SIZE, MADV_POPULATE_READ)) skip("no MADV_POPULATE_READ (Linux 5.14)");
    pthread_t thread = start_thread("holder", holder);
    unsigned char resident;
    window_begins();
    for (int round = 1; round <= ROUNDS; round++) {
        uint64_t longest = 0;
        __atomic_store_n(&go, round, __ATOMIC_RELEASE);
        while (__atomic_load_n(&changed, __ATOMIC_ACQUIRE) != round) {
            uint64_t start = now_ns();
            if (mincore(page, 4096, &resident)) die("mincore");
            uint64_t end = now_ns();
            if (end - start > longest) {
                longest = end - start;
                began[round - 1] = start;
                ended[round - 1] = end;
            }
        }
        if (longest < 2000000) skip("protection was changed in less than 2 ms");
    }
    window_ends("last");
    for (int round = 0; round < ROUNDS; round++)
        printf("{\"call\":%d,\"start\":%lu,\"end\":%lu,\"tid\":%ld,\"holder\":%ld}\n", round, began[round], ended[round], (long)gettid(), holder_tid);
    fflush(stdout);
    pthread_join(thread, 0);
    return 0;
}
