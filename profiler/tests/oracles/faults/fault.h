// Touches memory one address at a time, and notes what each touch was, according to the kernel.
//
// getrusage(RUSAGE_THREAD) and the clock before and after every touch show which touches faulted, what the kernel counted, whether the
// touch waited, and its maximum duration. All memory that the measurement itself needs is touched in advance.
// A phase is printed as one line of JSON by one write(2). A program that cannot run here prints {"skip":"reason"} and exits with status 4.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#ifndef PAGE
#define PAGE ((size_t)4096)
#endif

// A mapped file, according to fstat.
struct source {
    char path[512];
    int fd;
    dev_t device;
    ino_t inode;
};

struct touch {
    char *at;
    const struct source *source;
    off_t offset;
    const char *access, *class, *failed;
    long minor, major, switches;
    uint64_t start, end;
};

struct phase {
    const char *name;
    char *base;
    size_t pages;
    // The file mapped at `base`; null for memory without a file.
    const struct source *source;
    off_t offset;
    // Each touch is exactly one fault; anything else is an error of the oracle.
    bool exact;
    // The origin of the faults: "user" code (or null), a "copy" in a system call, or "get_user_pages" (no user registers).
    const char *raised;
    // A sweep touches every page once, in ascending order, without a note for each.
    const char *sweep_access, *sweep_class;
    // Pages of the whole file in the page cache before and after; -1 if not determined.
    long resident_before, resident_after;
    long tid, minor, major;
    struct touch *touches;
    size_t count, room;
    // Pages for the notes that the kernel populated: faults without user registers, which it counts and few tiers see.
    size_t populated;
};

static void die(const char *what) {
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

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ---- The touches: a stack has to show the names of these functions.

__attribute__((unused)) NOINLINE static void oracle_load(char *at, void *with) {
    (void)with;
    (void)*(volatile char *)at;
}

__attribute__((unused)) NOINLINE static void oracle_store(char *at, void *with) {
    (void)with;
    *(volatile char *)at = 1;
}

typedef void (*action)(char *at, void *with);

static __thread sigjmp_buf after_signal;
static __thread volatile sig_atomic_t signal_expected;

__attribute__((unused)) static void on_signal(int number) {
    if (!signal_expected) {
        signal(number, SIG_DFL);
        return;
    }
    siglongjmp(after_signal, number);
}

// Returns the signal that the touch raised, or 0.
NOINLINE static int guarded(action act, char *at, void *with, bool may_fail) {
    if (!may_fail) {
        act(at, with);
        return 0;
    }
    signal_expected = 1;
    int number = sigsetjmp(after_signal, 1);
    if (number == 0) act(at, with);
    signal_expected = 0;
    return number;
}

NOINLINE static void measure(struct touch *into, action act, char *at, void *with, bool may_fail) {
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    uint64_t start = now_ns();
    int number = guarded(act, at, with, may_fail);
    uint64_t end = now_ns();
    getrusage(RUSAGE_THREAD, &after);
    into->start = start;
    into->end = end;
    into->minor = after.ru_minflt - before.ru_minflt;
    into->major = after.ru_majflt - before.ru_majflt;
    into->switches = after.ru_nvcsw - before.ru_nvcsw;
    into->failed = number == SIGBUS ? "SIGBUS" : number == SIGSEGV ? "SIGSEGV" : 0;
}

// Touches the code, the clock page, the counters and 64 KiB of stack in this thread and process.
NOINLINE static void warm_up(void) {
    static __thread char warm[64];
    volatile char stack[1 << 16];
    for (size_t i = 0; i < sizeof stack; i += PAGE / 2) stack[i] = 1;
    struct touch unused;
    for (int i = 0; i < 3; i++) {
        measure(&unused, oracle_load, warm, 0, true);
        measure(&unused, oracle_store, warm, 0, false);
    }
}

// ---- Phases.

// Starts a phase with space for `room` notes. Writing them causes no faults, not even in a child: the memory is shared and populated.
__attribute__((unused)) static void phase_start(struct phase *phase, size_t room) {
    phase->tid = syscall(SYS_gettid);
    phase->room = room;
    phase->count = 0;
    if (room) {
        size_t bytes = (room * sizeof *phase->touches + PAGE - 1) & ~(PAGE - 1);
        phase->touches = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (phase->touches == MAP_FAILED) die("mmap of the notes");
        phase->populated = bytes / PAGE;
    }
    warm_up();
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    phase->minor = usage.ru_minflt;
    phase->major = usage.ru_majflt;
}

static void phase_touch(struct phase *phase, char *at, const char *access, const char *class, action act, void *with, bool may_fail) {
    if (phase->count == phase->room) abort();
    struct touch *touch = &phase->touches[phase->count];
    touch->at = at;
    touch->access = access;
    touch->class = class;
    touch->source = phase->source;
    touch->offset = phase->offset + (off_t)((size_t)(at - phase->base) & ~(PAGE - 1));
    measure(touch, act, at, with, may_fail);
    phase->count++;
}

// An address in the page, at an offset that differs by page: this checks addresses to the last bit.
static inline char *in_page(const struct phase *phase, size_t page) { return phase->base + page * PAGE + page * 37 % (PAGE - 8); }

__attribute__((unused)) static void touch_load(struct phase *phase, size_t page, const char *class) {
    phase_touch(phase, in_page(phase, page), "read", class, oracle_load, 0, false);
}

__attribute__((unused)) static void touch_store(struct phase *phase, size_t page, const char *class) {
    phase_touch(phase, in_page(phase, page), "write", class, oracle_store, 0, false);
}

__attribute__((unused)) static void phase_end(struct phase *phase) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    phase->minor = usage.ru_minflt - phase->minor;
    phase->major = usage.ru_majflt - phase->major;
}

