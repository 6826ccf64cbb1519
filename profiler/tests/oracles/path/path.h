// A program whose critical path is known: it prints the time span of one thread, and the pieces of
// the path in it, in order, each with the thread that worked meanwhile.
//
// A piece ends where the thread has done its part, just before it wakes the next one; the next
// piece begins there. So the pieces are adjacent by construction, and their sum is the span.
#pragma once
#include "../waits/wait.h"

struct piece {
    const char *name;
    long tid;
    uint64_t end;
};

static struct piece pieces[64];
static unsigned piece_count;
static uint64_t window_start;
static long window_tid;

// The time span begins, in the thread that the path is of.
__attribute__((unused)) static void window_begins(void) {
    window_tid = gettid();
    window_start = now_ns();
}

// The current thread's piece ends. One thread at a time is on the path.
__attribute__((unused)) static void piece_ends(const char *name) {
    if (piece_count >= sizeof pieces / sizeof *pieces) abort();
    pieces[piece_count] = (struct piece){name, gettid(), now_ns()};
    piece_count++;
}

// Ends the last piece, and with it the span.
__attribute__((unused)) static void window_ends(const char *name) {
    piece_ends(name);
    uint64_t end = pieces[piece_count - 1].end, start = window_start;
    printf("{\"window\":%ld,\"start\":%lu,\"end\":%lu}\n", window_tid, start, end);
    for (unsigned i = 0; i < piece_count; i++) {
        printf("{\"piece\":\"%s\",\"tid\":%ld,\"start\":%lu,\"end\":%lu}\n", pieces[i].name, pieces[i].tid, start, pieces[i].end);
        start = pieces[i].end;
    }
    fflush(stdout);
}

__attribute__((unused)) static pthread_t start_thread(const char *name, void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, 0, run, 0)) die("pthread_create");
    pthread_setname_np(thread, name);
    return thread;
}
