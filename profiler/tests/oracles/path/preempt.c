// A thread works for 40 ms; in between, another one with a real-time priority takes its CPU for
// 60 ms.
#include "path.h"

static uint64_t hog_start, hog_end;
static long hog_tid;

static void *hog(void *unused) {
    hog_tid = gettid();
    sleep_ms(20);
    hog_start = now_ns();
    burn_ms(60);
    hog_end = now_ns();
    return unused;
}

int main(void) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            break;
        }
    if (sched_setaffinity(0, sizeof one, &one)) die("sched_setaffinity");
    pthread_t thread = start_thread("hog", hog);
    struct sched_param first = {.sched_priority = 1};
    if (pthread_setschedparam(thread, SCHED_FIFO, &first)) skip("no real-time priority");
    window_begins();
    burn_ms(40);
    uint64_t end = now_ns();
    printf("{\"window\":%ld,\"start\":%lu,\"end\":%lu}\n", window_tid, window_start, end);
    printf("{\"piece\":\"before\",\"tid\":%ld,\"start\":%lu,\"end\":%lu}\n", window_tid, window_start, hog_start);
    printf("{\"piece\":\"hog\",\"tid\":%ld,\"start\":%lu,\"end\":%lu}\n", hog_tid, hog_start, hog_end);
    printf("{\"piece\":\"after\",\"tid\":%ld,\"start\":%lu,\"end\":%lu}\n", window_tid, hog_end, end);
    fflush(stdout);
    pthread_join(thread, 0);
    return 0;
}
