// A pipeline of three stages: the first and the last need 1 ms of each of 12 items, "middle" needs
// 8 ms. The last stage waits for the middle one, which never waits for the first for long.
#include "path.h"

enum { ITEMS = 12 };
static int to_middle[2], to_last[2];

static void *source(void *unused) {
    for (int i = 0; i < ITEMS; i++) {
        burn_ms(1);
        if (write(to_middle[1], "x", 1) != 1) die("write");
    }
    return unused;
}

static void *middle(void *unused) {
    for (int i = 0; i < ITEMS; i++) {
        char byte;
        if (read(to_middle[0], &byte, 1) != 1) die("read");
        burn_ms(8);
        piece_ends("middle");
        if (write(to_last[1], "x", 1) != 1) die("write");
    }
    return unused;
}

int main(void) {
    if (pipe(to_middle) || pipe(to_last)) die("pipe");
    window_begins();
    pthread_t threads[] = {start_thread("middle", middle), start_thread("source", source)};
    for (int i = 0; i < ITEMS; i++) {
        char byte;
        if (read(to_last[0], &byte, 1) != 1) die("read");
        burn_ms(1);
    }
    window_ends("last");
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
