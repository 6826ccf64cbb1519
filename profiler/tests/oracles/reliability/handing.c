// Two threads pass a byte back and forth TURNS times, and print how often they switched voluntarily
// according to the kernel.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static int there[2], back[2], turns;

static void *answer(void *unused) {
    char byte;
    for (int turn = 0; turn < turns; turn++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) abort();
    return unused;
}

int main(int argc, char **argv) {
    turns = argc > 1 ? atoi(argv[1]) : 1000;
    if (pipe(there) || pipe(back)) return 1;
    pthread_t other;
    if (pthread_create(&other, NULL, answer, NULL)) return 1;
    char byte = 'x';
    for (int turn = 0; turn < turns; turn++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    pthread_join(other, NULL);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("switches=%ld\n", usage.ru_nvcsw);
    return 0;
}
