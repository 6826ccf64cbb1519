// Threads with known names and CPU time: four from the start, one created late, ten short ones; all
// others only wait.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

struct job {
    char name[16];
    uint64_t ms;
    pthread_t thread;
};

NOINLINE void thread_work(uint64_t ms) {
    spin_cpu_ms(ms);
    __asm__ volatile("");
}

static void *run(void *arg) {
    struct job *job = arg;
    pthread_setname_np(pthread_self(), job->name);
    thread_work(job->ms);
    flockfile(stdout);
    printf("name=%s tid=%ld cpu_ns=%lu\n", job->name, syscall(SYS_gettid), thread_cpu_ns());
    funlockfile(stdout);
    return 0;
}

static void start(struct job *job, const char *name, int number, uint64_t ms) {
    snprintf(job->name, sizeof job->name, "%s-%d", name, number);
    job->ms = ms;
    pthread_create(&job->thread, 0, run, job);
}

int main(void) {
    struct job steady[4], late, brief;
    for (int i = 0; i < 4; i++) start(&steady[i], "steady", i, 100 * (uint64_t)(i + 1));
    usleep(300000);
    start(&late, "late", 0, 200);
    for (int i = 0; i < 10; i++) {
        start(&brief, "brief", i, 20);
        pthread_join(brief.thread, 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(steady[i].thread, 0);
    pthread_join(late.thread, 0);
    return 0;
}
