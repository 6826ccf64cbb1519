// rawcode FILE OFFSET: maps a file as executable without the loader, and runs the function at that
// file offset.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spin.h"

typedef uint64_t (*spinner)(uint64_t);

NOINLINE void runs_raw_code(spinner f) {
    uint64_t end = thread_cpu_ns() + 700 * 1000000ull;
    while (thread_cpu_ns() < end) f(100000);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) return 3;
    char *base = mmap(0, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) return 3;
    runs_raw_code((spinner)(uintptr_t)(base + strtoull(argv[2], 0, 0)));
    return 0;
}
