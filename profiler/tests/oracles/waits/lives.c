// Threads that compute, sleep, or do both, and know for how much of their lifetime they ran
// according to the kernel.
#include "wait.h"

static uint64_t stolen(void) {
    uint64_t figures[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file || fscanf(file, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", &figures[0], &figures[1], &figures[2], &figures[3], &figures[4], &figures[5], &figures[6],
                     &figures[7]) != 8)
        skip("no /proc/stat");
    fclose(file);
    return figures[7] * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void *live(void *how) {
    struct episode *episode = begin(how);
    uint64_t before = stolen();
    for (int i = 0; i < 20; i++) {
        if (strcmp(how, "sleeps")) burn_ms(20);
        if (strcmp(how, "computes")) sleep_ms(20);
    }
    // The time that the host took from this machine's CPUs meanwhile.
    episode->bytes = stolen() - before;
    end(episode);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", gettid());
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lu", &episode->offset) != 1) skip("no %s", path);
    return 0;
}

int main(void) {
    static char *how[] = {"computes", "sleeps", "does both", "does both"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, live, how[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    print_episodes();
    return 0;
}
