// A file system that stands still: it holds one file, answers while the program in it runs, and never afterwards.
//
// standstill FILE FOLDER NOTE ARGUMENTS...: mounts a file system (FUSE) at FOLDER in a mount namespace of its own, with FILE in it as
// "program", and runs it with ARGUMENTS. Then the file system's process, whose number is in NOTE, does nothing any more.
// With STANDSTILL=open in the environment it never answers who opens the file once it runs, and all else.
// Protocol: include/uapi/linux/fuse.h. Exit status 77: this machine has no FUSE.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int device, source;
static struct stat file;
static volatile sig_atomic_t still;
static int opens, opens_once;

static void stand_still(int signal) {
    (void)signal;
    still = 1;
}

static void reply(unsigned long long unique, int error, const void *body, size_t length) {
    struct fuse_out_header header = {sizeof header + (error ? 0 : length), error, unique};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)body, error ? 0 : length}};
    if (writev(device, parts, 2) < 0 && errno != ENOENT && errno != EINTR)
        exit(1);
}

static struct fuse_attr attributes(unsigned long long node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096};
    attr.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755;
    attr.size = node == FUSE_ROOT_ID ? 0 : file.st_size;
    return attr;
}

static void answer(struct fuse_in_header *in) {
    void *body = in + 1;
    switch (in->opcode) {
    case FUSE_INIT: {
        struct fuse_init_in *init = body;
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = init->max_readahead,
                                    .max_background = 16, .congestion_threshold = 12, .max_write = 65536, .time_gran = 1};
        return reply(in->unique, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = 2, .attr = attributes(2)};
        int found = !strcmp(body, "program");
        return reply(in->unique, found ? 0 : -ENOENT, &out, sizeof out);
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr = attributes(in->nodeid)};
        return reply(in->unique, 0, &out, sizeof out);
    }
    case FUSE_OPEN: {
        if (opens_once && opens++)
            return;
        struct fuse_open_out out = {0};
        return reply(in->unique, 0, &out, sizeof out);
    }
    case FUSE_READ: {
        struct fuse_read_in *read = body;
        static char bytes[1 << 20];
        ssize_t length = pread(source, bytes, read->size < sizeof bytes ? read->size : sizeof bytes, read->offset);
        return reply(in->unique, length < 0 ? -EIO : 0, bytes, length);
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
        return reply(in->unique, 0, &out, sizeof out);
    }
    case FUSE_RELEASE:
    case FUSE_ACCESS:
        return reply(in->unique, 0, NULL, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default: // FUSE_FLUSH among them: closing waits for nothing then
        return reply(in->unique, -ENOSYS, NULL, 0);
    }
}

static void serve(void) {
    static union {
        struct fuse_in_header header;
        char bytes[1 << 20];
    } request;
    struct sigaction action = {.sa_handler = stand_still};
    sigaction(SIGUSR1, &action, NULL);
    alarm(300); // whatever becomes of the test
    while (!still)
        if (read(device, &request, sizeof request) > 0)
            answer(&request.header);
    for (;;)
        if (read(device, &request, sizeof request) < 0 && errno != EINTR)
            pause(); // it takes requests, which can't be given up then
}

int main(int argc, char **argv) {
    char options[128], program[4096];
    if (argc < 4)
        return 2;
    opens_once = getenv("STANDSTILL") != NULL;
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    source = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (device < 0 || source < 0 || fstat(source, &file) || unshare(CLONE_NEWNS) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return 77;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("standstill", argv[2], "fuse", MS_NOSUID | MS_NODEV, options))
        return 77;
    pid_t server = fork();
    if (!server) {
        setsid();
        close(0), close(1), close(2);
        serve();
    }
    FILE *note = fopen(argv[3], "w");
    fprintf(note, "%d", server);
    fclose(note);
    snprintf(program, sizeof program, "%s/program", argv[2]);
    pid_t child = fork();
    if (!child) {
        execv(program, argv + 3);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    kill(server, SIGUSR1);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
