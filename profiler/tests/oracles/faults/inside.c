// Faults that the kernel raises in a system call of the program, because it touches memory for it.
//
// inside MODE FOLDER:
//   device, file, pipe   read(2) into fresh memory, one page per call
//   write                write(2) from a mapped file that this process has not touched
//   direct               read(2) with O_DIRECT: get_user_pages, no user registers
//   readv, peek          process_vm_readv and PTRACE_PEEKDATA of pages that a child has mapped and never touched
#include "fault.h"

#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGES ((size_t)16)

static int pipe_ends[2];
// Memory that is present in this process. Each action runs on it first, to touch all code in advance.
static char warm[PAGE] __attribute__((aligned(PAGE))) = {1};

static void read_page(char *at, void *with) {
    if (read(*(int *)with, at, PAGE) != (ssize_t)PAGE) die("read");
}

static void read_through_pipe(char *at, void *with) {
    if (write(pipe_ends[1], with, PAGE) != (ssize_t)PAGE || read(pipe_ends[0], at, PAGE) != (ssize_t)PAGE) die("pipe");
}

static void write_page(char *at, void *with) {
    if (write(*(int *)with, at, PAGE) != (ssize_t)PAGE) die("write");
}

static void read_of_child(char *at, void *with) {
    char byte;
    struct iovec here = {&byte, 1}, there = {at, 1};
    if (process_vm_readv(*(pid_t *)with, &here, 1, &there, 1, 0) != 1) die("process_vm_readv");
}

static void peek(char *at, void *with) {
    if (ptrace(PTRACE_PEEKDATA, *(pid_t *)with, at, 0) == -1) die("PTRACE_PEEKDATA");
}

// System calls that write into fresh memory.
static void into_memory(struct phase *phase, action act, void *with) {
    phase->raised = "copy";
    map_memory(phase, MAP_PRIVATE, PAGES);
    act(warm, with);
    phase_start(phase, PAGES);
    for (size_t i = 0; i < PAGES; i++) phase_touch(phase, phase->base + i * PAGE, "write", "anonymous", act, with, false);
}

static void out_of_a_file(struct phase *phase, struct source *file) {
    static int sink;
    sink = memfd_create("sink", 0);
    phase->raised = "copy";
    // Touches are 32 pages apart to prevent fault-around from mapping the pages that are to fault.
    map_file(phase, file, PROT_READ, MAP_SHARED, 0, PAGES * 32);
    write_page(warm, &sink);
    phase_start(phase, PAGES);
    for (size_t i = 0; i < PAGES; i++) phase_touch(phase, phase->base + i * 32 * PAGE, "read", "file-read", write_page, &sink, false);
}

// Forks a child that has the same mappings as this process and touches none of them.
static pid_t idle_child(bool traced) {
    int gate[2];
    if (pipe(gate)) die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        if (traced) ptrace(PTRACE_TRACEME, 0, 0, 0);
        close(gate[0]);
        if (write(gate[1], "x", 1) != 1) _exit(1);
        if (traced) raise(SIGSTOP);
        else pause();
        _exit(0);
    }
    char byte;
    if (read(gate[0], &byte, 1) != 1) die("the child");
    int status;
    if (traced && waitpid(pid, &status, 0) != pid) die("the traced child");
    return pid;
}

static void of_another(struct phase *phase, struct source *file, bool traced) {
    static pid_t pid;
    phase->raised = "get_user_pages";
    map_file(phase, file, PROT_READ, MAP_SHARED, 0, PAGES * 32);
    pid = idle_child(traced);
    action act = traced ? peek : read_of_child;
    act(warm, &pid);
    phase_start(phase, PAGES);
    for (size_t i = 0; i < PAGES; i++) phase_touch(phase, phase->base + i * 32 * PAGE, "read", "file-read", act, &pid, false);
    kill(pid, SIGKILL);
    waitpid(pid, 0, 0);
}

static void past_the_cache(struct phase *phase, struct source *file) {
    static int direct;
    direct = open(file->path, O_RDONLY | O_DIRECT);
    if (direct < 0) skip("O_DIRECT: %m");
    into_memory(phase, read_page, &direct);
    phase->raised = "get_user_pages";
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *mode = argv[1];
    static char page[PAGE];
    struct source *file = new_file(argv[2], "inside", PAGES * 32);
    struct phase phase = {.name = mode, .exact = true, .resident_before = -1, .resident_after = -1};
    int device = open("/dev/zero", O_RDONLY);
    lseek(file->fd, 0, SEEK_SET);
    if (pipe(pipe_ends)) die("pipe");
    if (!strcmp(mode, "device")) into_memory(&phase, read_page, &device);
    else if (!strcmp(mode, "file")) into_memory(&phase, read_page, &file->fd);
    else if (!strcmp(mode, "pipe")) into_memory(&phase, read_through_pipe, page);
    else if (!strcmp(mode, "write")) out_of_a_file(&phase, file);
    else if (!strcmp(mode, "direct")) past_the_cache(&phase, file);
    else if (!strcmp(mode, "readv")) of_another(&phase, file, false);
    else if (!strcmp(mode, "peek")) of_another(&phase, file, true);
    else return 2;
    phase_end(&phase);
    phase_print(&phase);
    unlink(file->path);
    return 0;
}
