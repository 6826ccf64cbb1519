// The first thread wants one lock after the other, which "holder" keeps each time until it has done
// something: it computes for 40 ms, sleeps for 30 ms, waits for 25 ms in a page fault, and computes for
// 15 ms while a real-time thread takes its CPU for 50 ms. Each of the four locks has another address, and
// that of the second one is in the heap.
#include "path.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

extern char __executable_start;

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t others[2];
static long wanting;
static int go, held, faults_fd, cpu;
static volatile char *page;
static uint64_t began[4], released[4];

static void on_one_cpu(pthread_t thread) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

// Fills the page 25 ms after it was touched.
static void *filler(void *unused) {
    struct uffd_msg message;
    if (read(faults_fd, &message, sizeof message) != sizeof message) die("read");
    sleep_ms(25);
    struct uffdio_zeropage zero = {.range = {.start = message.arg.pagefault.address & ~4095ul, .len = 4096}};
    if (ioctl(faults_fd, UFFDIO_ZEROPAGE, &zero)) die("UFFDIO_ZEROPAGE");
    return unused;
}

static long hog_tid;

static void *hog(void *unused) {
    hog_tid = gettid();
    burn_ms(50);
    return unused;
}

static void is_preempted(void) {
    pthread_attr_t attributes;
    struct sched_param priority = {.sched_priority = 1};
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &priority);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, hog, 0)) skip("no real-time priority");
    burn_ms(15);
    pthread_detach(thread);
}

static pthread_mutex_t *lock_of(int phase) {
    static pthread_mutex_t *heap;
    if (!heap) {
        heap = malloc(sizeof *heap);
        pthread_mutex_init(heap, 0);
    }
    return phase == 0 ? &first : phase == 1 ? heap : &others[phase - 2];
}

static void *holder(void *unused) {
    for (int phase = 0; phase < 4; phase++) {
        while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) != phase + 1) sleep_ms(1);
        pthread_mutex_lock(lock_of(phase));
        __atomic_store_n(&held, phase + 1, __ATOMIC_RELEASE);
        while (!sleeps(wanting)) sleep_ms(1);
        if (phase == 0) burn_ms(40);
        if (phase == 1) sleep_ms(30);
        if (phase == 2) *page = 1;
        if (phase == 3) is_preempted();
        released[phase] = now_ns();
        piece_ends("holder");
        pthread_mutex_unlock(lock_of(phase));
    }
    return unused;
}

int main(void) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (cpu = CPU_SETSIZE - 1; cpu > 0 && !CPU_ISSET(cpu, &allowed); cpu--) {
    }
    faults_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults_fd < 0 || ioctl(faults_fd, UFFDIO_API, &api)) skip("no userfaultfd");
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register pages = {.range = {.start = (uintptr_t)page, .len = 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (page == MAP_FAILED || ioctl(faults_fd, UFFDIO_REGISTER, &pages)) skip("no userfaultfd for this memory");
    wanting = gettid();
    lock_of(1);
    pthread_t threads[] = {start_thread("holder", holder), start_thread("filler", filler)};
    on_one_cpu(threads[0]);
    window_begins();
    for (int phase = 0; phase < 4; phase++) {
        __atomic_store_n(&go, phase + 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&held, __ATOMIC_ACQUIRE) != phase + 1) {
        }
        piece_ends("first");
        began[phase] = now_ns();
        pthread_mutex_lock(lock_of(phase));
        pthread_mutex_unlock(lock_of(phase));
    }
    window_ends("last");
    static const char *did[] = {"cpu", "other", "fault", "queue"};
    for (int phase = 0; phase < 4; phase++) {
        uintptr_t address = (uintptr_t)lock_of(phase);
        long offset = phase == 1 ? -1 : (long)(address - (uintptr_t)&__executable_start);
        printf("{\"lock\":\"%s\",\"address\":%lu,\"offset\":%ld,\"start\":%lu,\"end\":%lu,\"hog\":%ld}\n", did[phase], address, offset, began[phase], released[phase],
            phase == 3 ? hog_tid : 0);
    }
    fflush(stdout);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
