// Writes markers as Firefox does to DIR/marker-PID.txt, which it maps to let a profiler find it.
// Lines are "start end name".
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spin.h"

int main(void) {
    const char *use = getenv("MOZ_USE_PERFORMANCE_MARKER_FILE"), *dir = getenv("MOZ_PERFORMANCE_MARKER_DIR");
    printf("use=%s dir=%s\n", use ? use : "(unset)", dir ? dir : "(unset)");
    if (!use || !dir) return 0;
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s/marker-%d.txt", dir, getpid());
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0644);
    if (fd < 0 || mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED) return 3;
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    spin_cpu_ms(200);
    uint64_t end = clock_ns(CLOCK_MONOTONIC);
    int n = snprintf(line, sizeof line, "%lu %lu the long phase\n%lu %lu an instant\n", start, end, end, end);
    if (write(fd, line, (size_t)n) != n) return 3;
    // Garbage after the good lines must not make them unreadable.
    static const char garbage[] = "x y z\n\xff\xfe\n99999999999999999999999 1 overflow\n5 3 backwards\n\n";
    if (write(fd, garbage, sizeof garbage - 1) < 0) return 3;
    spin_cpu_ms(200);
    printf("phase_ns=%lu\n", end - start);
    return 0;
}
