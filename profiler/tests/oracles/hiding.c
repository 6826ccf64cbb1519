// hiding MS [hide]: has a word on its stack that does not occur in its file, and burns CPU time
// there; with "hide", other processes of its user can't inspect it.
//
// Prints whether they can: "dumpable=1".
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "spin.h"

NOINLINE void hiding_here(uint64_t ms) {
    static const volatile char scrambled[] = "rvnseghri,no,uid,ru`bj"; // the lowest bit of each character is flipped
    volatile char word[1024];
    for (unsigned i = 0; i < sizeof word; i++) word[i] = (char)(scrambled[i % (sizeof scrambled - 1)] ^ 1);
    spin_cpu_ms(ms);
    __asm__ volatile("" ::"r"(word) : "memory");
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[2], "hide")) prctl(PR_SET_DUMPABLE, 0);
    hiding_here(argc > 1 ? strtoull(argv[1], 0, 10) : 200);
    printf("dumpable=%d\n", prctl(PR_GET_DUMPABLE));
    return 0;
}
