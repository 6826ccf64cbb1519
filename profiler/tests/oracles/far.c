// far MS: burns CPU time in functions of a section that the linker puts far from .text; they are
// called from .text and call back.
#include <stdlib.h>

#include "spin.h"

#define FAR __attribute__((section(".text_far"), noinline, noclone))

NOINLINE void near_leaf(uint64_t ms) {
    spin_cpu_ms(ms);
    __asm__ volatile("");
}

FAR void far_inner(uint64_t ms) {
    near_leaf(ms);
    __asm__ volatile("");
}

FAR void far_outer(uint64_t ms) {
    far_inner(ms);
    __asm__ volatile("");
}

FAR void far_leaf(uint64_t ms) {
    spin_cpu_ms(ms);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    uint64_t ms = argc > 1 ? strtoull(argv[1], 0, 10) : 500;
    far_outer(ms / 2);
    far_leaf(ms / 2);
    return 0;
}
