// A program that waits, and prints when, for how long by the clock, and which thread ended the
// wait.
//
// Every episode is enclosed in readings of the clock, the thread's CPU time and the kernel's count
// of voluntary switches, which show whether it waited at all. Each episode is one line of JSON,
// written at the end. What can't be done here is printed as {"skip":"reason"}, with exit status 4.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
// Episodes of each kind: enough to tolerate those that a busy machine disturbs.
#define EPISODES 9
#define MS 1000000u
#ifndef PAGE
#define PAGE 4096ul
#endif

struct episode {
    const char *name;
    long tid, switches;
    uint64_t start, end, cpu;
    // The thread that ended it, 0 if none. Then the file, the offset and the number of bytes.
    long waker;
    const char *file;
    uint64_t offset, bytes;
};

static struct episode episodes[512];
static unsigned count;

__attribute__((unused)) static void die(const char *what) {
    perror(what);
    exit(1);
}

__attribute__((unused)) static void skip(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    char reason[256];
    vsnprintf(reason, sizeof reason, format, rest);
    va_end(rest);
    dprintf(1, "{\"skip\":\"%s\"}\n", reason);
    exit(4);
}

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((unused)) static inline uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

__attribute__((unused)) static void sleep_ms(unsigned ms) {
    struct timespec time = {0, ms * MS};
    while (nanosleep(&time, &time)) {
    }
}

__attribute__((unused)) static void burn_ms(unsigned ms) {
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * (uint64_t)MS;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

// The state of a thread of this process according to the kernel.
__attribute__((unused)) static bool sleeps(long tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", tid);
    int file = open(path, O_RDONLY);
    ssize_t len = read(file, text, sizeof text - 1);
    close(file);
    if (len <= 0) die("stat");
    text[len] = 0;
    return strrchr(text, ')')[2] == 'S';
}

static long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

// Threads start episodes in parallel.
__attribute__((unused)) static struct episode *begin(const char *name) {
    unsigned at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    if (at >= sizeof episodes / sizeof *episodes) abort();
    struct episode *episode = &episodes[at];
    episode->name = name;
    episode->tid = gettid();
    episode->switches = switches();
    episode->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    episode->start = now_ns();
    return episode;
}

__attribute__((unused)) static void end(struct episode *episode) {
    episode->end = now_ns();
    episode->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - episode->cpu;
    episode->switches = switches() - episode->switches;
}

__attribute__((unused)) static void print_episodes(void) {
    for (unsigned i = 0; i < count; i++) {
        struct episode *episode = &episodes[i];
        printf("{\"episode\":\"%s\",\"pid\":%d,\"tid\":%ld,\"start\":%lu,\"end\":%lu,\"cpu\":%lu,\"switches\":%ld,\"waker\":%ld,\"offset\":%lu,\"bytes\":%lu",
            episode->name, getpid(), episode->tid, episode->start, episode->end, episode->cpu, episode->switches, episode->waker, episode->offset,
            episode->bytes);
        if (episode->file) printf(",\"file\":\"%s\"", episode->file);
        printf("}\n");
    }
    fflush(stdout);
}

// ---- Files on a disk.

__attribute__((unused)) static const char *new_file(const char *folder, const char *name, size_t bytes) {
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) die(path);
    char block[65536];
    for (size_t at = 0; at < bytes; at += sizeof block) {
        memset(block, (int)(at / sizeof block) | 1, sizeof block);
        if (write(fd, block, sizeof block) != sizeof block) die("write");
    }
    if (fsync(fd)) die("fsync");
    close(fd);
    return path;
}

// Afterwards none of its pages are in the page cache, and a read loads only the requested pages.
__attribute__((unused)) static int open_cold(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) die(path);
    if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) || posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)) skip("no advice for this file system's files");
    return fd;
}

__attribute__((unused)) static int open_direct(const char *path) {
    int fd = open(path, O_RDWR | O_DIRECT);
    if (fd < 0) skip("no direct I/O here: %s", strerror(errno));
    return fd;
}

__attribute__((unused)) static char *new_buffer(size_t bytes) {
    void *memory;
    if (posix_memalign(&memory, 4096, bytes)) abort();
    memset(memory, 1, bytes);
    return memory;
}
