// pingpong ROUNDS DEPTH: two threads on one CPU wake each other in turn, ROUNDS times each, DEPTH calls deep.
//
// Nothing but switches: two per round. Prints the wall time in ns.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t turn;
static long rounds;

static void play(uint32_t mine) {
    for (long i = 0; i < rounds; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != mine)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !mine, NULL, NULL, 0);
        __atomic_store_n(&turn, !mine, __ATOMIC_RELEASE);
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

__attribute__((noinline)) static long deeper(int depth, uint32_t mine) {
    volatile char room[64];
    room[0] = (char)depth;
    if (depth == 0) {
        play(mine);
        return room[0];
    }
    return deeper(depth - 1, mine) + room[0];
}

static int depth;

static void *other(void *unused) {
    (void)unused;
    return (void *)deeper(depth, 1);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 200000;
    depth = argc > 2 ? atoi(argv[2]) : 10;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one)) return 1;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, NULL)) return 1;
    deeper(depth, 0);
    pthread_join(thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%lld\n", (long long)(end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
    return 0;
}
