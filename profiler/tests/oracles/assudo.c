// Runs a program as sudo does for a user: as root, with root's environment, as a child of a process
// of that user that has the environment of this one.
//
//   assudo UID PROGRAM ARGUMENT...
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int go[2], status = 0;
    char byte = 0;
    if (argc < 3 || pipe(go) != 0) return 2;
    uid_t user = (uid_t)atoi(argv[1]);
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        if (read(go[0], &byte, 1) != 1) return 2;
        close(go[0]);
        clearenv();
        setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
        setenv("HOME", "/root", 1);
        setenv("ROOTS_SECRET", "swordfish", 1);
        setenv("SUDO_UID", argv[1], 1);
        setenv("SUDO_GID", argv[1], 1);
        execv(argv[2], argv + 2);
        return 127;
    }
    if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) return 2;
    // Like a login process, whose environment is readable.
    prctl(PR_SET_DUMPABLE, 1);
    if (write(go[1], &byte, 1) != 1 || waitpid(child, &status, 0) < 0) return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
