// Pages that another thread of the program supplies: each touch sleeps until the handler has slept 20 ms and copied the page.
//
// uffd: prints the minimum time that the handler makes a touch wait, then the phase.
#include "fault.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

#define PAGES ((size_t)4)
#define SLEEP_NS 20000000u

static int handler_fd;

static void *handle(void *unused) {
    (void)unused;
    static char page[PAGE] __attribute__((aligned(PAGE)));
    memset(page, 7, sizeof page);
    for (size_t i = 0; i < PAGES; i++) {
        struct uffd_msg message;
        struct pollfd ready = {.fd = handler_fd, .events = POLLIN};
        poll(&ready, 1, -1);
        if (read(handler_fd, &message, sizeof message) != sizeof message) die("read of a userfault");
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, 0);
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1), .src = (uint64_t)(size_t)page, .len = PAGE};
        if (ioctl(handler_fd, UFFDIO_COPY, &copy)) die("UFFDIO_COPY");
    }
    return 0;
}

int main(void) {
    handler_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (handler_fd < 0) skip("userfaultfd: %m");
    struct uffdio_api api = {.api = UFFD_API};
    if (ioctl(handler_fd, UFFDIO_API, &api)) skip("UFFDIO_API: %m");
    struct phase phase = {.name = "uffd", .exact = true, .resident_before = -1, .resident_after = -1};
    map_memory(&phase, MAP_PRIVATE, PAGES);
    struct uffdio_register area = {.range = {.start = (uint64_t)(size_t)phase.base, .len = PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(handler_fd, UFFDIO_REGISTER, &area)) skip("UFFDIO_REGISTER: %m");
    pthread_t handler;
    pthread_create(&handler, 0, handle, 0);
    phase_start(&phase, PAGES);
    for (size_t i = 0; i < PAGES; i++)
        if (i % 2) touch_load(&phase, i, "userfaultfd");
        else touch_store(&phase, i, "userfaultfd");
    phase_end(&phase);
    pthread_join(handler, 0);
    dprintf(1, "{\"says\":{\"sleep_ns\":%u}}\n", SLEEP_NS);
    phase_print(&phase);
    return 0;
}
