// Every way to create a process: fork with exec, grandchildren, vfork, exec from a second thread, a
// daemon by double fork.
//
// forkexec BURN MODE, where BURN is the program that the last process of each chain becomes ("burn 150").
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

static char *burn;

static void become_burn(const char *argv0) {
    execl(burn, argv0, "150", (char *)0);
    _exit(99);
}

static void *exec_from_here(void *unused) {
    (void)unused;
    become_burn("from-thread");
    return 0;
}

static void finish(pid_t child) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status) exit(98);
}

NOINLINE void in_forked_child(void) { spin_cpu_ms(150); }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    burn = argv[1];
    const char *mode = argv[2];
    pid_t child;
    if (!strcmp(mode, "exec")) {
        if (!(child = fork())) become_burn("forked");
        finish(child);
    } else if (!strcmp(mode, "noexec")) {
        if (!(child = fork())) {
            prctl(PR_SET_NAME, "only-forked");
            in_forked_child();
            _exit(0);
        }
        finish(child);
    } else if (!strcmp(mode, "grandchild")) {
        if (!(child = fork())) {
            pid_t grandchild = fork();
            if (!grandchild) become_burn("grandchild");
            finish(grandchild);
            _exit(0);
        }
        finish(child);
    } else if (!strcmp(mode, "vfork")) {
        if (!(child = vfork())) become_burn("vforked");
        finish(child);
    } else if (!strcmp(mode, "thread")) {
        if (!(child = fork())) {
            pthread_t thread;
            pthread_create(&thread, 0, exec_from_here, 0);
            for (;;) pause();
        }
        finish(child);
    } else if (!strcmp(mode, "daemon")) {
        int gone[2];
        if (pipe(gone)) return 3;
        if (!(child = fork())) {
            setsid();
            if (fork()) _exit(0);
            close(gone[0]);
            become_burn("daemon");
        }
        close(gone[1]);
        finish(child);
        // Only the daemon inherits the write end: end of file means that it ended.
        char byte;
        while (read(gone[0], &byte, 1) > 0) {}
    } else if (!strcmp(mode, "hostile")) {
        if (!(child = fork())) {
            prctl(PR_SET_NAME, "a b\n\xff\x1b[31m");
            in_forked_child();
            _exit(0);
        }
        finish(child);
    } else {
        return 2;
    }
    return 0;
}
