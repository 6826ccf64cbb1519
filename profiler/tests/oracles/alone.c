// Lists what a program sees of how it was started, to find anything that a recorder changed. One fact per line,
// "name<tab>value".
//
//   alone FILE [FOLDER]: writes the facts to FILE; those about mounts cover the machine's mounts and those below
//   FOLDER.
//
// Left out is what differs between any two runs: process ids, times, memory sizes, inodes of pipes.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#ifndef PR_GET_MEMORY_MERGE
#define PR_GET_MEMORY_MERGE 68
#endif

extern char **environ;
static char *facts;
static size_t facts_len;
static FILE *out;

static void fact(const char *name, const char *format, ...) {
    va_list values;
    fprintf(out, "%s\t", name);
    va_start(values, format);
    vfprintf(out, format, values);
    va_end(values);
    fputc('\n', out);
}

static void link_fact(const char *name, const char *path) {
    char target[4096];
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = 0;
    // The inode number of a pipe or socket differs in each run.
    if (!strncmp(target, "pipe:", 5) || !strncmp(target, "socket:", 7))
        *strchr(target, ':') = 0;
    fact(name, "%s", length < 0 ? strerror(errno) : target);
}

// Writes the lines of a file, one fact each; with `wanted`, only lines that begin with one of these words.
static void lines(const char *name, const char *path, const char *const *wanted) {
    char line[65536];
    FILE *file = fopen(path, "re");
    if (!file) {
        fact(name, "%s", strerror(errno));
        return;
    }
    for (int number = 0; fgets(line, sizeof line, file); number++) {
        char key[64];
        int is_wanted = !wanted;
        line[strcspn(line, "\n")] = 0;
        for (const char *const *word = wanted; word && *word; word++)
            is_wanted |= !strncmp(line, *word, strlen(*word));
        snprintf(key, sizeof key, "%s %d", name, number);
        if (is_wanted)
            fact(wanted ? name : key, "%s", line);
    }
    fclose(file);
}

static void descriptors(void) {
    char path[64], name[64], line[256];
    // The directory's descriptor is the lowest free number, as in a bare run.
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));) {
        int number = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || number == dirfd(folder))
            continue;
        snprintf(name, sizeof name, "fd %d", number);
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        link_fact(name, path);
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", number);
        FILE *info = fopen(path, "re");
        while (info && fgets(line, sizeof line, info))
            if (!strncmp(line, "flags:", 6) || !strncmp(line, "lock:", 5))
                fact(name, "%s %.*s", "info", (int)strcspn(line, "\n"), line);
        if (info)
            fclose(info);
        fact(name, "close-on-exec %d owner %d", fcntl(number, F_GETFD), fcntl(number, F_GETOWN));
    }
    closedir(folder);
}

static void terminal(void) {
    struct termios mode;
    struct winsize size;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    fact("terminal", "%s", tty < 0 ? strerror(errno) : "yes");
    if (tty < 0)
        return;
    fact("terminal foreground", "%d", tcgetpgrp(tty) == getpgrp());
    fact("terminal session", "%d", tcgetsid(tty) == getsid(0));
    if (!tcgetattr(tty, &mode))
        fact("terminal mode", "%x %x %x %x", mode.c_iflag, mode.c_oflag, mode.c_cflag, mode.c_lflag);
    if (!ioctl(tty, TIOCGWINSZ, &size))
        fact("terminal size", "%d %d", size.ws_row, size.ws_col);
    close(tty);
}

static void family(void) {
    char path[64], name[64] = "?";
    int status;
    snprintf(path, sizeof path, "/proc/%d/comm", getppid());
    FILE *comm = fopen(path, "re");
    if (comm && fgets(name, sizeof name, comm))
        name[strcspn(name, "\n")] = 0;
    if (comm)
        fclose(comm);
    fact("parent", "%s", name);
    fact("parent relation", "same session %d, same group %d", getsid(getppid()) == getsid(0), getpgid(getppid()) == getpgrp());
    fact("leads", "session %d, group %d", getsid(0) == getpid(), getpgrp() == getpid());
    fact("group leads its session", "%d", getpgrp() == getsid(0));
    fact("children", "%s", waitpid(-1, &status, WNOHANG) < 0 ? strerror(errno) : "some");
}

static void signals(void) {
    stack_t stack;
    sigset_t pending;
    struct itimerval timer;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        char name[32];
        snprintf(name, sizeof name, "signal %d", number);
        if (!sigaction(number, NULL, &action) && action.sa_handler != SIG_DFL)
            fact(name, "%s", action.sa_handler == SIG_IGN ? "ignored" : "handled");
    }
    sigpending(&pending);
    fact("signals pending", "%d", !sigisemptyset(&pending));
    sigaltstack(NULL, &stack);
    fact("signal stack", "%d", stack.ss_flags);
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
        if (!getitimer(which, &timer))
            fact("timer", "%d %d", which, timer.it_value.tv_sec || timer.it_value.tv_usec);
}

