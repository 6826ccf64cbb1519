// Threads that map memory, write to it, and unmap it, all the time: mappers THREADS ROUNDS. The lock of the address space is mostly taken.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *map(void *rounds) {
    for (long left = (long)rounds; left; left--) {
        volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) exit(1);
        *page = 1;
        munmap((void *)page, 4096);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[16];
    int count = argc > 2 ? atoi(argv[1]) : 0;
    if (count < 1 || count > 16) return 2;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, map, (void *)atol(argv[2]))) return 1;
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
