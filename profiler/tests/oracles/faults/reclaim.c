// Faults that have to reclaim memory first, in a memory control group with a limit that the page cache has used up.
//
// reclaim FOLDER: in a group of 24 MiB, reads a file of 20 MiB, then writes 16 MiB of fresh memory page by page.
#include "fault.h"

#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define FILE_PAGES (20 * MIB / PAGE)
#define PAGES (16 * MIB / PAGE)

static bool put(const char *folder, const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return done;
}

// Creates a group with this limit, in the version of cgroups that this machine has.
static bool make_group(char *group, size_t room) {
    snprintf(group, room, "/sys/fs/cgroup/memory/ngmi-oracle-%d", getpid());
    if (mkdir(group, 0755) == 0) return put(group, "memory.limit_in_bytes", "24M");
    put("/sys/fs/cgroup", "cgroup.subtree_control", "+memory");
    snprintf(group, room, "/sys/fs/cgroup/ngmi-oracle-%d", getpid());
    if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) || mkdir(group, 0755)) return false;
    return put(group, "memory.max", "24M");
}

static void squeezed(const struct source *file) {
    static char buffer[MIB];
    for (ssize_t some = 1; some > 0;) some = read(file->fd, buffer, sizeof buffer);
    struct phase phase = {.name = "squeezed", .exact = true, .resident_before = -1, .resident_after = -1};
    map_memory(&phase, MAP_PRIVATE, PAGES);
    phase_start(&phase, PAGES);
    phase.resident_before = resident(file, FILE_PAGES);
    for (size_t i = 0; i < PAGES; i++) touch_store(&phase, i, "anonymous");
    phase_end(&phase);
    phase.resident_after = resident(file, FILE_PAGES);
    phase_print(&phase);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char group[256], pid[32];
    if (!make_group(group, sizeof group)) {
        rmdir(group);
        skip("no memory control group can be made here: %m");
    }
    struct source *file = new_file(argv[1], "reclaim", FILE_PAGES);
    evict(file, FILE_PAGES);
    lseek(file->fd, 0, SEEK_SET);
    pid_t child = fork();
    if (child == 0) {
        snprintf(pid, sizeof pid, "%d", getpid());
        if (!put(group, "cgroup.procs", pid)) _exit(4);
        squeezed(file);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    unlink(file->path);
    for (int i = 0; i < 100 && rmdir(group); i++) usleep(10000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 4) skip("the control group takes no process");
    if (status) {
        dprintf(2, "the child ended with %d\n", status);
        return 1;
    }
    return 0;
}
