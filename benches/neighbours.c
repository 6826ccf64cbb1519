// neighbours CPU: does a fixed amount of work for each line of its input, "cpu", "switches", "faults", "births" or "mix", and prints the ns of
// wall time and of CPU time that it took, children included.
//
// On one CPU, in real time, so that other programs do not delay it. "mix" is a tenth of a second, most of it computing: see `mix`.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static int64_t ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static int64_t cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    int64_t us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    return ns(CLOCK_PROCESS_CPUTIME_ID) + us * 1000;
}
static void compute(long rounds) {
    uint64_t x = 1;
    for (long i = 0; i < rounds; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}
static void *answer(void *unused) {
    char byte;
    while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {}
    return unused;
}
// Two switches each.
static void ask(long times) {
    char byte = 1;
    for (long i = 0; i < times; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) exit(3);
}
static void touch(long pages) {
    char *memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++) memory[page * 4096] = 1;
    munmap(memory, pages * 4096);
}
static void bear(long times) {
    for (long i = 0; i < times; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, 0, 0);
    }
}
static void mix(void) {
    for (int i = 0; i < 10; i++) {
        compute(7000000);
        ask(25);
        touch(100);
        bear(1);
    }
}

int main(int count, char **words) {
    if (count != 2) return 2;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(words[1]), &one);
    struct sched_param priority = {20};
    pthread_t thread;
    if (sched_setaffinity(0, sizeof one, &one) || sched_setscheduler(0, SCHED_FIFO, &priority) || pipe(there) || pipe(back) ||
        pthread_create(&thread, 0, answer, 0))
        return 1;
    char line[20];
    while (fgets(line, sizeof line, stdin)) {
        int64_t wall = ns(CLOCK_MONOTONIC), used = cpu();
        if (!strcmp(line, "cpu\n")) compute(30000000);
        if (!strcmp(line, "switches\n")) ask(10000);
        if (!strcmp(line, "faults\n")) touch(40000);
        if (!strcmp(line, "births\n")) bear(300);
        if (!strcmp(line, "mix\n")) mix();
        printf("%ld %ld\n", ns(CLOCK_MONOTONIC) - wall, cpu() - used);
        fflush(stdout);
    }
    return 0;
}
