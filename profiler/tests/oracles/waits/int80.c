// Waits in system calls of the i386 table, which 64-bit programs can also make: `int $0x80`. Number
// and arguments are those of that table.
#include "wait.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { I386_READ = 3, I386_NANOSLEEP = 162, I386_POLL = 168 };

static int ends[2];
static long writer_tid;

static long call(long number, long first, long second, long third) {
    long result = -1;
#ifdef __x86_64__
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory", "r8", "r9", "r10", "r11");
#else
    (void)number, (void)first, (void)second, (void)third;
#endif
    return result;
}

static void *writer(void *unused) {
    writer_tid = gettid();
    for (int i = 0; i < EPISODES; i++) {
        sleep_ms(10);
        if (write(ends[1], "x", 1) != 1) abort();
    }
    return unused;
}

#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif

int main(void) {
#ifndef __x86_64__
    skip("it is written for x86-64");
#endif
    // Its pointers have 32 bits.
    char *low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED) die("mmap");
    pid_t child = fork();
    if (child == 0) _exit((int)(call(20, 0, 0, 0) != getpid()));
    int status;
    if (waitpid(child, &status, 0) < 0 || status) skip("this kernel has no calls of 32-bit programs");
    struct {
        int32_t seconds, nanoseconds;
    } *time = (void *)low;
    for (int i = 0; i < EPISODES; i++) {
        *time = (typeof(*time)){0, 10 * MS};
        struct episode *episode = begin("sleep");
        if (call(I386_NANOSLEEP, (long)time, 0, 0)) die("nanosleep");
        end(episode);
        episode = begin("poll");
        if (call(I386_POLL, 0, 0, 10)) die("poll");
        end(episode);
        episode = begin("sleep as ever");
        sleep_ms(10);
        end(episode);
    }
    if (pipe(ends)) die("pipe");
    pthread_t thread;
    pthread_create(&thread, 0, writer, 0);
    for (int i = 0; i < EPISODES; i++) {
        struct episode *episode = begin("read");
        if (call(I386_READ, ends[0], (long)low, 1) != 1) die("read");
        end(episode);
        episode->waker = writer_tid;
    }
    pthread_join(thread, 0);
    print_episodes();
    return 0;
}