static void scheduling(void) {
    uint32_t attributes[16] = {sizeof attributes};
    // struct sched_attr: size, policy, flags (64 bits), nice, priority, runtime, deadline, period, clamps
    long failed = syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0);
    for (int word = 1; !failed && word < 14; word++)
        fact("sched_attr", "%d %x", word, attributes[word]);
    fact("ioprio", "%ld", syscall(SYS_ioprio_get, 1, 0));
    fact("timer slack", "%d", prctl(PR_GET_TIMERSLACK));
    int nice = 0; // the number of the group differs in each session
    FILE *group = fopen("/proc/self/autogroup", "re");
    if (group && fscanf(group, "%*s nice %d", &nice) == 1)
        fact("autogroup", "nice %d", nice);
    if (group)
        fclose(group);
}

static void controls(void) {
    const struct {
        const char *name;
        int number;
    } by_value[] = {{"dumpable", PR_GET_DUMPABLE},         {"keepcaps", PR_GET_KEEPCAPS},
                    {"securebits", PR_GET_SECUREBITS},     {"no_new_privs", PR_GET_NO_NEW_PRIVS},
                    {"thp_disable", PR_GET_THP_DISABLE},   {"seccomp", PR_GET_SECCOMP},
                    {"timing", PR_GET_TIMING},             {"mce_kill", PR_MCE_KILL_GET},
                    {"io_flusher", PR_GET_IO_FLUSHER},     {"memory_merge", PR_GET_MEMORY_MERGE},
                    {NULL, 0}};
    int word = 0;
    for (int at = 0; by_value[at].name; at++)
        fact(by_value[at].name, "%d", prctl(by_value[at].number, 0, 0, 0, 0));
    for (int which = 0; which < 3; which++)
        fact("speculation", "%d %d", which, prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0));
    if (!prctl(PR_GET_PDEATHSIG, &word))
        fact("pdeathsig", "%d", word);
    if (!prctl(PR_GET_CHILD_SUBREAPER, &word))
        fact("child_subreaper", "%d", word);
    fact("personality", "%x", personality(0xffffffff));
    fact("at_secure", "%lu", getauxval(AT_SECURE));
    fact("execfn", "%s", (char *)getauxval(AT_EXECFN));
    fact("session keyring", "%ld", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}

static void kernels_lists(const char *folder) {
    static const char *const status[] = {"Umask", "TracerPid", "Uid", "Gid", "Groups", "Kthread", "Threads", "SigPnd", "ShdPnd", "SigBlk",
                                         "SigIgn", "SigCgt", "Cap", "NoNewPrivs", "Seccomp", "Speculation", "Cpus_allowed:", "Mems_allowed:",
                                         "CoreDumping", "THP_enabled", "x86_Thread", NULL};
    static const char *const spaces[] = {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"};
    static const char *const links[] = {"exe", "cwd", "root"};
    static const char *const files[] = {"limits", "cgroup", "comm", "coredump_filter", "oom_score_adj", "timers", "attr/current", "loginuid",
                                        "sessionid", "uid_map", "timens_offsets", "cpuset"};
    char path[64], line[8192];
    lines("status", "/proc/self/status", status);
    for (size_t at = 0; at < sizeof spaces / sizeof *spaces; at++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[at]);
        link_fact(path + 11, path);
    }
    for (size_t at = 0; at < sizeof links / sizeof *links; at++) {
        snprintf(path, sizeof path, "/proc/self/%s", links[at]);
        link_fact(links[at], path);
    }
    for (size_t at = 0; at < sizeof files / sizeof *files; at++) {
        snprintf(path, sizeof path, "/proc/self/%s", files[at]);
        lines(files[at], path, NULL);
    }
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && fgets(line, sizeof line, mounts)) {
        char point[4096];
        line[strcspn(line, "\n")] = 0;
        // Other lines change with what else runs on the machine.
        if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1 &&
            (!strcmp(point, "/") || !strncmp(point, "/sys", 4) || !strncmp(point, "/proc", 5) || !strncmp(point, "/dev", 4) ||
             (folder && !strncmp(point, folder, strlen(folder)))))
            fact("mount", "%s", line);
    }
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strchr(line, '/');
        line[strcspn(line, "\n")] = 0;
        if (name)
            fact("mapped", "%s", name);
    }
}

// Mounts and unmounts a file system without programs; reports whether each succeeds at once.
static void mounted(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/mounted", folder);
    if (geteuid() || mkdir(path, 0700))
        return;
    fact("mount tmpfs", "%s", mount("alone", path, "tmpfs", 0, NULL) ? strerror(errno) : "done");
    snprintf(path, sizeof path, "%s/mounted/file", folder);
    close(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    snprintf(path, sizeof path, "%s/mounted", folder);
    fact("unmount tmpfs", "%s", umount(path) ? strerror(errno) : "done");
    rmdir(path);
}

int main(int argc, char **argv) {
    mode_t mask = umask(0);
    umask(mask);
    out = open_memstream(&facts, &facts_len);
    if (argc < 2 || !out)
        return 2;
    descriptors();
    fact("umask", "%o", mask);
    for (int at = 0; at < argc; at++)
        fact("argument", "%s", argv[at]);
    for (char **variable = environ; *variable; variable++)
        fact("environment", "%s", *variable);
    terminal();
    family();
    signals();
    scheduling();
    controls();
    kernels_lists(argv[2]);
    if (argv[2])
        mounted(argv[2]);
    fclose(out);
    FILE *file = fopen(argv[1], "we");
    return !file || fwrite(facts, 1, facts_len, file) != facts_len || fclose(file);
}
