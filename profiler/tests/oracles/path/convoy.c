// A convoy: "starter" has a lock, and three threads and then the first one want it, which each holds
// while it works. The kernel wakes waiters in the order in which they came. "holder 2" holds it
// longest.
#include "path.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const unsigned work[] = {30, 50, 20};
static int next;
static bool is_last_waiting;

static void *starter(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!__atomic_load_n(&is_last_waiting, __ATOMIC_ACQUIRE)) sleep_ms(1);
    sleep_ms(15);
    piece_ends("starter");
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *holder(void *unused) {
    static const char *names[] = {"holder 1", "holder 2", "holder 3"};
    int index = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
    pthread_setname_np(pthread_self(), names[index]);
    pthread_mutex_lock(&mutex);
    burn_ms(work[index]);
    piece_ends(names[index]);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void) {
    pthread_t threads[4];
    threads[3] = start_thread("starter", starter);
    for (int i = 0; i < 3; i++) {
        // They queue in this order.
        sleep_ms(10);
        pthread_create(&threads[i], 0, holder, 0);
    }
    sleep_ms(10);
    window_begins();
    __atomic_store_n(&is_last_waiting, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&mutex);
    burn_ms(5);
    pthread_mutex_unlock(&mutex);
    window_ends("last");
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
