// seeded FOLDER [removed]: a program with a bottleneck that is known. One thread answers requests, which takes a
// millisecond of CPU time each and a lock. Another one reads a file from the disk while it holds that lock; `removed`
// leaves that read out, and nothing else. The file is FOLDER/cold, of which nothing may be in memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REQUESTS = 40, READS = 60, STRIDE = 1 << 20, BLOCK = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static int file, removed;
static volatile unsigned long sink;

static double cpu_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static __attribute__((noinline)) void answer(void) {
    for (double end = cpu_time() + 0.001; cpu_time() < end;)
        for (int i = 0; i < 1000; i++) sink += i;
}

// One block in each MiB, so that read-ahead does not help. Request `n` reads other blocks than the one before.
static __attribute__((noinline)) void reload(int n) {
    char block[BLOCK];
    for (int i = 0; i < READS; i++)
        if (pread(file, block, sizeof block, (long)i * STRIDE + (long)n * 4 * BLOCK) != sizeof block) {
            perror("pread");
            exit(1);
        }
}

static void *loader(void *unused) {
    for (int n = 0; n < REQUESTS; n++) {
        pthread_mutex_lock(&lock);
        pthread_barrier_wait(&both);
        if (!removed) reload(n);
        pthread_mutex_unlock(&lock);
        pthread_barrier_wait(&both);
    }
    return unused;
}

int main(int count, char **words) {
    char path[4096];
    if (count < 2) return 2;
    removed = count > 2 && !strcmp(words[2], "removed");
    snprintf(path, sizeof path, "%s/cold", words[1]);
    if ((file = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        perror(path);
        return 1;
    }
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&thread, NULL, loader, NULL)) return 1;
    pthread_setname_np(thread, "loader");
    for (int n = 0; n < REQUESTS; n++) {
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&lock);
        answer();
        pthread_mutex_unlock(&lock);
        pthread_barrier_wait(&both);
    }
    pthread_join(thread, NULL);
    return 0;
}
