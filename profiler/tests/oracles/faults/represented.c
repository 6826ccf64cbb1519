// Writes to new anonymous memory from two functions in random order, in two threads; to memory that a fork shares, in a
// child; and to a mapped file.
//
// represented FOLDER: prints how many pages each function wrote to, and copied.
#include "fault.h"

#include <pthread.h>
#include <sys/wait.h>

#define PAGES ((size_t)60000)
#define COPIES ((size_t)20000)
#define FILE_PAGES ((size_t)32)

static unsigned long many, few;
struct copied {
    unsigned long many, few;
};

NOINLINE static void write_often(volatile char *page) { *page = 1; }
NOINLINE static void write_seldom(volatile char *page) {
    *page = 2;
    __asm__ volatile("nop");
}

static char *anonymous(size_t pages, int flags) {
    char *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    return memory;
}

// The number of pages that were written to in `write_often`.
static unsigned long write_each(char *memory, size_t pages, uint64_t random) {
    unsigned long often = 0;
    for (size_t i = 0; i < pages; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 62) {
            write_often(memory + i * PAGE);
            often++;
        } else
            write_seldom(memory + i * PAGE);
    }
    return often;
}

static void *in_thread(void *seed) {
    char *memory = anonymous(PAGES, MAP_PRIVATE);
    unsigned long often = write_each(memory, PAGES, (uintptr_t)seed);
    munmap(memory, PAGES * PAGE);
    __atomic_fetch_add(&many, often, __ATOMIC_RELAXED);
    __atomic_fetch_add(&few, PAGES - often, __ATOMIC_RELAXED);
    return 0;
}

static void in_child(struct copied *copied) {
    char *memory = anonymous(COPIES, MAP_PRIVATE);
    // Without faults.
    if (madvise(memory, COPIES * PAGE, MADV_POPULATE_WRITE)) die("madvise");
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        copied->many = write_each(memory, COPIES, 3);
        copied->few = COPIES - copied->many;
        _exit(0);
    }
    if (waitpid(child, 0, 0) != child) die("waitpid");
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
    struct copied *copied = (void *)anonymous(1, MAP_SHARED);
    in_child(copied);
    printf("{\"many\":%lu,\"few\":%lu,\"copied_many\":%lu,\"copied_few\":%lu,\"file\":%zu}\n", many, few, copied->many,
           copied->few, FILE_PAGES);
    unlink(file->path);
    return 0;
}
