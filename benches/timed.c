// timed FILE COMMAND...: runs a command and writes to FILE when it began and ended, in ns of CLOCK_REALTIME, the CPU time in ns of
// it and of all children that it waited for, and its exit status, which some recorders do not report.
//
// Runs inside the recording, so the time is the workload's own, without the recorder's start and finish.
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ns(struct timeval t) {
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    uint64_t begin = now();
    pid_t child = fork();
    if (!child) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status = 1;
    waitpid(child, &status, 0);
    uint64_t end = now();
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    FILE *file = fopen(argv[1], "w");
    if (!file) return 3;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    fprintf(file, "%lu %lu %lu %d\n", begin, end, ns(usage.ru_utime) + ns(usage.ru_stime), code);
    fclose(file);
    return code;
}
