// Priority inversion: on one CPU, "low" has a lock that "high" wants, and "middle" takes the CPU of "low" for
// 50 ms. Their real-time priorities are as their names say.
#include "path.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long tids[3];
static uint64_t began, ended, taken;
static int cpu;

static pthread_t start(void *(*run)(void *), int priority) {
    pthread_attr_t attributes;
    struct sched_param parameters = {.sched_priority = priority};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameters);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, run, 0);
    if (error == EPERM) skip("no real-time priority");
    if (error) die("pthread_create");
    return thread;
}

static void *high(void *unused) {
    tids[2] = gettid();
    pthread_setname_np(pthread_self(), "high");
    began = now_ns();
    pthread_mutex_lock(&mutex);
    ended = now_ns();
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *middle(void *unused) {
    tids[1] = gettid();
    pthread_setname_np(pthread_self(), "middle");
    uint64_t start = now_ns();
    burn_ms(50);
    taken = now_ns() - start;
    return unused;
}

static void *low(void *unused) {
    tids[0] = gettid();
    pthread_setname_np(pthread_self(), "low");
    pthread_mutex_lock(&mutex);
    pthread_t other = start(high, 30);
    while (!sleeps(tids[2])) sched_yield();
    pthread_t third = start(middle, 20);
    burn_ms(5);
    pthread_mutex_unlock(&mutex);
    pthread_join(other, 0);
    pthread_join(third, 0);
    return unused;
}

int main(void) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (cpu = CPU_SETSIZE - 1; cpu > 0 && !CPU_ISSET(cpu, &allowed); cpu--) {
    }
    window_begins();
    pthread_join(start(low, 10), 0);
    window_ends("last");
    printf("{\"low\":%ld,\"middle\":%ld,\"high\":%ld,\"start\":%lu,\"end\":%lu,\"taken\":%lu}\n", tids[0], tids[1], tids[2], began, ended, taken);
    fflush(stdout);
    return 0;
}