static void print_touch(FILE *out, const struct touch *touch) {
    fprintf(out, "{\"address\":%zu,\"access\":\"%s\",\"class\":\"%s\",", (size_t)touch->at, touch->access, touch->class);
    if (touch->source)
        fprintf(out, "\"file\":\"%s\",\"offset\":%ld,\"device\":\"%u:%u\",\"inode\":%lu,", touch->source->path, (long)touch->offset,
                major(touch->source->device), minor(touch->source->device), (unsigned long)touch->source->inode);
    if (touch->failed) fprintf(out, "\"failed\":\"%s\",", touch->failed);
    fprintf(out, "\"minor\":%ld,\"major\":%ld,\"switches\":%ld,\"start\":%lu,\"end\":%lu}", touch->minor, touch->major, touch->switches,
            touch->start, touch->end);
}

__attribute__((unused)) static void phase_print(const struct phase *phase) {
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "{\"phase\":\"%s\",\"pid\":%d,\"tid\":%ld,\"base\":%zu,\"pages\":%zu,", phase->name, getpid(), phase->tid, (size_t)phase->base,
            phase->pages);
    fprintf(out, "\"exact\":%s,\"raised\":\"%s\",", phase->exact ? "true" : "false", phase->raised ? phase->raised : "user");
    if (phase->sweep_access) fprintf(out, "\"sweep\":{\"access\":\"%s\",\"class\":\"%s\"},", phase->sweep_access, phase->sweep_class);
    fprintf(out, "\"populated\":%zu,", phase->populated);
    fprintf(out, "\"resident_before\":%ld,\"resident_after\":%ld,\"minor\":%ld,\"major\":%ld,\"touches\":[", phase->resident_before,
            phase->resident_after, phase->minor, phase->major);
    for (size_t i = 0; i < phase->count; i++) {
        if (i) fputc(',', out);
        print_touch(out, &phase->touches[i]);
    }
    fputs("]}\n", out);
    fclose(out);
    for (size_t done = 0; done < length;) {
        ssize_t some = write(1, text + done, length - done);
        if (some <= 0) die("write");
        done += (size_t)some;
    }
    free(text);
}

// ---- Files and memory.

// The file that is open at `fd` and has this path.
__attribute__((unused)) static struct source *source_of(const char *path, int fd) {
    struct source *source = calloc(1, sizeof *source);
    struct stat about;
    if (fd < 0 || fstat(fd, &about)) die(path);
    snprintf(source->path, sizeof source->path, "%s", path);
    source->fd = fd;
    source->device = about.st_dev;
    source->inode = about.st_ino;
    return source;
}

// Creates a file of `pages` pages in the folder, each filled with its number, on the disk and in the page cache. Not inlined: its buffer of
// a page must not be on the stack between main and the touches, because a short copy of the stack would end there.
__attribute__((unused)) NOINLINE static struct source *new_file(const char *folder, const char *name, size_t pages) {
    char path[512], page[PAGE];
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) die(path);
    for (size_t i = 0; i < pages; i++) {
        memset(page, (int)(i & 0xff), sizeof page);
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page) die("write of the file");
    }
    if (fsync(fd)) die("fsync");
    return source_of(path, fd);
}

// The number of the file's pages in the page cache.
__attribute__((unused)) static long resident(const struct source *source, size_t pages) {
    unsigned char *map = malloc(pages);
    char *whole = mmap(0, pages * PAGE, PROT_READ, MAP_SHARED, source->fd, 0);
    if (whole == MAP_FAILED || mincore(whole, pages * PAGE, map)) die("mincore");
    long count = 0;
    for (size_t i = 0; i < pages; i++) count += map[i] & 1;
    munmap(whole, pages * PAGE);
    free(map);
    return count;
}

// Evicts the file from the page cache; retries because a page may be busy for a moment.
__attribute__((unused)) static void evict(const struct source *source, size_t pages) {
    for (int i = 0; i < 50; i++) {
        posix_fadvise(source->fd, 0, 0, POSIX_FADV_DONTNEED);
        if (resident(source, pages) == 0) return;
        usleep(10000);
        fsync(source->fd);
    }
    skip("%ld pages of %s stay in the page cache", resident(source, pages), source->path);
}

// An unused address range that nothing else will use. Ranges that the loader or malloc mapped and unmapped had other faults.
__attribute__((unused)) static char *fresh_place(size_t bytes) {
    static char *next = (char *)0x100000000000;
    char *place = next;
    next += ((bytes + ((size_t)4 << 20)) & ~(((size_t)2 << 20) - 1));
    return place;
}

// Maps pages of a file for a phase.
__attribute__((unused)) static void map_file(struct phase *phase, const struct source *source, int protection, int flags, size_t first, size_t pages) {
    phase->source = source;
    phase->offset = (off_t)(first * PAGE);
    phase->pages = pages;
    phase->base = mmap(fresh_place(pages * PAGE), pages * PAGE, protection, flags | MAP_FIXED_NOREPLACE, source->fd, phase->offset);
    if (phase->base == MAP_FAILED) die("mmap of the file");
}

// Maps memory without a file, in pages of 4 KiB.
__attribute__((unused)) static void map_memory(struct phase *phase, int flags, size_t pages) {
    phase->pages = pages;
    phase->base = mmap(fresh_place(pages * PAGE), pages * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | flags, -1, 0);
    if (phase->base == MAP_FAILED) die("mmap");
    madvise(phase->base, pages * PAGE, MADV_NOHUGEPAGE);
}
