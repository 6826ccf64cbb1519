// A fork and join: four branches, of which "slow" burns 240 ms. The others only sleep, and have ended
// when the first thread joins them. The first thread works alongside for 10 ms.
#include "path.h"

static void *slow(void *unused) {
    burn_ms(240);
    piece_ends("slow");
    return unused;
}

static void *quick(void *unused) {
    sleep_ms(15);
    return unused;
}

int main(void) {
    window_begins();
    pthread_t threads[] = {
        start_thread("quick 1", quick), start_thread("slow", slow), start_thread("quick 2", quick), start_thread("quick 3", quick),
    };
    burn_ms(10);
    piece_ends("first");
    // Nothing but the slow branch takes longer than this.
    pthread_join(threads[1], 0);
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++)
        if (i != 1) pthread_join(threads[i], 0);
    burn_ms(5);
    window_ends("joined");
    return 0;
}
