// Touches a file of 16 MiB that is not in the page cache through a mapping, and reports what the kernel mapped according to pagemap and smaps.
//
// mapped KIND PATTERN FOLDER: KIND is how the file is mapped, advised and populated; PATTERN is all, half or sparse (one page in 64).
#include "fault.h"

#include <sys/wait.h>

#define PAGES ((size_t)4096)
#define PMD ((size_t)2 << 20)

static bool is(const char *one, const char *other) { return !strcmp(one, other); }

// A free address range for the whole file, `after` bytes behind a boundary of 2 MiB.
static char *place_for(size_t after) {
    char *place = mmap(0, PAGES * PAGE + 2 * PMD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) die("mmap");
    munmap(place, PAGES * PAGE + 2 * PMD);
    return (char *)(((uintptr_t)place + PMD - 1) & ~(PMD - 1)) + after;
}

static char *map_it(const char *kind, int fd) {
    int flags = is(kind, "private") ? MAP_PRIVATE : MAP_SHARED;
    if (is(kind, "populate")) flags |= MAP_POPULATE;
    int protection = PROT_READ | (is(kind, "exec") ? PROT_EXEC : 0);
    char *place = place_for(is(kind, "aligned") || is(kind, "huge") ? 0 : 3 * PAGE);
    char *map = mmap(place, PAGES * PAGE, protection, flags | MAP_FIXED_NOREPLACE, fd, 0);
    if (map != place) die("mmap");
    int advice = is(kind, "huge")         ? MADV_HUGEPAGE
                 : is(kind, "nohuge")     ? MADV_NOHUGEPAGE
                 : is(kind, "random")     ? MADV_RANDOM
                 : is(kind, "sequential") ? MADV_SEQUENTIAL
                                          : MADV_NORMAL;
    if (madvise(map, PAGES * PAGE, advice) && advice != MADV_HUGEPAGE) die("madvise");
    if (is(kind, "locked") && mlock(map, PAGES * PAGE)) skip("mlock is not allowed");
    return map;
}

// Marks the pages that this process has mapped.
static size_t mark_mapped(const char *map, unsigned char *mapped) {
    static uint64_t entries[PAGES];
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    off_t at = (off_t)((uintptr_t)map / PAGE * sizeof *entries);
    if (fd < 0 || pread(fd, entries, sizeof entries, at) != sizeof entries) die("pagemap");
    close(fd);
    size_t count = 0;
    for (size_t i = 0; i < PAGES; i++)
        if (entries[i] >> 63) {
            mapped[i] = 1;
            count++;
        }
    return count;
}

// The number of pages that smaps counts in the mapping.
static size_t resident_set(const char *map) {
    char line[1024], start[32];
    snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)map);
    FILE *smaps = fopen("/proc/self/smaps", "re");
    if (!smaps) die("smaps");
    size_t kilobytes = 0;
    bool here = false, found = false;
    while (!found && fgets(line, sizeof line, smaps)) {
        here = here || !strncmp(line, start, strlen(start));
        found = here && sscanf(line, "Rss: %zu kB", &kilobytes) == 1;
    }
    fclose(smaps);
    if (!found) die("no such mapping");
    return kilobytes * 1024 / PAGE;
}

static void touch_from(const char *map, size_t first, size_t last, size_t step) {
    for (size_t i = first; i < last; i += step) (void)*(volatile const char *)(map + i * PAGE);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *kind = argv[1], *pattern = argv[2];
    struct source *file = new_file(argv[3], "mapped", PAGES);
    unsigned char *mapped = mmap(0, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) die("mmap");
    evict(file, PAGES);
    char *map = map_it(kind, file->fd);
    size_t step = is(pattern, "sparse") ? 64 : 1, last = is(pattern, "half") ? PAGES / 2 : PAGES;
    bool shares = is(kind, "processes");
    touch_from(map, 0, shares ? last / 2 : last, step);
    pid_t child = shares ? fork() : 0;
    if (shares && child == 0) {
        touch_from(map, last / 2, last, step);
        mark_mapped(map, mapped);
        _exit(0);
    }
    if (child > 0 && waitpid(child, 0, 0) != child) die("waitpid");
    size_t count = mark_mapped(map, mapped), rss = resident_set(map);
    if (count != rss) skip("pagemap has %zu pages, smaps %zu", count, rss);
    count = 0;
    for (size_t i = 0; i < PAGES; i++) count += mapped[i];
    dprintf(1, "{\"mapped\":%zu}\n", count);
    unlink(file->path);
    return 0;
}
