// Touches files of 8 MiB through mappings, and reports what the kernel mapped of each, by its own pagemap and smaps.
//
// mapped FOLDER KIND:PATTERN... [FOLDER KIND:PATTERN...]...: KIND is how the file is mapped, advised and brought in; PATTERN is all, half,
// sparse (one page in 64), scattered or edges (of mixed folios). Each line of output is about the file FOLDER/mapped-PLACE-KIND-PATTERN-PID,
// where PLACE is the folder's number, from 0.
#include "fault.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGES (((size_t)8 << 20) / PAGE)
// Bytes of a page table, whose entries have 8 bytes.
#define PMD (PAGE / 8 * PAGE)
// Threads or processes at the same time.
#define CROWD 4

static bool is(const char *one, const char *other) { return !strcmp(one, other); }

static const char *kind, *pattern;
static char *map;
// Of the mapping, in bytes.
static size_t length;
// Pages that any process had mapped, at the end or right after a touch: the kernel may take a page back at any time.
static unsigned char *mapped;
static int pagemap;

// An address with enough free space, `after` bytes after a boundary of a page table.
static char *place_for(size_t after) {
    char *place = mmap(0, PAGES * PAGE + 2 * PMD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) die("mmap");
    munmap(place, PAGES * PAGE + 2 * PMD);
    return (char *)(((uintptr_t)place + PMD - 1) & ~(PMD - 1)) + after;
}

// Lets the kernel find free space for a file of huge pages that begins at a boundary of a page table: it looks for one page table more, and
// since 6.7 places the mapping behind the first of them, if it looks from above.
static void prepare_boundary(void) {
    size_t size = PAGES * PAGE + PMD - PAGE;
    char *space = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) die("mmap");
    munmap(space, size);
    size_t over = (uintptr_t)(space + size) % PMD;
    char *filler = space + size - over;
    if (over && mmap(filler, over, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != filler) die("mmap");
}

static int advice(void) {
    return is(kind, "huge") || is(kind, "warmhuge") ? MADV_HUGEPAGE
           : is(kind, "nohuge")     ? MADV_NOHUGEPAGE
           : is(kind, "random")     ? MADV_RANDOM
           : is(kind, "sequential") ? MADV_SEQUENTIAL
           : is(kind, "willneed")   ? MADV_WILLNEED
                                    : MADV_NORMAL;
}

// System calls that map pages after `mmap`. Null, or what the kernel does not allow. The numbers of MADV_POPULATE_READ and
// MADV_POPULATE_WRITE are here because older headers lack them.
static const char *map_ahead(void) {
    if (is(kind, "advised") && madvise(map + 5 * PAGE, PAGES / 4 * PAGE, 22)) return "MADV_POPULATE_READ is not allowed";
    if (is(kind, "advisedwrite") && madvise(map, PAGES / 4 * PAGE, 23)) return "MADV_POPULATE_WRITE is not allowed";
    if (is(kind, "lockedpart")) return mlock(map + PAGES / 4 * PAGE + 100, PAGES / 3 * PAGE) ? "mlock is not allowed" : 0;
    if (is(kind, "locked2")) return syscall(SYS_mlock2, map, PAGES * PAGE, 0) ? "mlock2 is not allowed" : 0;
    return is(kind, "locked") && mlock(map, PAGES * PAGE) ? "mlock is not allowed" : 0;
}

