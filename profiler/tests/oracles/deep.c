// Recursion of a known depth: deep DEPTH FRAME_BYTES burns in deep_leaf below DEPTH calls of
// descend.
#include <stdlib.h>

#include "spin.h"

static uint64_t frame_bytes;

NOINLINE void deep_leaf(void) {
    spin_cpu_ms(1500);
    __asm__ volatile("");
}

NOINLINE void descend(uint64_t more) {
    if (more > 1)
        descend(more - 1);
    else
        deep_leaf();
    __asm__ volatile("");
}

NOINLINE void descend_wide(uint64_t more) {
    volatile char room[1024];
    room[0] = (char)more;
    if (more > 1)
        descend_wide(more - 1);
    else
        deep_leaf();
    __asm__ volatile("" : : "r"(room[0]));
}

int main(int argc, char **argv) {
    uint64_t depth = argc > 1 ? strtoull(argv[1], 0, 10) : 1000;
    frame_bytes = argc > 2 ? strtoull(argv[2], 0, 10) : 16;
    if (frame_bytes > 64)
        descend_wide(depth);
    else
        descend(depth);
    return 0;
}
