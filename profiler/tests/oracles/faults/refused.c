// The kernel refuses to touch memory for a system call (EFAULT), which nobody tells the end of; the next calls read files.
//
// refused FOLDER: reads PAGES pages of the file `other` by the call after a refused write(2), and of `same` by read(2) after a refused one.
#include "fault.h"

#define PAGES ((size_t)64)

static char buffer[PAGES * PAGE] __attribute__((aligned(4096)));

// Mapped, so that its name is known, and touched only when all is over.
static struct source *named(const char *folder, const char *name, char **place) {
    struct source *file = new_file(folder, name, PAGES);
    *place = mmap(0, PAGES * PAGE, PROT_READ, MAP_SHARED, file->fd, 0);
    if (*place == MAP_FAILED) die("mmap");
    evict(file, PAGES);
    return file;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char *places[2], *nowhere = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct source *other = named(argv[1], "other", &places[0]), *same = named(argv[1], "same", &places[1]);
    int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY), sink = memfd_create("sink", 0);
    memset(buffer, 1, sizeof buffer);
    // All code and data once, so that nothing of it is touched for the first time later.
    if (write(null, buffer, 1) != 1 || pread(zero, buffer, PAGE, 0) != (ssize_t)PAGE || read(zero, buffer, PAGE) != (ssize_t)PAGE) die("warm");
    if (lseek(same->fd, 0, SEEK_SET)) die("lseek");

    if (write(sink, nowhere, 1) != -1) die("a write that is not refused");
    if (pread(other->fd, buffer, PAGES * PAGE, 0) != (ssize_t)(PAGES * PAGE)) die("pread");
    if (read(zero, nowhere, 1) != -1) die("a read that is not refused");
    if (read(same->fd, buffer, PAGES * PAGE) != (ssize_t)(PAGES * PAGE)) die("read");

    for (int i = 0; i < 2; i++) (void)*(volatile char *)places[i];
    unlink(other->path);
    unlink(same->path);
    return 0;
}
