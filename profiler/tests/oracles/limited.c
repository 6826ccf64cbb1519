// limited ANONYMOUS FILE PATH: fills a cgroup with a limit. Waits a second, touches ANONYMOUS MiB of memory, writes FILE MiB
// to PATH through the page cache, waits half a second, and prints the bytes that it touched. If both exceed the limit and
// ANONYMOUS does not, the limit is reached and no process is killed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    size_t size = strtoull(argv[1], 0, 10) << 20, blocks = strtoull(argv[2], 0, 10);
    usleep(1000000);
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 3;
    memset(memory, 1, size);
    static char block[1 << 20];
    int file = open(argv[3], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    for (size_t i = 0; i < blocks; i++) {
        if (write(file, block, sizeof block) != sizeof block) return 4;
    }
    // Clean pages can be dropped at once.
    fsync(file);
    usleep(500000);
    printf("touched=%zu\n", size);
    return memory[size - 1] - 1;
}
