// births CPU FOLDER: moves to the cgroup and has one child after another, each of which ends at once, until its input ends.
//
// Prints the process's number, the clock at the beginning and at the end, and, for each child, its number and the clock after its end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
enum { MOST = 1 << 20 };
struct birth { int64_t pid, clock; };
static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static void move(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, "0", 1) != 1) _exit(5);
    close(file);
}
int main(int count, char **words) {
    if (count != 3) return 2;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(words[1]), &one);
    sched_setaffinity(0, sizeof one, &one);
    move(words[2]);
    // The children become no zombies.
    signal(SIGCHLD, SIG_IGN);
    struct birth *births = mmap(0, MOST * sizeof *births, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct pollfd input = {0, POLLIN, 0};
    int64_t begin = now();
    int born = 0;
    while (born < MOST && poll(&input, 1, 0) == 0) {
        int child = vfork();
        if (child == 0) _exit(0);
        if (child < 0) return 4;
        births[born++] = (struct birth){child, now()};
    }
    printf("%d %ld %ld\n", getpid(), begin, now());
    for (int i = 0; i < born; i++) printf("%ld %ld\n", births[i].pid, births[i].clock);
    return 0;
}
