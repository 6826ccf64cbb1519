#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static uint32_t turn;
static int rounds, out;
static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static void report(const char *name, int64_t waited) {
    char line[100];
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    int len = sprintf(line, "%s %d %ld %lld\n", name, gettid(), usage.ru_nvcsw + usage.ru_nivcsw, (long long)waited);
    if (write(out, line, len) != len) _exit(9);
}
static void *play(void *side) {
    uint32_t mine = side != 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < rounds; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != mine) syscall(SYS_futex, &turn, FUTEX_WAIT, !mine, 0, 0, 0);
        __atomic_store_n(&turn, !mine, __ATOMIC_RELEASE);
        syscall(SYS_futex, &turn, FUTEX_WAKE, 1, 0, 0, 0);
    }
    report(mine ? "pong" : "ping", 0);
    return 0;
}
static void *sleeper(void *unused) {
    struct timespec time = {0, 20000000};
    int64_t begin = now();
    for (int i = 0; i < 5; i++) nanosleep(&time, 0);
    report("sleeper", now() - begin);
    return unused;
}
static void *spinner(void *unused) {
    struct timespec now;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_nsec < 100000000);
    report("spinner", 0);
    return unused;
}
static void until_asleep(int pid) {
    char path[40], line[200];
    sprintf(path, "/proc/%d/stat", pid);
    do {
        usleep(1000);
        int file = open(path, O_RDONLY);
        ssize_t len = read(file, line, sizeof line - 1);
        close(file);
        line[len > 0 ? len : 0] = 0;
    } while (!strstr(line, ") S "));
}
int main(int count, char **words) {
    rounds = atoi(words[1]);
    out = open(words[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    pthread_t threads[4];
    pthread_create(&threads[0], 0, play, 0);
    pthread_create(&threads[1], 0, play, (void *)1);
    pthread_create(&threads[2], 0, sleeper, 0);
    pthread_create(&threads[3], 0, spinner, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    int ends[2];
    if (pipe(ends)) return 8;
    if (fork() == 0) {
        until_asleep(getppid());
        usleep(30000);
        report("child", 0);
        if (write(ends[1], "x", 1) != 1) _exit(7);
        _exit(0);
    }
    char byte;
    int64_t begin = now();
    if (read(ends[0], &byte, 1) != 1) return 6;
    int64_t waited = now() - begin;
    wait(0);
    report("main", waited);
    return 0;
}
