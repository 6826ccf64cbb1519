// Reads from a pipe into which another thread writes after 20 ms.
#include "wait.h"

static int ends[2];
static long writer_tid;

static void *writer(void *unused) {
    writer_tid = gettid();
    for (int i = 0; i < EPISODES; i++) {
        sleep_ms(20);
        if (write(ends[1], "x", 1) != 1) abort();
    }
    return unused;
}

int main(void) {
    if (pipe(ends)) die("pipe");
    pthread_t thread;
    pthread_create(&thread, 0, writer, 0);
    for (int i = 0; i < EPISODES; i++) {
        struct episode *episode = begin("pipe");
        char byte;
        if (read(ends[0], &byte, 1) != 1) die("read");
        end(episode);
        episode->waker = writer_tid;
    }
    pthread_join(thread, 0);
    print_episodes();
    return 0;
}
