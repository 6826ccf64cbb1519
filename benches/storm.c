// storm THREADS PAGES: causes page faults only. Touches PAGES new pages in each of THREADS threads, PASSES times, and
// prints the elapsed seconds and the faults counted by the kernel.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static long pages, passes;

static void *storm(void *unused) {
    for (long pass = 0; pass < passes; pass++) {
        char *memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
        for (long page = 0; page < pages; page++) memory[page * 4096] = 1;
        munmap(memory, pages * 4096);
    }
    return unused;
}

int main(int count, char **words) {
    long threads = count > 1 ? atol(words[1]) : 1;
    pages = count > 2 ? atol(words[2]) : 100000;
    passes = count > 3 ? atol(words[3]) : 5;
    pthread_t started[64];
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long i = 0; i < threads && i < 64; i++) pthread_create(&started[i], 0, storm, 0);
    for (long i = 0; i < threads && i < 64; i++) pthread_join(started[i], 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%.6f %ld\n", to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9, usage.ru_minflt + usage.ru_majflt);
    return 0;
}
