// A parent and its child that share pages until one of them writes.
//
// forked FOLDER: the parent writes 32 pages. Then the child writes the lower half (copies), and reads a file that its parent has mapped (the
// child has separate page tables). When the child has exited, the parent writes all pages (the lower half is no longer shared).
#include "fault.h"

#include <sys/wait.h>

#define PAGES ((size_t)32)

static void child(char *memory, struct phase file) {
    struct phase copies = {.name = "child", .base = memory, .pages = PAGES, .exact = true, .resident_before = -1, .resident_after = -1};
    phase_start(&copies, PAGES);
    for (size_t i = 0; i < PAGES / 2; i++) touch_store(&copies, i, "cow");
    for (size_t i = 0; i < PAGES / 2; i++) touch_store(&copies, i, "cow");
    phase_end(&copies);
    // The second round wrote to pages that were already copied: the notes have touches without a fault.
    copies.exact = false;
    phase_print(&copies);
    file.name = "file of the child";
    phase_start(&file, 1);
    touch_load(&file, 0, "file-read");
    phase_end(&file);
    phase_print(&file);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    struct phase phase = {.name = "parent", .exact = true, .resident_before = -1, .resident_after = -1}, file = phase;
    struct source *source = new_file(argv[1], "forked", 1);
    map_file(&file, source, PROT_READ, MAP_SHARED, 0, 1);
    file.name = "file of the parent";
    phase_start(&file, 1);
    touch_load(&file, 0, "file-read");
    phase_end(&file);
    phase_print(&file);
    map_memory(&phase, MAP_PRIVATE, PAGES);
    phase_start(&phase, 2 * PAGES);
    for (size_t i = 0; i < PAGES; i++) touch_store(&phase, i, "anonymous");
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
        child(phase.base, file);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status) die("the child");
    warm_up();
    for (size_t i = 0; i < PAGES; i++) touch_store(&phase, i, "cow");
    phase_end(&phase);
    phase_print(&phase);
    unlink(source->path);
    return 0;
}
