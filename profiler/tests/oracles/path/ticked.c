// An event loop that is interrupted: it waits for "worker", which burns 80 ms, but "ticker" wakes it every 30 ms, and its own timeout after
// another 20 ms. Then it does nothing but wait again.
#include "path.h"
#include <poll.h>

static int pipe_ends[2];
static volatile int has_ended;

static void tell(char what) {
    if (write(pipe_ends[1], &what, 1) != 1) die("write");
}

static void *ticker(void *unused) {
    struct timespec tick = {.tv_nsec = 30000000};
    while (!has_ended) {
        nanosleep(&tick, 0);
        tell('t');
    }
    return unused;
}

static void *worker(void *unused) {
    burn_ms(80);
    piece_ends("worker");
    tell('w');
    return unused;
}

int main(void) {
    if (pipe(pipe_ends)) die("pipe");
    pthread_t ticks = start_thread("ticker", ticker);
    window_begins();
    pthread_t work = start_thread("worker", worker);
    burn_ms(5);
    piece_ends("first");
    char what = 0;
    struct pollfd end = {.fd = pipe_ends[0], .events = POLLIN};
    while (what != 'w') {
        if (poll(&end, 1, 20) > 0 && read(pipe_ends[0], &what, 1) != 1) die("read");
    }
    burn_ms(5);
    window_ends("last");
    has_ended = 1;
    pthread_join(work, 0);
    pthread_join(ticks, 0);
    return 0;
}
