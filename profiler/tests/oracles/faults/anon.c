// Memory that belongs to no file on a disk.
//
// anon MODE: anonymous (writes), zero (each page is read, then written), shared (shared anonymous memory), memfd (one half is written, the
// other read), thp (one huge page: one fault for 512 pages, or 2048 of 16 KiB), hugetlb (reserved huge pages of the machine).
#include "fault.h"

#define PAGES ((size_t)64)
#define HUGE (PAGE / 8 * PAGE)

static void of_a_memfd(struct phase *phase) {
    int fd = memfd_create("oracle", 0);
    if (fd < 0 || ftruncate(fd, (off_t)(PAGES * PAGE))) die("memfd");
    map_file(phase, source_of("/memfd:oracle", fd), PROT_READ | PROT_WRITE, MAP_SHARED, 0, PAGES);
    phase_start(phase, PAGES);
    for (size_t i = 0; i < PAGES; i++)
        if (i < PAGES / 2) touch_store(phase, i, "shmem");
        else touch_load(phase, i, "shmem");
}

static void of_a_huge_page(struct phase *phase) {
    phase->pages = HUGE / PAGE;
    // Fresh addresses are aligned to 2 MiB.
    phase->base = mmap(fresh_place(HUGE), HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (phase->base == MAP_FAILED) die("mmap");
    if (madvise(phase->base, HUGE, MADV_HUGEPAGE)) skip("no transparent huge pages: %m");
    phase_start(phase, phase->pages);
    for (size_t i = 0; i < phase->pages; i++) touch_store(phase, i, "transparent-huge");
    if (phase->touches[1].minor) skip("the kernel had no huge page to give");
}

static void of_the_reserve(struct phase *phase) {
    phase->pages = HUGE / PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_HUGETLB | (21 << 26);
    phase->base = mmap(fresh_place(HUGE), HUGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (phase->base == MAP_FAILED) skip("no huge pages are reserved (vm.nr_hugepages)");
    phase_start(phase, phase->pages);
    for (size_t i = 0; i < phase->pages; i++) touch_store(phase, i, "huge");
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *mode = argv[1];
    struct phase phase = {.name = mode, .resident_before = -1, .resident_after = -1};
    phase.exact = strcmp(mode, "thp") && strcmp(mode, "hugetlb");
    if (!strcmp(mode, "memfd")) of_a_memfd(&phase);
    else if (!strcmp(mode, "thp")) of_a_huge_page(&phase);
    else if (!strcmp(mode, "hugetlb")) of_the_reserve(&phase);
    else {
        bool shared = !strcmp(mode, "shared"), zero = !strcmp(mode, "zero");
        map_memory(&phase, shared ? MAP_SHARED : MAP_PRIVATE, PAGES);
        phase_start(&phase, 2 * PAGES);
        for (size_t i = 0; i < PAGES; i++) {
            if (zero) touch_load(&phase, i, "zero-page");
            touch_store(&phase, i, shared ? "shmem" : zero ? "cow" : "anonymous");
        }
    }
    phase_end(&phase);
    phase_print(&phase);
    return 0;
}
