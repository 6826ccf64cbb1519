// Two threads compete for the same CPU. The kernel counts how long one was runnable but did not
// run; the CPU time of the other is how long it was in the way.
#include "wait.h"

static pthread_t hogs_thread;
static bool is_over;

static void *hog(void *unused) {
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) burn_ms(1);
    return unused;
}

static void *victim(void *unused) {
    clockid_t of_hog;
    pthread_getcpuclockid(hogs_thread, &of_hog);
    struct episode *life = begin("whole life");
    uint64_t hogged = clock_ns(of_hog);
    for (int i = 0; i < EPISODES; i++) {
        struct episode *episode = begin("hogged");
        burn_ms(60);
        end(episode);
    }
    life->bytes = clock_ns(of_hog) - hogged;
    // No thread is in the way while it reads the kernel's counters: ns on CPUs, ns waiting for one.
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    pthread_join(hogs_thread, 0);
    end(life);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", gettid());
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*u %lu", &life->offset) != 1) skip("no %s", path);
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
    pthread_attr_t pinned;
    pthread_attr_init(&pinned);
    pthread_attr_setaffinity_np(&pinned, sizeof one, &one);
    pthread_t thread;
    pthread_create(&hogs_thread, &pinned, hog, 0);
    pthread_create(&thread, &pinned, victim, 0);
    pthread_join(thread, 0);
    print_episodes();
    return 0;
}
