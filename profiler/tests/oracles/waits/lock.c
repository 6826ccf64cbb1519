// Two threads pass a mutex back and forth: its owner keeps it until 20 ms after the other thread is
// seen to sleep for it.
//
// lock FOLDER: afterwards, the owner keeps it while it reads a file directly from the disk, several
// times.
#include "wait.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long tids[2];
static unsigned held, done;
static int fd;
static char *buffer;

static void own(unsigned turn, bool read_disk) {
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&held, turn + 1, __ATOMIC_RELEASE);
    while (!sleeps(tids[(turn + 1) % 2])) sched_yield();
    for (int i = 0; read_disk && i < 64; i++)
        if (pread(fd, buffer, 65536, i * 65536) != 65536) die("pread");
    if (!read_disk) sleep_ms(20);
    pthread_mutex_unlock(&mutex);
}

static void want(unsigned turn, bool read_disk) {
    while (__atomic_load_n(&held, __ATOMIC_ACQUIRE) != turn + 1) sched_yield();
    struct episode *episode = begin(read_disk ? "lock behind a read" : "lock");
    pthread_mutex_lock(&mutex);
    end(episode);
    pthread_mutex_unlock(&mutex);
    episode->waker = tids[turn % 2];
    __atomic_store_n(&done, turn + 1, __ATOMIC_RELEASE);
}

static void *play(void *side) {
    unsigned mine = side != 0;
    tids[mine] = gettid();
    while (!__atomic_load_n(&tids[!mine], __ATOMIC_ACQUIRE)) sched_yield();
    for (unsigned turn = 0; turn < 2 * EPISODES; turn++) {
        bool read_disk = turn >= EPISODES;
        while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != turn) sched_yield();
        (turn % 2 == mine ? own : want)(turn, read_disk);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    fd = open_direct(new_file(argv[1], "lock", 64 * 65536));
    buffer = new_buffer(65536);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&threads[i], 0, play, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    print_episodes();
    return 0;
}
