// Spends CPU time 3:1 in two named functions, and prints its own measurements.
#include <stdlib.h>

#include "spin.h"

NOINLINE void takes_three_parts(uint64_t unit) { spin(3 * unit); }
NOINLINE void takes_one_part(uint64_t unit) { spin(unit); }

int main(int argc, char **argv) {
    uint64_t total_ms = argc > 1 ? strtoull(argv[1], 0, 10) : 2000;
    uint64_t unit = 0, three = 0, one = 0, seed = 1;
    uint64_t end = thread_cpu_ns() + total_ms * 1000000u;
    while (thread_cpu_ns() < end) {
        // The period varies, to avoid synchronizing with a sampling clock.
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unit = 160000 + (seed >> 45);
        uint64_t a = thread_cpu_ns();
        takes_three_parts(unit);
        uint64_t b = thread_cpu_ns();
        takes_one_part(unit);
        three += b - a;
        one += thread_cpu_ns() - b;
    }
    printf("three_ns=%lu one_ns=%lu cpu_ns=%lu\n", three, one, thread_cpu_ns());
    return 0;
}
