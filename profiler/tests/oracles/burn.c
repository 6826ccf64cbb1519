// burn MS [EXIT]: burns CPU time in one named function, then exits with EXIT, dies of signal -EXIT, or, at "unlink",
// deletes its own executable first.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spin.h"

NOINLINE void burn_here(uint64_t ms) {
    spin_cpu_ms(ms);
    __asm__ volatile("");
}

NOINLINE void __with_underscores(uint64_t ms) {
    burn_here(ms);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    uint64_t ms = argc > 1 ? strtoull(argv[1], 0, 10) : 500;
    if (argc > 2 && !strcmp(argv[2], "unlink")) {
        char path[4096] = {0};
        if (readlink("/proc/self/exe", path, sizeof path - 1) < 0 || unlink(path)) return 3;
        argc = 2;
    }
    __with_underscores(ms);
    printf("pid=%d cpu_ns=%lu\n", getpid(), thread_cpu_ns());
    fflush(stdout);
    int status = argc > 2 ? atoi(argv[2]) : 0;
    if (status < 0) raise(-status);
    return status;
}
