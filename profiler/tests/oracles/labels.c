// labels MS [clock]: burns CPU time in functions that are labels without a type or a size; or, with
// `clock`, in the vdso.
#include <stdlib.h>

#include "spin.h"

#define LOOP "movl $100000, %ecx\n1: decl %ecx\n"

__asm__(".text\n"
        "label_alone:\n" LOOP " jnz 1b\n ret\n"
        ".globl label_seen\nlabel_seen:\n" LOOP " jnz 1b\n ret\n"
        "label_described:\n .cfi_startproc\n" LOOP "label_inside: jnz 1b\n ret\n .cfi_endproc\n"
        // No symbol, and no unwind information.
        ".L_nameless:\n" LOOP " jnz 1b\n ret\n"
        ".globl run_nameless\n.type run_nameless, @function\nrun_nameless:\n .cfi_startproc\n call .L_nameless\n ret\n"
        " .cfi_endproc\n.size run_nameless, . - run_nameless\n");

void label_alone(void);
void label_seen(void);
void label_described(void);
void run_nameless(void);

NOINLINE void run_clock(uint64_t ms) {
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + ms * 1000000u;
    while (clock_ns(CLOCK_MONOTONIC) < end) {}
}

int main(int argc, char **argv) {
    uint64_t ms = argc > 1 ? strtoull(argv[1], 0, 10) : 500;
    if (argc > 2) {
        run_clock(ms);
        return 0;
    }
    uint64_t end = thread_cpu_ns() + ms * 1000000u;
    while (thread_cpu_ns() < end) {
        label_alone();
        label_seen();
        label_described();
        run_nameless();
    }
    return 0;
}
