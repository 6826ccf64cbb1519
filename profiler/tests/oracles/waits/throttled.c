// A thread in a cgroup whose CPU quota is a fifth of a CPU. The kernel counts for how long the cgroup had to do without:
// the episode's offset.
#include "wait.h"

#define PERIOD_US 100000
#define QUOTA_US 20000

static char folder[256], parent[128];

static bool write_to(const char *directory, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY);
    if (fd < 0) return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

static void leave(void) {
    write_to(parent, "cgroup.procs", "0");
    rmdir(folder);
}

static bool enter(const char *top, bool version_1) {
    snprintf(parent, sizeof parent, "%s", top);
    snprintf(folder, sizeof folder, "%s/ngmi-throttled-%d", top, getpid());
    if (!version_1) write_to(top, "cgroup.subtree_control", "+cpu");
    if (mkdir(folder, 0700)) return false;
    char quota[32], period[32];
    snprintf(period, sizeof period, "%d", PERIOD_US);
    snprintf(quota, sizeof quota, version_1 ? "%d" : "%d 100000", QUOTA_US);
    bool limited = version_1 ? write_to(folder, "cpu.cfs_period_us", period) && write_to(folder, "cpu.cfs_quota_us", quota)
                             : write_to(folder, "cpu.max", quota);
    if (limited && write_to(folder, "cgroup.procs", "0")) return true;
    rmdir(folder);
    return false;
}

static uint64_t throttled_ns(void) {
    char path[512], name[64];
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    FILE *file = fopen(path, "r");
    uint64_t value, found = 0;
    while (file && fscanf(file, "%63s %lu", name, &value) == 2) {
        if (!strcmp(name, "throttled_usec")) found = value * 1000;
        if (!strcmp(name, "throttled_time")) found = value;
    }
    if (file) fclose(file);
    return found;
}

int main(void) {
    if (!enter("/sys/fs/cgroup/cpu", true) && !enter("/sys/fs/cgroup", false)) skip("no cgroup with a CPU quota can be created");
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            break;
        }
    sched_setaffinity(0, sizeof one, &one);
    uint64_t before = throttled_ns();
    struct episode *episode = begin("throttled");
    burn_ms(150);
    end(episode);
    episode->offset = throttled_ns() - before;
    leave();
    print_episodes();
    return 0;
}
