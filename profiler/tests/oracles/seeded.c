// What a start-up should avoid, on request: a storm of copies after a fork, and reads that are
// mostly wasted.
//
// seeded FILE COPIES TOUCHES: a child writes COPIES pages that it shares with its parent; then
// TOUCHES single pages of FILE are touched, 1 MiB apart. FILE is created first, 16 MiB long, and
// dropped from the page cache.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PAGE
#define PAGE 4096
#endif
#define MIB (1 << 20)
#define FILE_MIB 16

static void die(const char *what) {
    perror(what);
    exit(1);
}

__attribute__((noinline)) void storm_of_copies(volatile char *memory, long pages) {
    for (long i = 0; i < pages; i++) memory[i * PAGE] = 2;
}

__attribute__((noinline)) void touch_far_apart(volatile char *memory, long touches) {
    for (long i = 0; i < touches; i++) (void)memory[i * MIB];
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    long copies = atol(argv[2]), touches = atol(argv[3]);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
    if (fd < 0) die("open");
    char *block = malloc(MIB);
    memset(block, 7, MIB);
    for (int i = 0; i < FILE_MIB; i++)
        if (pwrite(fd, block, MIB, (off_t)i * MIB) != MIB) die("pwrite");
    if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) die("dropping the file");
    char *memory = mmap(NULL, (size_t)(copies + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *file = mmap(NULL, (size_t)FILE_MIB * MIB, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || file == MAP_FAILED) die("mmap");
    madvise(memory, (size_t)(copies + 1) * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, (size_t)copies * PAGE);
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        storm_of_copies(memory, copies);
        _exit(0);
    }
    if (waitpid(child, NULL, 0) != child) die("waitpid");
    touch_far_apart(file, touches < FILE_MIB ? touches : FILE_MIB);
    return 0;
}
