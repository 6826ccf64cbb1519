// busy FILE: computes, sleeps, faults, reads FILE from its disk and starts children, all at the
// same time, until it is killed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

static void *compute(void *unused) {
    for (;;) spin(1000000);
    return unused;
}

static void *sleep_often(void *unused) {
    for (;;) usleep(300);
    return unused;
}

static void *have_children(void *unused) {
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            spin_cpu_ms(2);
            _exit(0);
        }
        if (child > 0) waitpid(child, 0, 0);
    }
    return unused;
}

static void *read_file(void *path) {
    char page[4096];
    int fd = open(path, O_RDONLY);
    for (uint64_t i = 0;; i = (i + 1) % 256) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        if (pread(fd, page, sizeof page, (off_t)(i * sizeof page)) != sizeof page) exit(1);
        volatile char *memory = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int at = 0; at < 65536; at += 4096) memory[at] = 1;
        munmap((void *)memory, 65536);
    }
    return path;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    pthread_t thread;
    for (int i = 0; i < 3; i++) pthread_create(&thread, 0, compute, 0);
    pthread_create(&thread, 0, sleep_often, 0);
    pthread_create(&thread, 0, have_children, 0);
    pthread_create(&thread, 0, read_file, argv[1]);
    pause();
    return 0;
}
