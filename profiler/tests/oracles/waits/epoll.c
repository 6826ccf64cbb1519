// Waits for one of three descriptors; another thread writes to one after 20 ms.
#include "wait.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int bells[3];
static long ringer_tid;

static void *ringer(void *unused) {
    ringer_tid = gettid();
    for (int i = 0; i < EPISODES; i++) {
        sleep_ms(20);
        if (eventfd_write(bells[i % 3], 1)) abort();
    }
    return unused;
}

int main(void) {
    int all = epoll_create1(0);
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = bells[i] = eventfd(0, 0)};
        if (epoll_ctl(all, EPOLL_CTL_ADD, bells[i], &event)) die("epoll_ctl");
    }
    pthread_t thread;
    pthread_create(&thread, 0, ringer, 0);
    for (int i = 0; i < EPISODES; i++) {
        struct epoll_event event;
        struct episode *episode = begin("epoll");
        if (epoll_wait(all, &event, 1, -1) != 1) die("epoll_wait");
        end(episode);
        episode->waker = ringer_tid;
        eventfd_t times;
        if (eventfd_read(event.data.fd, &times)) die("eventfd_read");
    }
    pthread_join(thread, 0);
    print_episodes();
    return 0;
}
