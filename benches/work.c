// The benchmark's fixed work: two threads, twenty calls deep, no frame pointers, the same instructions every time.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

static NOINLINE uint64_t leaf(uint64_t x) {
    for (int i = 0; i < 4000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

static NOINLINE uint64_t descend(uint64_t x, unsigned more) {
    uint64_t y = more ? descend(x, more - 1) : leaf(x);
    __asm__ volatile("" : "+r"(y));
    return y;
}

static uint64_t rounds = 400000;

static void *run(void *arg) {
    uint64_t x = (uintptr_t)arg;
    for (uint64_t i = 0; i < rounds; i++) x = descend(x, 19);
    return (void *)(uintptr_t)x;
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = strtoull(argv[1], 0, 10);
    pthread_t other;
    pthread_create(&other, 0, run, (void *)1);
    run((void *)2);
    pthread_join(other, 0);
    return 0;
}
