// Work with a duration that does not depend on alignment: a chain of multiplications, each waiting
// for the previous one.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t spin_sink;

static inline __attribute__((always_inline)) void spin(uint64_t rounds) {
    uint64_t x = spin_sink | 1;
    for (uint64_t i = 0; i < rounds; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    spin_sink = x;
}

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t thread_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// Burns `ms` of this thread's CPU time: on a busy machine, only the wall time changes.
static inline __attribute__((always_inline)) void spin_cpu_ms(uint64_t ms) {
    uint64_t end = thread_cpu_ns() + ms * 1000000u;
    while (thread_cpu_ns() < end) spin(20000);
}
