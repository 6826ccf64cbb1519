// A library with one busy function that needs no data, and therefore also runs from a truncated
// file.
#include <stdint.h>

__attribute__((noinline)) uint64_t pure_spin(uint64_t rounds) {
    uint64_t x = 1;
    for (uint64_t i = 0; i < rounds; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}
