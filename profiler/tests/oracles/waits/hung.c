// Threads that never run again: each sleeps in a separate function, and prints the function, the
// system call and the object it waits for. The argument is a folder.
#include "wait.h"

#include <poll.h>

// Newer processors have only the general call.
#ifdef SYS_poll
#define POLL "poll"
#else
#define POLL "ppoll"
#endif

struct sleeper {
    const char *function, *reason, *call, *file;
    void *(*start)(void *);
    pthread_t thread;
    long tid;
};

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all, both;
static char regular[4096], fifo[4096];

// A frame between the start of the thread and the wait, which keeps registers that unwinding needs.
#define SLEEPS(name, before, call)                                                                                     \
    NOINLINE static void name(struct sleeper *self) {                                                                  \
        before;                                                                                                        \
        pthread_barrier_wait(&all);                                                                                    \
        call;                                                                                                          \
        self->tid++;                                                                                                   \
    }                                                                                                                  \
    static void *start_##name(void *self) {                                                                            \
        ((struct sleeper *)self)->tid = gettid();                                                                      \
        name(self);                                                                                                    \
        return self;                                                                                                   \
    }

static int pipe_ends[2];
static int descriptor_of_fifo;
static char byte;

SLEEPS(locks_one, (pthread_mutex_lock(&one), pthread_barrier_wait(&both)), pthread_mutex_lock(&other))
SLEEPS(locks_other, (pthread_mutex_lock(&other), pthread_barrier_wait(&both)), pthread_mutex_lock(&one))
SLEEPS(reads_pipe, (void)0, (void)!read(pipe_ends[0], &byte, 1))
SLEEPS(reads_fifo, (void)0, (void)!read(descriptor_of_fifo, &byte, 1))
SLEEPS(opens_fifo, (void)0, (void)!open(fifo, O_WRONLY))
SLEEPS(sleeps_long, (void)0, sleep(100000))
SLEEPS(polls, (void)0, poll(&(struct pollfd){pipe_ends[0], POLLIN, 0}, 1, -1))

int main(int argc, char **argv) {
    if (argc != 2) {
        return 2;
    }
    snprintf(regular, sizeof regular, "%s/read fifo", argv[1]);
    snprintf(fifo, sizeof fifo, "%s/opened fifo", argv[1]);
    if (pipe(pipe_ends) || mkfifo(regular, 0600) || mkfifo(fifo, 0600)) {
        die("pipes");
    }
    descriptor_of_fifo = open(regular, O_RDWR);
#define SLEEPER(name, why, what, of) {.function = #name, .reason = why, .call = what, .file = of, .start = start_##name}
    struct sleeper sleepers[] = {
        SLEEPER(locks_one, "lock", "futex", ""),
        SLEEPER(locks_other, "lock", "futex", ""),
        SLEEPER(reads_pipe, "pipe", "read", ""),
        SLEEPER(reads_fifo, "pipe", "read", regular),
        SLEEPER(opens_fifo, "pipe", "openat", fifo),
        SLEEPER(sleeps_long, "sleep", "clock_nanosleep", ""),
        SLEEPER(polls, "poll", POLL, ""),
    };
    unsigned number = sizeof sleepers / sizeof *sleepers;
    pthread_barrier_init(&all, NULL, number + 1);
    pthread_barrier_init(&both, NULL, 2);
    for (unsigned i = 0; i < number; i++) {
        if (pthread_create(&sleepers[i].thread, NULL, sleepers[i].start, &sleepers[i])) {
            die("pthread_create");
        }
    }
    pthread_barrier_wait(&all);
    sleep_ms(200);
    for (unsigned i = 0; i < number; i++) {
        struct sleeper *s = &sleepers[i];
        printf("{\"tid\":%ld,\"function\":\"%s\",\"reason\":\"%s\",\"call\":\"%s\",\"file\":\"%s\"}\n", s->tid, s->function,
               s->reason, s->call, s->file);
    }
    fflush(stdout);
    fclose(stdout);
    pthread_join(sleepers[0].thread, NULL);
    return 0;
}
