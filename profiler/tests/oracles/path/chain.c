// A chain of six threads, each of which works and then wakes the next by another primitive: a
// condition variable, a pipe, a socket, epoll, a semaphore, and a signal to the first thread.
// The slowest link is "socket", which burns 60 ms.
#include "path.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool is_set;
static int pipe_ends[2], sockets[2], bell, all;
static sem_t semaphore;
static pthread_t first;

static void *by_condition(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!is_set) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    burn_ms(20);
    piece_ends("condition");
    if (write(pipe_ends[1], "x", 1) != 1) die("write");
    return unused;
}

static void *by_pipe(void *unused) {
    char byte;
    if (read(pipe_ends[0], &byte, 1) != 1) die("read");
    burn_ms(30);
    piece_ends("pipe");
    if (send(sockets[1], "x", 1, 0) != 1) die("send");
    return unused;
}

static void *by_socket(void *unused) {
    char byte;
    if (recv(sockets[0], &byte, 1, 0) != 1) die("recv");
    burn_ms(60);
    piece_ends("socket");
    if (eventfd_write(bell, 1)) die("eventfd_write");
    return unused;
}

static void *by_epoll(void *unused) {
    struct epoll_event event;
    if (epoll_wait(all, &event, 1, -1) != 1) die("epoll_wait");
    burn_ms(25);
    piece_ends("epoll");
    sem_post(&semaphore);
    return unused;
}

static void *by_semaphore(void *unused) {
    while (sem_wait(&semaphore)) {
    }
    burn_ms(15);
    piece_ends("semaphore");
    pthread_kill(first, SIGUSR1);
    return unused;
}

int main(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, 0);
    first = pthread_self();
    bell = eventfd(0, 0);
    all = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || sem_init(&semaphore, 0, 0)
        || epoll_ctl(all, EPOLL_CTL_ADD, bell, &event))
        die("primitives");
    pthread_t threads[] = {
        start_thread("condition", by_condition), start_thread("pipe", by_pipe), start_thread("socket", by_socket),
        start_thread("epoll", by_epoll), start_thread("semaphore", by_semaphore),
    };
    sleep_ms(50);
    window_begins();
    burn_ms(10);
    piece_ends("first");
    pthread_mutex_lock(&mutex);
    is_set = true;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    int signal;
    if (sigwait(&signals, &signal)) die("sigwait");
    burn_ms(12);
    window_ends("signal");
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++) pthread_join(threads[i], 0);
    return 0;
}
