// A tiny run-time compiler: jit map|dump|replace|garbage|none DIR [MS]. Announces its code in
// /tmp/perf-PID.map or DIR/jit-PID.dump; "garbage" writes a nonsensical map, and "replace" replaces
// the first code with other code that looks the same.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

// push %rbp; mov %rsp,%rbp; mov %rdi,%rcx; 1: dec %rcx; jnz 1b; pop %rbp; ret
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x5d, 0xc3};

typedef void (*compiled)(uint64_t);

static int announce_map(const void *place) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    if (!map) return 3;
    // A neighbor on each side would reveal a wrong name.
    fprintf(map, "%lx 40 jit_before\n", (uintptr_t)place - 0x40);
    fprintf(map, "%lx %zx jit_hot_loop with spaces\n", (uintptr_t)place, sizeof code);
    fprintf(map, "%lx 40 jit_after\n", (uintptr_t)place + 0x40);
    return fclose(map);
}

static int announce_garbage(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    if (!map) return 3;
    fputs("zz 40 no_number\n-1 -1 negative\nffffffffffffffff ffffffffffffffff overflows\n0 0\n\n\n 1\n", map);
    uint64_t x = 1;
    for (int i = 0; i < 1 << 20; i++) fputc((int)((x = x * 6364136223846793005u + 1) >> 56), map);
    for (int i = 0; i < 1 << 20; i++) fputc('a', map);
    return fclose(map);
}

static int dump_fd;

// The code of a function, from now on.
static int announce_load(const char *name, const void *place, uint64_t index) {
    size_t len = strlen(name) + 1;
    struct {
        uint32_t id, size;
        uint64_t time;
        uint32_t pid, tid;
        uint64_t vma, address, code_size, index;
    } load = {0, (uint32_t)(56 + len + sizeof code), clock_ns(CLOCK_MONOTONIC), (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid),
              (uintptr_t)place, (uintptr_t)place, sizeof code, index};
    return write(dump_fd, &load, 56) != 56 || write(dump_fd, name, len) < 0 || write(dump_fd, code, sizeof code) < 0;
}

static int announce_dump(const char *dir, const void *place) {
    struct {
        uint32_t magic, version, size, machine, pad, pid;
        uint64_t time, flags;
    } head = {0x4A695444, 1, 40, 62, 0, (uint32_t)getpid(), clock_ns(CLOCK_MONOTONIC), 0};
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", dir, getpid());
    dump_fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0644);
    if (dump_fd < 0) return 3;
    if (write(dump_fd, &head, 40) != 40 || announce_load("jit_dumped_loop", place, 1)) return 3;
    // The mapping is how a profiler finds the file.
    return mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump_fd, 0) == MAP_FAILED;
}

static uint64_t milliseconds = 1000;

NOINLINE void calls_compiled(compiled f) {
    uint64_t end = thread_cpu_ns() + milliseconds * 1000000ull;
    while (thread_cpu_ns() < end) f(300000);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (argc > 3) milliseconds = strtoull(argv[3], 0, 10);
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 3;
    char *place = page + 0x100;
    memcpy(place, code, sizeof code);
    int failed = 0;
    if (!strcmp(argv[1], "map")) failed = announce_map(place);
    if (!strcmp(argv[1], "dump") || !strcmp(argv[1], "replace")) failed = announce_dump(argv[2], place);
    if (!strcmp(argv[1], "garbage")) failed = announce_garbage();
    if (failed) return failed;
    calls_compiled((compiled)(uintptr_t)place);
    if (!strcmp(argv[1], "replace")) {
        if (announce_load("jit_replacing_loop", place, 2)) return 3;
        calls_compiled((compiled)(uintptr_t)place);
    }
    printf("pid=%d\n", getpid());
    return 0;
}
