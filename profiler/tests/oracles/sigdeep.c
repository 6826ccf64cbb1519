// Burns in a signal handler, 50 calls deep, above the interrupted function.
//
// sigdeep [OUTER [INNER]]: the interrupted function below OUTER calls of outer_descend; INNER calls deep in the handler.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

NOINLINE void handler_leaf(void) {
    spin_cpu_ms(1000);
    __asm__ volatile("");
}

NOINLINE void handler_descend(int more) {
    if (more > 1)
        handler_descend(more - 1);
    else
        handler_leaf();
    __asm__ volatile("");
}

static int inner = 50;

static void handler(int unused) {
    (void)unused;
    handler_descend(inner);
    __asm__ volatile("");
}

NOINLINE void interrupted(void) {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    __asm__ volatile("");
}

NOINLINE void outer_descend(int more) {
    if (more > 1)
        outer_descend(more - 1);
    else
        interrupted();
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    int outer = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 2) inner = atoi(argv[2]);
    signal(SIGUSR1, handler);
    if (outer > 0)
        outer_descend(outer);
    else
        interrupted();
    return 0;
}
