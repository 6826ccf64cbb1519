// Touches the data of a library that it opens.
//
// library LIBRARY [unlink]: reads its table at pages that are 32 apart, and writes its data and zeroed data page by page. With `unlink`, the
// library is deleted before the first touch.
#include "fault.h"

#include <dlfcn.h>

static char *find(void *library, const char *name) {
    char *found = dlsym(library, name);
    if (!found) die(dlerror());
    return found;
}

// The file offset that is mapped at `at`, from /proc/self/maps.
static off_t offset_in_file(const char *at) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    while (fgets(line, sizeof line, maps)) {
        size_t start, end;
        unsigned long offset;
        if (sscanf(line, "%zx-%zx %*s %lx", &start, &end, &offset) == 3 && (size_t)at >= start && (size_t)at < end) {
            fclose(maps);
            return (off_t)(offset + ((size_t)at - start));
        }
    }
    abort();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    struct source *file = source_of(argv[1], open(argv[1], O_RDONLY));
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) die(dlerror());
    struct phase table = {.name = "known_table", .base = find(library, "known_table"), .pages = 128, .source = file, .exact = true,
                          .resident_before = -1, .resident_after = -1};
    struct phase data = table, bss = table;
    data.name = "known_data";
    data.base = find(library, "known_data");
    bss.name = "known_bss";
    bss.base = find(library, "known_bss");
    bss.source = 0;
    data.pages = bss.pages = 16;
    table.offset = offset_in_file(table.base);
    data.offset = offset_in_file(data.base);
    if (argc > 2) unlink(argv[1]);
    phase_start(&table, 3);
    for (size_t i = 1; i < 4; i++) touch_load(&table, i * 32, "file-read");
    phase_end(&table);
    phase_print(&table);
    phase_start(&data, 15);
    // The first pages may hold other data, which the loader relocates.
    for (size_t i = 1; i < 16; i++) touch_store(&data, i, "file-cow");
    phase_end(&data);
    phase_print(&data);
    phase_start(&bss, 15);
    for (size_t i = 1; i < 16; i++) touch_store(&bss, i, "anonymous");
    phase_end(&bss);
    phase_print(&bss);
    return 0;
}
