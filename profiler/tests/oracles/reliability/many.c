// many processes N: N children, started in sequence, that exit at once; up to eight at a time are
// not waited for.
// many threads N: N threads that all live at the same time.
// many mappings N FILE: N non-adjacent mappings of FILE's first page as code, then 300 ms of CPU
// time.
// many execs N: executes itself again N times, each time with a little CPU time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../spin.h"

NOINLINE void among_many(uint64_t ms) {
    spin_cpu_ms(ms);
    __asm__ volatile("");
}

static int processes(int count) {
    int born = 0, alive = 0;
    while (born < count) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child < 0) return 1;
        born++;
        if (++alive == 8) {
            wait(NULL);
            alive--;
        }
    }
    while (wait(NULL) > 0) continue;
    printf("born=%d pid=%d\n", born, getpid());
    return 0;
}

static pthread_barrier_t all_live;

static void *live(void *unused) {
    pthread_barrier_wait(&all_live);
    return unused;
}

static int threads(int count) {
    pthread_t *all = calloc((size_t)count, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all_live, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++)
        if (pthread_create(&all[i], &small, live, NULL)) return 77;
    pthread_barrier_wait(&all_live);
    for (int i = 0; i < count; i++) pthread_join(all[i], NULL);
    printf("born=%d pid=%d\n", count, getpid());
    return 0;
}

static int mappings(int count, const char *path) {
    int file = open(path, O_RDONLY);
    size_t page = 4096;
    char *place = mmap(NULL, 2 * page * (size_t)count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || place == MAP_FAILED) return 1;
    int made = 0;
    while (made < count &&
           mmap(place + 2 * page * (size_t)made, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) != MAP_FAILED)
        made++;
    among_many(300);
    printf("made=%d pid=%d\n", made, getpid());
    return 0;
}

static int execs(int left, char **argv) {
    among_many(2);
    if (left == 0) {
        printf("pid=%d\n", getpid());
        return 0;
    }
    char number[16];
    snprintf(number, sizeof number, "%d", left - 1);
    char *again[] = {argv[0], argv[1], number, NULL};
    execv("/proc/self/exe", again);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int count = atoi(argv[2]);
    if (!strcmp(argv[1], "processes")) return processes(count);
    if (!strcmp(argv[1], "threads")) return threads(count);
    if (!strcmp(argv[1], "mappings") && argc > 3) return mappings(count, argv[3]);
    if (!strcmp(argv[1], "execs")) return execs(count, argv);
    return 2;
}