// Maps the file. Null, or what the kernel does not allow.
static const char *map_it(int fd) {
    bool is_copied = is(kind, "copied") || is(kind, "copiedahead");
    bool is_written = is(kind, "written") || is(kind, "advisedwrite");
    bool is_placed = is(kind, "placed") || is(kind, "placedbehind");
    bool is_ahead = is(kind, "populate") || is_placed || is(kind, "beyond") || is(kind, "copiedahead");
    int flags = (is_copied || is(kind, "private") ? MAP_PRIVATE : MAP_SHARED) | (is_ahead ? MAP_POPULATE : 0);
    int protection = PROT_READ | (is(kind, "exec") ? PROT_EXEC : 0) | (is_copied || is_written ? PROT_WRITE : 0);
    char *place = place_for(is(kind, "aligned") || advice() == MADV_HUGEPAGE ? 0 : 3 * PAGE);
    // The kernel chooses the address.
    if (is_placed || is(kind, "future")) place = 0;
    if (is(kind, "placedbehind")) prepare_boundary();
    if (is(kind, "future") && mlockall(MCL_FUTURE)) return "mlockall is not allowed";
    // Pages beyond the end of the file can't be mapped.
    length = (PAGES + (is(kind, "beyond") ? 200 : 0)) * PAGE;
    map = mmap(place, length, protection, flags | (place ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    if (map == MAP_FAILED || (place && map != place)) die("mmap");
    if (madvise(map, PAGES * PAGE, advice()) && advice() != MADV_HUGEPAGE) die("madvise");
    return map_ahead();
}

// Each process has its own.
static void open_pagemap(void) {
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0) die("pagemap");
}

// Marks those of these pages that this process has mapped, and returns how many.
static size_t mark_mapped(size_t first, size_t last) {
    uint64_t entries[PAGES];
    size_t size = (last - first) * sizeof *entries, count = 0;
    off_t at = (off_t)(((uintptr_t)map / PAGE + first) * sizeof *entries);
    if (pread(pagemap, entries, size, at) != (ssize_t)size) die("pagemap");
    for (size_t i = first; i < last; i++) {
        if (!(entries[i - first] >> 63)) continue;
        mapped[i] = 1;
        count++;
    }
    return count;
}

// Pages that smaps counts in the mapping, which a lock of a part splits.
static size_t resident_set(void) {
    char line[1024];
    FILE *smaps = fopen("/proc/self/smaps", "re");
    if (!smaps) die("smaps");
    size_t kilobytes = 0, part;
    bool here = false, found = false;
    while (fgets(line, sizeof line, smaps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) here = start >= (uintptr_t)map && start < (uintptr_t)map + length;
        if (!here || sscanf(line, "Rss: %zu kB", &part) != 1) continue;
        kilobytes += part;
        found = true;
    }
    fclose(smaps);
    if (!found) die("no such mapping");
    return kilobytes * 1024 / PAGE;
}

// Single pages and large folios in turn, where the file system has these: a folio is as large as its write.
#define PIECE (((size_t)512 << 10) / PAGE)
static void write_mixed(int fd) {
    static char pages[PIECE * PAGE];
    for (size_t i = 0; i < PAGES; i += 2 * PIECE) {
        for (size_t j = i; j < i + PIECE; j++)
            if (pwrite(fd, pages, PAGE, (off_t)(j * PAGE)) != (ssize_t)PAGE) die("pwrite");
        if (pwrite(fd, pages, sizeof pages, (off_t)((i + PIECE) * PAGE)) != (ssize_t)sizeof pages) die("pwrite");
    }
}

static void touch(size_t page) {
    volatile char *at = map + page * PAGE;
    if (is(kind, "copied") || is(kind, "written")) *at = 1;
    (void)*at;
    // A fault maps pages of one page table.
    size_t before = (uintptr_t)map % PMD / PAGE, first = (page + before) / (PAGE / 8) * (PAGE / 8), last = first + PAGE / 8 - before;
    mark_mapped(first > before ? first - before : 0, last < PAGES ? last : PAGES);
}

// Touches the share of number `one` of `crowd`: windows of 16 pages in turn, so no window belongs to two.
static void touch_part(size_t one, size_t crowd) {
    size_t step = is(pattern, "sparse") ? 64 : 1, last = is(pattern, "half") ? PAGES / 2 : PAGES;
    if (is(pattern, "scattered")) {
        size_t page = 1;
        for (size_t i = 0; i < 64; i++, page = (page * 1103515245 + 12345) % PAGES)
            if (i % crowd == one) touch(page);
        return;
    }
    // A fault near the end of the single pages: its window begins in them and ends in the large folio.
    for (size_t i = PIECE - 2; is(pattern, "edges") && i < PAGES; i += 2 * PIECE) touch(i);
    for (size_t i = 0; !is(pattern, "edges") && i < last; i += step)
        if (i / 16 % crowd == one) touch(i);
}

static void *in_thread(void *one) {
    touch_part((size_t)(uintptr_t)one, CROWD);
    return 0;
}

static void touch_in_threads(void) {
    pthread_t threads[CROWD];
    for (uintptr_t i = 0; i < CROWD; i++)
        if (pthread_create(&threads[i], 0, in_thread, (void *)i)) die("pthread_create");
    for (size_t i = 0; i < CROWD; i++) pthread_join(threads[i], 0);
}

// One after the other, or all at once.
static void touch_in_processes(bool at_once) {
    for (size_t i = 0; i < CROWD; i++) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child == 0) {
            open_pagemap();
            touch_part(i, CROWD);
            _exit(0);
        }
        if (!at_once && waitpid(child, 0, 0) != child) die("waitpid");
    }
    while (at_once && wait(0) > 0) {
    }
}

static struct source *examine(const char *folder, int place) {
    char name[64];
    snprintf(name, sizeof name, "mapped-%d-%s-%s", place, kind, pattern);
    struct source *file = new_file(folder, name, PAGES);
    memset(mapped, 0, PAGES);
    if (strncmp(kind, "warm", 4) || is(kind, "warmmixed")) evict(file, PAGES);
    if (is(kind, "warmmixed")) write_mixed(file->fd);
    const char *refused = map_it(file->fd);
    if (is(kind, "threads"))
        touch_in_threads();
    else if (is(kind, "processes") || is(kind, "concurrent"))
        touch_in_processes(is(kind, "concurrent"));
    else
        touch_part(0, 1);
    size_t count = mark_mapped(0, PAGES), rss = resident_set();
    if (count != rss) skip("pagemap has %zu pages, smaps %zu", count, rss);
    count = 0;
    for (size_t i = 0; i < PAGES; i++) count += mapped[i];
    dprintf(1, "{\"place\":%d,\"kind\":\"%s\",\"pattern\":\"%s\",\"mapped\":%zu,\"refused\":%s%s%s}\n", place, kind, pattern, count, refused ? "\"" : "", refused ? refused : "null", refused ? "\"" : "");
    munmap(map, length);
    munlockall();
    close(file->fd);
    return file;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct source **files = calloc((size_t)argc, sizeof *files);
    if (!files) die("calloc");
    mapped = mmap(0, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) die("mmap");
    open_pagemap();
    const char *folder = 0;
    int place = -1;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '/') {
            folder = argv[i];
            place++;
            continue;
        }
        char *colon = strchr(argv[i], ':');
        if (!colon || !folder) return 2;
        *colon = 0;
        kind = argv[i];
        pattern = colon + 1;
        files[i] = examine(folder, place);
    }
    // Only now: the next file would get the inode of the last one, which another test is about.
    for (int i = 1; i < argc; i++)
        if (files[i]) unlink(files[i]->path);
    return 0;
}
