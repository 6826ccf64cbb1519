// Memory that is swapped out and in, because its control group has too low a limit; counts the
// bytes in each direction, according to the kernel.
#include "wait.h"
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/swap.h>

#define MEMORY (32ul << 20)
#define ALLOWED "16777216"

static const char *area;
static char group[600], mounted[512];
static void leave(void) {
    char path[700];
    if (area) swapoff(area);
    // The group can be removed after its last process has ended, so a child outside it removes it.
    if (!fork()) {
        snprintf(path, sizeof path, "%s/../cgroup.procs", group);
        int fd = open(path, O_WRONLY);
        if (fd >= 0) dprintf(fd, "%d", getpid());
        while (getppid() != 1 && rmdir(group) && errno == EBUSY) usleep(1000);
        for (int i = 0; i < 1000 && rmdir(group) && errno == EBUSY; i++) usleep(1000);
        if (*mounted) umount2(mounted, MNT_DETACH);
        _exit(0);
    }
}

// What `mkswap` writes (union swap_header of include/linux/swap.h): a version and the last page at
// 1024, the signature at the end of the page.
static void make_area(const char *folder) {
    const char *path = new_file(folder, "swap", 4 * MEMORY);
    char first[PAGE];
    memset(first, 0, sizeof first);
    uint32_t info[2] = {1, 4 * MEMORY / PAGE - 1};
    memcpy(first + 1024, info, sizeof info);
    memcpy(first + PAGE - 10, "SWAPSPACE2", 10);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || pwrite(fd, first, sizeof first, 0) != sizeof first || fsync(fd)) die(path);
    close(fd);
    if (swapon(path, 0)) skip("no swap on a file here: %s", strerror(errno));
    area = path;
}

static bool write_to(const char *name, const char *text) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return written;
}

static bool enter_group(const char *parent, const char *limit) {
    char path[600], pid[20];
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", parent);
    int fd = open(path, O_WRONLY);
    if (fd >= 0) {
        if (write(fd, "+memory", 7) != 7) errno = 0; // it may be enabled already
        close(fd);
    }
    snprintf(group, sizeof group, "%s/ngmi-swap-%d", parent, getpid());
    snprintf(pid, sizeof pid, "%d", getpid());
    if (mkdir(group, 0700)) return false;
    if (write_to(limit, ALLOWED) && write_to("cgroup.procs", pid)) return true;
    rmdir(group);
    return false;
}

static void limit_memory(const char *folder) {
    if (enter_group("/sys/fs/cgroup/memory", "memory.limit_in_bytes") || enter_group("/sys/fs/cgroup", "memory.max")) return;
    snprintf(mounted, sizeof mounted, "%s/cgroup", folder);
    if (mkdir(mounted, 0700) || mount("none", mounted, "cgroup2", 0, 0)) *mounted = 0;
    if (!*mounted || !enter_group(mounted, "memory.max")) skip("no control group with less memory here");
}

static uint64_t counted(const char *name) {
    static char text[16384];
    int fd = open("/proc/vmstat", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (len <= 0) die("/proc/vmstat");
    close(fd);
    text[len] = 0;
    char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), 0, 10) * PAGE : 0;
}

static bool is_compressed(void) {
    char enabled = 'N';
    int fd = open("/sys/module/zswap/parameters/enabled", O_RDONLY);
    if (fd >= 0 && read(fd, &enabled, 1) != 1) die("zswap");
    return enabled == 'Y';
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (is_compressed()) skip("zswap keeps what is swapped in memory");
    make_area(argv[1]);
    atexit(leave);
    limit_memory(argv[1]);
    char *memory = mmap(0, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    madvise(memory, MEMORY, MADV_NOHUGEPAGE);
    uint64_t out = counted("pswpout "), in = counted("pswpin ");
    struct episode *writing = begin("out");
    // The pages all differ and are not all zeros: such pages would only be noted.
    for (uint64_t i = 0; i < MEMORY / sizeof i; i++) ((uint64_t *)memory)[i] = i * 0x9e3779b97f4a7c15u;
    end(writing);
    struct episode *reading = begin("in");
    for (uint64_t i = 0; i < MEMORY; i += PAGE) (void)*(volatile char *)(memory + i);
    end(reading);
    munmap(memory, MEMORY);
    sleep_ms(100); // lets pending writes reach the disk
    writing->bytes = counted("pswpout ") - out;
    reading->bytes = counted("pswpin ") - in;
    if (!writing->bytes || !reading->bytes) skip("nothing went to swap");
    print_episodes();
    return 0;
}
