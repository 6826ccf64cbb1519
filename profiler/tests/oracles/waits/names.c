// Waits for locks of files, and reads from files, while their names change: files are removed and
// others created, on some file systems with the inode numbers of the first; files and directories
// are renamed; a file has two names. Each episode has the name at that moment.
#include "wait.h"

#include <semaphore.h>
#include <sys/file.h>

static const char *folder;
static sem_t held;

static char *path_of(const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) abort();
    return path;
}

static void *hold(void *path) {
    int fd = open(path, O_RDWR);
    if (fd < 0 || flock(fd, LOCK_EX)) die(path);
    sem_post(&held);
    sleep_ms(4);
    close(fd);
    return 0;
}

// Waits for the lock of the open file, which is now called `name`.
static void wait_for(const char *what, int fd, const char *name) {
    pthread_t thread;
    char *path = path_of(name);
    pthread_create(&thread, 0, hold, path);
    sem_wait(&held);
    struct episode *episode = begin(what);
    if (flock(fd, LOCK_EX)) die("flock");
    end(episode);
    episode->file = path;
    if (flock(fd, LOCK_UN)) die("flock");
    pthread_join(thread, 0);
}

static int make(const char *name) {
    char *path = path_of(name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) die(path);
    free(path);
    return fd;
}

static void move(const char *from, const char *to) {
    if (rename(path_of(from), path_of(to))) die(from);
}

static void read_at(int fd, off_t offset, const char *name) {
    char page[4096];
    struct episode *episode = begin("read");
    if (pread(fd, page, sizeof page, offset) != sizeof page) die("pread");
    end(episode);
    episode->file = path_of(name);
    episode->offset = (uint64_t)offset;
    episode->bytes = sizeof page;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    sem_init(&held, 0, 0);
    char name[64];
    for (int i = 0; i < 15; i++) {
        snprintf(name, sizeof name, "file-%d", i % 3);
        int fd = make(name);
        wait_for("another file", fd, name);
        close(fd);
        if (unlink(path_of(name))) die("unlink");
    }
    int fd = make("log");
    wait_for("renamed", fd, "log");
    move("log", "log.1");
    wait_for("renamed", fd, "log.1");
    int newer = make("log");
    wait_for("renamed", newer, "log");
    wait_for("renamed", fd, "log.1");
    move("log.1", "log");
    wait_for("renamed", fd, "log");
    if (mkdir(path_of("new"), 0700) || mkdir(path_of("new/deep"), 0700)) die("mkdir");
    fd = make("new/deep/data");
    wait_for("directory renamed", fd, "new/deep/data");
    move("new", "final");
    wait_for("directory renamed", fd, "final/deep/data");
    fd = make("one");
    if (link(path_of("one"), path_of("two"))) die("link");
    int two = open(path_of("two"), O_RDWR);
    for (int i = 0; i < 2; i++) {
        wait_for("two names", fd, "one");
        wait_for("two names", two, "two");
    }
    new_file(folder, "part", 1 << 20);
    fd = open_cold(path_of("part"));
    read_at(fd, 0, "part");
    move("part", "whole");
    read_at(fd, 512 << 10, "whole");
    print_episodes();
    return 0;
}
