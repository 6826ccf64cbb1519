// Burns in a signal handler, 50 calls deep, above the interrupted function.
#define _GNU_SOURCE
#include <signal.h>
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

static void handler(int unused) {
    (void)unused;
    handler_descend(50);
    __asm__ volatile("");
}

NOINLINE void interrupted(void) {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    __asm__ volatile("");
}

int main(void) {
    signal(SIGUSR1, handler);
    interrupted();
    return 0;
}
