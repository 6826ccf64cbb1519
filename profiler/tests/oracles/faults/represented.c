// Writes to new anonymous memory from two functions in random order, in two threads, and to a mapped file.
//
// represented FOLDER: prints how many pages each function wrote to, and how many faults the kernel counted.
#include "fault.h"

#include <pthread.h>

#define PAGES ((size_t)60000)
#define FILE_PAGES ((size_t)32)

static unsigned long many, few;

NOINLINE static void write_often(volatile char *page) { *page = 1; }
NOINLINE static void write_seldom(volatile char *page) {
    *page = 2;
    __asm__ volatile("nop");
}

static void *in_thread(void *seed) {
    char *memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
    uint64_t random = (uintptr_t)seed;
    unsigned long often = 0;
    for (size_t i = 0; i < PAGES; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 62) {
            write_often(memory + i * PAGE);
            often++;
        } else
            write_seldom(memory + i * PAGE);
    }
    __atomic_fetch_add(&many, often, __ATOMIC_RELAXED);
    __atomic_fetch_add(&few, PAGES - often, __ATOMIC_RELAXED);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    struct source *file = new_file(argv[1], "represented", FILE_PAGES);
    char *map = mmap(0, FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file->fd, 0);
    if (map == MAP_FAILED) die("mmap");
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], 0, in_thread, (void *)(i + 1))) die("pthread_create");
    for (size_t i = 0; i < FILE_PAGES; i++) *(volatile char *)(map + i * PAGE) = 1;
    for (size_t i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("{\"many\":%lu,\"few\":%lu,\"file\":%zu}\n", many, few, FILE_PAGES);
    unlink(file->path);
    return 0;
}
