// Memory in which every page is known: footprint FOLDER [fork]
//
//   private.dat  100 pages, mapped private: all read, then 50 written: 50 copies
//   shared.dat   100 pages, mapped shared: all read, then 50 written; forked, the child reads all
//   memfd:known   30 pages, all written; forked, the child reads all
//   .known        64 pages of this program: all read, 10 written
//   two huge pages: 4 MB (with larger pages, more) of anonymous memory, written whole (after the fork, to keep it private)
//
// With `fork`, the child has copies of the page tables of what was copied. Prints the pids, and
// waits to be killed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#ifndef PAGE
#define PAGE 4096
#endif
// Two huge pages.
#define HUGE (2 * (PAGE / 8 * PAGE))

// In a separate section that begins and ends at a page boundary.
__attribute__((section(".known,\"aw\",@progbits#"), aligned(PAGE))) static volatile char known[64 * PAGE] = {1};

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static volatile char *map(int fd, int pages, int flags) {
    volatile char *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    check(memory != MAP_FAILED, "mmap");
    return memory;
}

static volatile char *map_file(const char *folder, const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    check(fd >= 0, path);
    static char page[PAGE] = {7};
    for (int i = 0; i < 100; i++) check(write(fd, page, PAGE) == PAGE, "write");
    fsync(fd);
    return map(fd, 100, flags);
}

static int sum;

static void read_all(volatile char *memory, int pages) {
    for (int i = 0; i < pages; i++) sum += memory[i * PAGE];
}

static void write_some(volatile char *memory, int pages) {
    for (int i = 0; i < pages; i++) memory[i * PAGE] = 3;
}

int main(int argc, char **argv) {
    check(argc > 1, "usage: footprint FOLDER [fork]");
    volatile char *private = map_file(argv[1], "private.dat", MAP_PRIVATE);
    volatile char *shared = map_file(argv[1], "shared.dat", MAP_SHARED);
    int fd = memfd_create("known", 0);
    check(fd >= 0 && ftruncate(fd, 30 * PAGE) == 0, "memfd");
    volatile char *memory = map(fd, 30, MAP_SHARED);
    read_all(private, 100);
    read_all(shared, 100);
    read_all(known, 64);
    write_some(private, 50);
    write_some(shared, 50);
    write_some(memory, 30);
    write_some(known, 10);
    int pipes[2];
    check(pipe(pipes) == 0, "pipe");
    int child = 0;
    if (argc > 2) {
        child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            read_all(private, 100);
            read_all(shared, 100);
            read_all(memory, 30);
            read_all(known, 64);
            check(write(pipes[1], "x", 1) == 1, "write");
            for (;;) pause();
        }
        char byte;
        check(read(pipes[0], &byte, 1) == 1, "read");
    }
    char *huge = mmap(0, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(huge != MAP_FAILED, "mmap");
    madvise(huge, HUGE, MADV_HUGEPAGE);
    memset(huge, 9, HUGE);
    printf("%d %d\n", getpid(), child);
    fflush(stdout);
    for (;;) pause();
}
