// Locks in the heap that only stacks distinguish: two mutexes in turn at one address, each with functions of its own,
// and one that a thread locks in three functions. "keeper" has each of them while the other thread waits.
#include "path.h"

static pthread_mutex_t *lock;
static long waiter;
static int images, reports, items;

// Keeps a call before it from being a jump, which would leave no frame.
static void not_a_jump(void) { __asm__ volatile("" ::: "memory"); }

static void keeps(int ms) {
    while (!__atomic_load_n(&waiter, __ATOMIC_ACQUIRE) || !sleeps(waiter)) sleep_ms(1);
    sleep_ms(ms);
}

static void awaits(void) { __atomic_store_n(&waiter, gettid(), __ATOMIC_RELEASE); }

static NOINLINE void read_images(void) {
    pthread_mutex_lock(lock);
    images++;
    pthread_mutex_unlock(lock);
}

static NOINLINE void write_report(void) {
    pthread_mutex_lock(lock);
    reports += 2;
    pthread_mutex_unlock(lock);
}

static void *reader(void *unused) {
    awaits();
    read_images();
    return unused;
}

static void *writer(void *unused) {
    awaits();
    write_report();
    return unused;
}

static NOINLINE void load(void) {
    waiter = 0;
    pthread_mutex_lock(lock);
    pthread_t thread = start_thread("reader", reader);
    keeps(12);
    images++;
    pthread_mutex_unlock(lock);
    pthread_join(thread, 0);
}

static NOINLINE void save(void) {
    waiter = 0;
    pthread_mutex_lock(lock);
    pthread_t thread = start_thread("writer", writer);
    keeps(17);
    reports += 3;
    pthread_mutex_unlock(lock);
    pthread_join(thread, 0);
}

static NOINLINE void push(void) {
    pthread_mutex_lock(lock);
    items++;
    pthread_mutex_unlock(lock);
}

static NOINLINE void pop(void) {
    pthread_mutex_lock(lock);
    items--;
    pthread_mutex_unlock(lock);
}

static NOINLINE void clear(void) {
    pthread_mutex_lock(lock);
    items = 0;
    pthread_mutex_unlock(lock);
}

static int turn, done;

static void *worker(void *unused) {
    void (*uses[])(void) = {push, pop, clear};
    for (int i = 0; i < 3; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != i + 1) sleep_ms(1);
        awaits();
        uses[i]();
        __atomic_store_n(&done, i + 1, __ATOMIC_RELEASE);
    }
    return unused;
}

// Each time in another function, so that no two waits share one.
static NOINLINE void keep_push(void) {
    keeps(10);
    items += 1;
    pthread_mutex_unlock(lock);
    not_a_jump();
}

static NOINLINE void keep_pop(void) {
    keeps(10);
    items += 2;
    pthread_mutex_unlock(lock);
    not_a_jump();
}

static NOINLINE void keep_clear(void) {
    keeps(10);
    items += 3;
    pthread_mutex_unlock(lock);
    not_a_jump();
}

static void use_in_three_functions(void) {
    void (*keeping[])(void) = {keep_push, keep_pop, keep_clear};
    pthread_t thread = start_thread("worker", worker);
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(lock);
        waiter = 0;
        __atomic_store_n(&turn, i + 1, __ATOMIC_RELEASE);
        keeping[i]();
        while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != i + 1) sleep_ms(1);
    }
    pthread_join(thread, 0);
}

static pthread_mutex_t *create(void) {
    pthread_mutex_t *created = malloc(sizeof *created);
    if (!created) die("malloc");
    pthread_mutex_init(created, 0);
    return created;
}

int main(void) {
    pthread_setname_np(pthread_self(), "keeper");
    pthread_mutex_t *shared = create();
    window_begins();
    lock = create();
    uintptr_t first = (uintptr_t)lock;
    load();
    pthread_mutex_destroy(lock);
    free(lock);
    lock = create();
    if ((uintptr_t)lock != first) skip("the heap did not use the address again");
    save();
    lock = shared;
    use_in_three_functions();
    window_ends("keeper");
    printf("{\"in_turn\":%lu,\"shared\":%lu}\n", (unsigned long)first, (unsigned long)(uintptr_t)shared);
    return 0;
}
