// A file system with one file in it, "program": the answers to the kernel's requests. Protocol: include/uapi/linux/fuse.h.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
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

static union {
    struct fuse_in_header header;
    char bytes[1 << 20];
} request;

// Mounts it at `folder`, with the file at `path` in it. 0: it can't be.
static int mount_one(const char *path, const char *folder) {
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    source = open(path, O_RDONLY | O_CLOEXEC);
    if (device < 0 || source < 0 || fstat(source, &file))
        return 0;
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    return !mount("one", folder, "fuse", MS_NOSUID | MS_NODEV, options);
}

// Runs the program in it.
static int run_one(const char *folder, char **arguments) {
    char program[4096];
    snprintf(program, sizeof program, "%s/program", folder);
    pid_t child = fork();
    if (!child) {
        execv(program, arguments);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
