// Spends all its time in one function, with another inlined into it.
#include <stdio.h>

static inline __attribute__((always_inline)) unsigned inlined(unsigned x) {
    return x * 2654435761u ^ x >> 7; // the inlined line
}

__attribute__((noinline)) unsigned hot_function(unsigned turns) {
    unsigned sum = 0;
    for (unsigned turn = 0; turn < turns; turn++)
        sum += inlined(sum + turn); // the calling line
    return sum;
}

int main(void) {
    static volatile unsigned turns = 20000000; // prevents the compiler from merging rounds
    unsigned sum = 0;
    for (int round = 0; round < 40; round++)
        sum += hot_function(turns);
    printf("%u\n", sum);
}
