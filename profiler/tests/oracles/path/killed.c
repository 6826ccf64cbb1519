// A process is killed while its thread waits for a lock in the heap, which its first thread keeps.
#include "path.h"
#include <sys/mman.h>
#include <sys/wait.h>

static pthread_mutex_t *lock;
static long *waiter;

static void *victim(void *unused) {
    __atomic_store_n(waiter, gettid(), __ATOMIC_RELEASE);
    pthread_mutex_lock(lock);
    return unused;
}

static void child(void) {
    lock = malloc(sizeof *lock);
    pthread_mutex_init(lock, 0);
    pthread_mutex_lock(lock);
    start_thread("victim", victim);
    for (;;) pause();
}

int main(void) {
    pthread_setname_np(pthread_self(), "killer");
    waiter = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (waiter == MAP_FAILED) die("mmap");
    window_begins();
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (!pid) child();
    while (!__atomic_load_n(waiter, __ATOMIC_ACQUIRE)) sleep_ms(1);
    sleep_ms(20);
    kill(pid, SIGKILL);
    waitpid(pid, 0, 0);
    window_ends("killer");
    return 0;
}
