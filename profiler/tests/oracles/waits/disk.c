// Reads a file directly, then through the page cache while it is not cached, then once it is.
#include "wait.h"

#define DIRECT ((size_t)1 << 20)

static void read_at(const char *name, const char *path, int fd, char *buffer, size_t bytes, off_t offset) {
    struct episode *episode = begin(name);
    if (pread(fd, buffer, bytes, offset) != (ssize_t)bytes) die(name);
    end(episode);
    episode->file = path;
    episode->offset = (uint64_t)offset;
    episode->bytes = bytes;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *direct = new_file(argv[1], "direct", EPISODES * DIRECT), *cached = new_file(argv[1], "cached", 1 << 20);
    char *buffer = new_buffer(DIRECT);
    int fd = open_direct(direct);
    for (int i = 0; i < EPISODES; i++) read_at("direct", direct, fd, buffer, DIRECT, i * (off_t)DIRECT);
    fd = open_cold(cached);
    for (int i = 0; i < EPISODES; i++) read_at("buffered", cached, fd, buffer, PAGE, i * 65536);
    for (int i = 0; i < EPISODES; i++) read_at("hit", cached, fd, buffer, PAGE, i * 65536);
    print_episodes();
    return 0;
}
